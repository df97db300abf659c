"""HTML pages: blocks, charts, the page itself, and the redaction of private text."""
