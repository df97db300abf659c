"""Queries that a document's own author wrote: its title, and its headings.

Each is written as somebody types it: without its number and marks, and a heading that other places
have too behind the title of its page. It stands for the first passage below it, which is trained on
without its context, since the query stands there; where the text has the words as well, or where
many passages share them, `parse` and `select` refuse the query.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from tercet.models.generation import Method, MethodInput, Output, Params, methods
from tercet.models.text.passages import above, as_typed

# The place of a query in a document: the number of names in the path down to it.
Depth = Callable[[Sequence[str]], int]
# How many places, each a path in a file, a query is about, by its words in lower case.
Places: TypeAlias = Counter[str]


def count_places(passages: Iterable[pa.RecordBatch]) -> Places:
    """How many places could be asked for by each query; passages: source and context of all."""
    places = set[tuple[str, ...]]()
    for batch in passages:
        columns = (batch[name].to_pylist() for name in ("source", "context"))
        for source, context in set(zip(*columns, strict=True)):
            path = above(context)
            places.update((source, *path[:depth]) for depth in range(2, len(path) + 1))
    return Counter(query.casefold() for _, *path in places for query in _queries(path))


def _queries(path: Sequence[str]) -> list[str]:
    """What may be typed for the last name of a path, from the shortest on: the name, behind the
    title of its page, and behind title and the name above it."""
    title, *between, name = map(as_typed, path)
    longer = [(title, name), *([(title, between[-1], name)] if between else [])]
    return [name, *(" ".join(dict.fromkeys(names)) for names in longer)]


def _query(path: Sequence[str], places: Places) -> str:
    """The shortest that is of no other place, or the longest."""
    if len(path) == 1:
        return as_typed(path[0])
    queries = _queries(path)
    return next((query for query in queries if places[query.casefold()] < 2), queries[-1])


def _first_below(
    operation: str, depth: Depth, inputs: MethodInput, params: Params, seed: int
) -> pa.Table:
    """For each path of that depth its last name, with the first passage below it."""
    output = Output()
    chosen, headings = set(inputs.anchors.tolist()), set[tuple[Any, tuple[str, ...]]]()
    names = ("sentence_id", "doc_id", "source", "context")
    columns = zip(*(inputs.sentences[name].to_pylist() for name in names), strict=True)
    first, last, under = None, None, None
    for row, (passage_id, doc_id, source, context) in enumerate(columns):
        path = above(context)
        # A long file is several documents, one behind the other: the next goes on below the same
        # title and a heading. Rows of a table that share a title, a category, have no headings.
        if doc_id != last and (len(path) < 2 or (source, path[:1]) != under):
            first = doc_id
        last, under = doc_id, (source, path[:1])
        place = (first, tuple(path[: depth(path)]))
        if not place[1] or place in headings:
            continue
        headings.add(place)
        if row in chosen:
            query = _query(place[1], inputs.places or Counter())
            output.add(passage_id, query, operation)
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
            open_passages=opened,
            as_anchor=True,
            each="passages",
            languages=(),
        )
        for name, depth, opened in (("title", _title, None), ("heading", _heading, count_places))
    )
)
