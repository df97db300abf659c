"""What a run would do and cost, without doing any of it."""
