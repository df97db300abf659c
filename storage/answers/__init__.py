"""The append-only pool of what language models answered."""
