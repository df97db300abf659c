"""Scores candidates and selects triplets: vectors, scores, thresholds."""
