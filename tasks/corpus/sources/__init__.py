"""Readers of what a corpus is made of: files, and the docstrings of installed packages."""
