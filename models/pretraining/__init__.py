"""Language models trained on plain text: their tokenizers, batches and networks."""
