"""One module a command of `tercet`: what it does, without the parsing of its arguments."""
