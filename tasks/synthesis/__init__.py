"""Candidates for sentences: by rules or by a language model, and what is kept of them."""
