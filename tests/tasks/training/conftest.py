"""The rows that the stages of training read."""

from train_stage import inputs

__all__ = ["inputs"]
