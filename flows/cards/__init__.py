"""Cards in the Hugging Face hub's form, written from the catalog."""
