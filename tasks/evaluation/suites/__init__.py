"""Readers of evaluation sets: scored pairs, labelled texts, rankings, duplicates."""
