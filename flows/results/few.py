"""How many questions it takes until a figure tells a difference from chance."""

# Of fewer queries, pairs or examples no figure counts as better or worse, and none is shown with an
# interval: resamples of a handful repeat the same few, so that it comes out far too narrow.
FEW = 30
# What stands in the interval's place.
TOO_FEW = "too few"
WHY = f"{TOO_FEW.capitalize()}: fewer than {FEW} questions cannot tell a difference from chance."
# Of these more are held out where there is more text; the others come from files.
_HELD_OUT = ("retrieval", "labels")


def is_few(n: int | None) -> bool:
    """Whether a figure of so many questions tells nothing; not where their number is unknown."""
    return n is not None and n < FEW


def more_of(suite: str, split: str) -> str:
    """The end of a sentence: how to get more of a suite's questions; empty if files hold them."""
    return f": take more text or a larger `ingest.{split}`" if suite in _HELD_OUT else ""
