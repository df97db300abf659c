"""Texts of evaluation sets among those trained on: found, and left out."""
