"""Queries that a document's own author wrote: its title, and its headings.

Each stands for the first passage below it. That passage is trained on without its context, since
the query stands there; where the text has the words as well, or where many passages share them,
`parse` and `select` refuse the query.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from tercet.models.generation import Method, MethodInput, Output, Params, methods
from tercet.models.text.passages import above

# The place of a query in a document: the number of names in the path down to it.
Depth = Callable[[Sequence[str]], int]


def _first_below(
    operation: str, depth: Depth, given: MethodInput, params: Params, seed: int
) -> pa.Table:
    """For each path of that depth its last name, with the first passage below it."""
    output = Output()
    chosen, seen = set(given.anchors.tolist()), set[tuple[Any, tuple[str, ...]]]()
    names = ("sentence_id", "doc_id", "source", "context")
    columns = zip(*(given.sentences[name].to_pylist() for name in names), strict=True)
    first, last, under = None, None, None
    for row, (passage_id, doc_id, source, context) in enumerate(columns):
        path = above(context)
        # A long file is several documents, one behind the other: the next goes on below the same
        # title and a heading. Rows of a table that share a title, a category, have no headings.
        if doc_id != last and (len(path) < 2 or (source, path[:1]) != under):
            first = doc_id
        last, under = doc_id, (source, path[:1])
        place = (first, tuple(path[: depth(path)]))
        if not place[1] or place in seen:
            continue
        seen.add(place)
        if row in chosen:
            output.add(passage_id, place[1][-1], operation)
    return output.table()


def _title(path: Sequence[str]) -> int:
    return 1


def _heading(path: Sequence[str]) -> int:
    """The whole path; none where it is the title alone."""
    return len(path) if len(path) > 1 else 0


METHODS = methods(
    *(
        Method(
            *(name, "positive", "topic", partial(_first_below, name, depth)),
            as_anchor=True,
            each="passages",
        )
        for name, depth in (("title", _title), ("heading", _heading))
    )
)
