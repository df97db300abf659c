"""Sentence encoders: loading, forms, encoding, export."""
