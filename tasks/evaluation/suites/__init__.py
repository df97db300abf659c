"""Readers of what encoders are measured on: scored pairs, labelled texts, rankings, duplicates."""
