"""Entities and quantities of sentences, and the graph of them."""
