"""English grammar and word lists that several rules share."""
