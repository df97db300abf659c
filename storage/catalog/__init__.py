"""DuckDB views over the store, read only."""
