"""Training stages: the evaluator and the encoder."""
