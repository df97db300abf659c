"""Finds texts of evaluation sets among the training rows, and leaves them out."""
