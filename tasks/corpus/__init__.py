"""From files to sentences: ingest, splits, the sample of anchors."""
