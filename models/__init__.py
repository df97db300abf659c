"""Encoders, losses, generators and the text rules behind them. No input or output of ours."""
