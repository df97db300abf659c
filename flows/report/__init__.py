"""Reports on runs as one HTML file: what was made and rejected, and the results."""
