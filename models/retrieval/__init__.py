"""Search by words (BM25), by vectors and by both, and measures of rankings.

A ranking is an int64 array (queries, depth) of document numbers, best first, padded with `NONE`.
"""
