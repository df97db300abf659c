"""Arms of a recipe side by side, and their figures."""
