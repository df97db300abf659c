"""Reports on runs as one HTML file."""
