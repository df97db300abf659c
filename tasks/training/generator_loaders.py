"""The forms of a generator that have code of their own, on which no other form depends."""

from tercet.tasks.training.vaegpt_loader import load_vaegpt

UNVERSIONED = True

LOADERS = {"vaegpt": load_vaegpt}
