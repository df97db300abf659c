"""What the rows of a labelled corpus are: one module a kind."""
