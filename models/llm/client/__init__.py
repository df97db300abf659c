"""The client of a language model's endpoints."""
