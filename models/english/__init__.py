"""Facts of the English language that several rules share."""
