"""Model and data cards in the Hugging Face hub's format, written from the catalog."""
