"""The append-only pool of language models' answers."""
