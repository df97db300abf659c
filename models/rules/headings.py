"""Queries from a document's title and headings.

A query is written as a user would type it: without numbering and marks. A heading that occurs in
several places is preceded by the title of its page. Its positive is the first passage below the
heading, without its context, which contains the query. `parse` and `select` refuse queries whose
words are in the passage too, or that many passages share.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from tercet.models.config import Config
from tercet.models.generation import Method, MethodInput, Output, methods
from tercet.models.text.passages import above, as_typed

# The number of places (paths in files) with each query, by the casefolded query.
Places: TypeAlias = Counter[str]


def count_places(passages: Iterable[pa.RecordBatch]) -> Places:
    """The number of places with each query. passages: batches of source and context."""
    places = set[tuple[str, ...]]()
    for batch in passages:
        columns = (batch[name].to_pylist() for name in ("source", "context"))
        for source, context in set(zip(*columns, strict=True)):
            path = above(context)
            places.update((source, *path[:depth]) for depth in range(2, len(path) + 1))
    return Counter(query.casefold() for _, *path in places for query in _queries(path))


def _queries(path: Sequence[str]) -> list[str]:
    """Queries for the last name of a path, the shortest first: the name; with the title of its
    page; with the title and the name above."""
    title, *between, name = map(as_typed, path)
    longer = [(title, name), *([(title, between[-1], name)] if between else [])]
    return [name, *(" ".join(dict.fromkeys(names)) for names in longer)]


def _query(path: Sequence[str], places: Places) -> str:
    """The shortest query that no other place has, else the longest."""
    if len(path) == 1:
        return as_typed(path[0])
    queries = _queries(path)
    return next((query for query in queries if places[query.casefold()] < 2), queries[-1])


def _first_below(operation: str, inputs: MethodInput, params: Config, seed: int) -> pa.Table:
    """A query for each title or, with the operation `heading`, for each path of headings; its
    positive is the first passage below it."""
    output = Output()
    chosen, headings = set(inputs.anchors.tolist()), set[tuple[Any, tuple[str, ...]]]()
    names = ("sentence_id", "doc_id", "source", "context")
    columns = zip(*(inputs.sentences[name].to_pylist() for name in names), strict=True)
    first, last, under = None, None, None
    for row, (passage_id, doc_id, source, context) in enumerate(columns):
        path = above(context)
        # A long file is split into several adjacent documents: the next one continues under the
        # same title and a heading. Table rows with the same title (a category) have no headings.
        if doc_id != last and (len(path) < 2 or (source, path[:1]) != under):
            first = doc_id
        last, under = doc_id, (source, path[:1])
        query_path = path[:1] if operation == "title" else path if len(path) > 1 else ()
        place = (first, tuple(query_path))
        if not place[1] or place in headings:
            continue
        headings.add(place)
        if row in chosen:
            query = _query(place[1], inputs.places or Counter())
            output.add(passage_id, query, operation)
    return output.table()


METHODS = methods(
    *(
        Method(
            *(name, "positive", "topic", partial(_first_below, name)),
            open_passages=opened,
            as_anchor=True,
            each="passages",
            languages=(),
        )
        for name, opened in (("title", None), ("heading", count_places))
    )
)
