"""Candidates to triplets: vectors, scores, thresholds."""
