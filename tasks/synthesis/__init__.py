"""Generates texts for sentences by rules or a language model, and parses them to candidates."""
