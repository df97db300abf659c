"""Recipe to steps: what each reads, and the fingerprint of what it makes."""
