"""Entities and quantities in text, the lexicon that types them, and their graph."""
