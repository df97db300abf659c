"""The recipe: its model, and reading it from YAML."""
