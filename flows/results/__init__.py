"""Reads the results of runs: names, figures, comparisons."""
