"""Entities and quantities in sentences, and their graph."""
