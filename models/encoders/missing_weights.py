"""Checkpoints that lack weights: transformers draws these, and prints a table of them."""

import contextlib
import logging
import re
import threading
from collections.abc import Iterator

from transformers.utils import logging as transformers_logging

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
# The filter sees what all threads load.
_ALONE = threading.Lock()


class _Table(logging.Filter):
    """Keeps the table from being printed, and what it says of each weight."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, str] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        lines = _STYLE.sub("", record.getMessage()).splitlines()
        if not lines or "LOAD REPORT" not in lines[0]:
            return True
        for line in lines:
            name, *rest = (cell.strip() for cell in line.split("|"))
            if rest:
                self.said[name] = rest[0]
        return False


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """What is loaded within has all of its weights: ValueError with one sentence where it has not.

    A pooler may be missing, since vectors are made of states. Heads that are left over say nothing.
    """
    table, logger = _Table(), logging.getLogger("transformers.modeling_utils")
    with _ALONE:
        level = transformers_logging.get_verbosity()
        transformers_logging.set_verbosity(min(level, logging.WARNING))
        logger.addFilter(table)
        try:
            yield
        except RuntimeError as error:
            fault = _fault(table.said)
            # What torch says of a layer behind the transformer.
            if fault is None and "loading state_dict" in str(error):
                fault = " ".join(str(error).split())
            if fault is None:
                raise
            raise ValueError(fault) from error
        finally:
            logger.removeFilter(table)
            transformers_logging.set_verbosity(level)
    if fault := _fault(table.said):
        raise ValueError(fault)


def _fault(said: dict[str, str]) -> str | None:
    lacking = [name for name, status in said.items() if status == "MISSING"]
    lacking = [name for name in lacking if "pooler" not in name.split(".")]
    wrong = [name for name, status in said.items() if status == "MISMATCH"]
    if lacking:
        return f"its weights lack {lacking[0]}{_more(lacking)}"
    if wrong:
        return f"its weights have another shape than its config.json says: {wrong[0]}{_more(wrong)}"
    return None


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""
