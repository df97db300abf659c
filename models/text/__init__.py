"""Language-independent work on text."""
