"""Methods whose generations a language model says: what each asks, and about which knowledge."""
