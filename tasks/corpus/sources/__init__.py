"""Readers of corpora: files, and the docstrings of installed packages."""
