"""Rules that rewrite sentences without a model, one module per family."""
