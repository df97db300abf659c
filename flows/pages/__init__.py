"""HTML for whoever shows something: blocks, charts, one page, and what must be hidden."""
