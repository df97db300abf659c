"""Search: by words (BM25), by vectors, by both; and how good a ranking is.

A ranking is an array of places in the list of documents, best first, int64 (queries, depth), with
`NONE` behind the last document found.
"""
