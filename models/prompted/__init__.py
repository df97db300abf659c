"""Methods whose generations a language model writes: what each asks, and about what."""
