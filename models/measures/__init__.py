"""Metrics with their intervals and comparisons."""
