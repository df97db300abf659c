"""Checkpoints that lack weights: transformers draws these at random, and prints a table of them."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from torch import nn
from transformers import modeling_utils

_THEIRS = modeling_utils.log_state_dict_report
_WITHIN = threading.local()


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """What this thread loads within has all of its weights: ValueError with one sentence if not.

    A pooler may be missing, since vectors are made of states: the model then has none. Heads that
    are left over say nothing.
    """
    before = getattr(_WITHIN, "refused", False)
    _WITHIN.refused = True
    try:
        yield
    except RuntimeError as error:
        # What torch says of a layer behind the transformer.
        if "loading state_dict" not in str(error):
            raise
        raise ValueError(" ".join(str(error).split())) from error
    finally:
        _WITHIN.refused = before


def _report(model: nn.Module, *args: Any, **named: Any) -> None:
    """Stands for the function of transformers that tells what a checkpoint lacked."""
    if not getattr(_WITHIN, "refused", False):
        _THEIRS(model, *args, **named)
        return
    found: Any = named["loading_info"]
    if told := [*found.error_msgs, *found.conversion_errors.values()]:
        raise ValueError(" ".join(str(told[0]).split()))
    lacking, wrong = sorted(found.missing_keys), sorted(key for key, *_ in found.mismatched_keys)
    # A random pooler would be saved, and copied later as the backbone's own.
    for name in {name for name in map(_pooler, (*lacking, *wrong)) if name is not None}:
        model.set_submodule(name, nn.Identity())
    lacking, wrong = ([n for n in names if _pooler(n) is None] for names in (lacking, wrong))
    if lacking:
        raise ValueError(f"its weights lack {lacking[0]}{_more(lacking)}")
    if wrong:
        raise ValueError(
            f"its weights have another shape than its config.json says: {wrong[0]}{_more(wrong)}"
        )


def _pooler(weight: str) -> str | None:
    """The name of the pooler that has this weight; None where none has."""
    parts = weight.split(".")
    return ".".join(parts[: parts.index("pooler") + 1]) if "pooler" in parts[:-1] else None


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


modeling_utils.log_state_dict_report = _report
