"""Training: batches, the loop, checkpoints and the choice among them."""
