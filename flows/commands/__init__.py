"""The commands of `tercet`, one module each; their arguments are parsed in `cli.py`."""
