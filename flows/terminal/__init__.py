"""What a person at a terminal sees: failures, progress, tables."""
