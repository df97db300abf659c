"""Terminal output: failures, progress, tables."""
