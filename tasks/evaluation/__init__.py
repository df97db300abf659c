"""Measures an encoder: suites, figures, intervals."""
