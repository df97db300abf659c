"""Runs as one HTML file: what was made, what was refused, what came of it."""
