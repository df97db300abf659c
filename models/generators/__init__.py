"""Fitted generators: how their text is laid out, and how they write it."""
