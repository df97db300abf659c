"""Reranking: queries with candidates that answer them and candidates that do not, as in MTEB.

`reranking/NAME.jsonl`, plain or compressed: each line an object with `query` (a text, or several
of one meaning), `positive` and `negative` (lists of texts). Or a task of the package `mteb`, if
that is installed and its data are available.
"""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tercet.models.measures.metrics import average_precision
from tercet.tasks.corpus.sources.tables import checked_rows
from tercet.tasks.evaluation.suites.layout import content_digest, is_text, named_file
from tercet.tasks.evaluation.suites.task import (
    Kind,
    LeftOut,
    Part,
    Scores,
    Task,
    check_spread,
)
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from tercet.tasks.evaluation.encoding import Encoded

FOLDER = "reranking"
RERANKING_TASKS = ("AskUbuntu", "SciDocs", "StackOverflow", "Mind")
MTEB = "mteb:"


@dataclass(frozen=True)
class RankedQuery:
    """A query, in one or several wordings, and its candidates.

    MTEB scores a candidate by its highest cosine with any of the wordings.
    """

    wordings: tuple[str, ...]
    positive: tuple[str, ...]
    negative: tuple[str, ...]

    def texts(self) -> tuple[str, ...]:
        """The wordings, then the positive candidates, then the negative candidates."""
        return (*self.wordings, *self.positive, *self.negative)

    def cosines(self, encoded: "Encoded") -> npt.NDArray[np.float64]:
        """Each candidate's cosine with its nearest wording; positive candidates come first."""
        candidates = encoded.of((*self.positive, *self.negative))
        nearest = (encoded.of(self.wordings) @ candidates.T).max(axis=0)
        return np.asarray(nearest, dtype=np.float64)


@dataclass(frozen=True)
class RankedTask(Task):
    """Queries with their candidates. skipped: queries without a positive or without a negative.

    There is nothing to rank for such queries; MTEB leaves them out as well.
    """

    name: str
    queries: tuple[RankedQuery, ...]
    skipped: int = 0
    suite, split = FOLDER, "test"

    def texts(self) -> list[str]:
        return [text for query in self.queries for text in query.texts()]

    def digest(self) -> str:
        return content_digest(
            (str(len(query.wordings)), str(len(query.positive)), *query.texts())
            for query in self.queries
        )

    def scores(self, encoded: "Encoded") -> list[Scores]:
        """The average precision of each query."""
        ranked = [query.cosines(encoded) for query in self.queries]
        spread = max(float(np.ptp(cosines)) for cosines in ranked)
        check_spread(spread, f"The ranking of {self.name}", "candidates of a query")
        precisions = [
            average_precision(np.arange(len(cosines)) < len(query.positive), cosines)
            for query, cosines in zip(self.queries, ranked, strict=True)
        ]
        part = Part("all", np.array(precisions, dtype=np.float64))
        return [Scores(self.data(), "map", (part,), averaged=self.name in RERANKING_TASKS)]

    def left_out(self) -> list[LeftOut]:
        if not self.skipped:
            return []
        detail = f"{self.name}: queries without a positive or without a negative: {self.skipped}"
        return [("no_ranking", detail, None)]


def read_task(root: Path, name: str) -> RankedTask:
    """The queries of one file, or of a task of mteb.

    Raises: BadInput that names file and line for a line of another form, an empty text, and
        a file without a query that has candidates of both kinds.
    """
    if name.startswith(MTEB):
        return from_mteb(name.removeprefix(MTEB))
    path = named_file(root, FOLDER, KIND.suffixes, name)
    return _task(name, str(path), checked_rows(path))


def from_mteb(name: str) -> RankedTask:
    """A reranking task of the package `mteb`, by its name there (`AskUbuntuDupQuestions`).

    Reads both forms of tasks: rows of query, positive and negative, and (from mteb 2 on) queries
    and a corpus with the candidates of each query.
    Raises: BadInput if the package is missing, has no such task, or its data are not available.
    """
    task = _mteb_task(name)
    try:
        task.load_data()
        queries = list(_mteb_queries(task))
    except BadInput:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BadInput(
            "unreachable",
            f"The data of {MTEB}{name} are not available: {reason}. Put them into "
            f"{FOLDER}/{name}.jsonl, or leave the task out of `tasks`.",
        ) from error
    return _task(MTEB + name, MTEB + name, queries)


def mteb_revision(name: str) -> str:
    """`PATH@REVISION` of the task's data set, which represents its content in a fingerprint.

    Read from the package, without a network. Raises BadInput.
    """
    dataset = _mteb_task(name).metadata.dataset
    return f"{dataset['path']}@{dataset['revision']}"


def _mteb_task(name: str) -> Any:
    try:
        mteb = importlib.import_module("mteb")
    except ImportError as error:
        raise BadInput(
            "missing_package",
            f"The task {MTEB}{name} needs the package mteb ({error}): pip install mteb, or put "
            f"the data into {FOLDER}/{name}.jsonl.",
        ) from None
    try:
        task = mteb.get_task(name)
    except KeyError:
        raise BadInput(
            "unknown_name", f"The package mteb has no task {name!r}: see its list of tasks."
        ) from None
    kind = str(task.metadata.type)
    if kind != "Reranking":
        raise BadInput(
            "bad_value", f"{MTEB}{name} is a task of {kind}, and only Reranking is read from mteb."
        )
    return task


def _mteb_queries(task: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Place and values of each query of the splits that the task is evaluated on."""
    name, splits = task.metadata.name, list(task.metadata.eval_splits)
    for key, held in task.dataset.items():
        # mteb 1 has splits; later versions have subsets (languages), each with splits.
        parts = {key: held} if key in splits or not isinstance(held, Mapping) else held
        for split, data in parts.items():
            if split not in splits:
                continue
            where = f"{MTEB}{name}, {split}"
            joined = isinstance(data, Mapping) and "relevant_docs" in data
            rows = _joined(where, data) if joined else data
            for number, row in enumerate(rows, start=1):
                yield f"{where}, query {number}", row


def _joined(where: str, data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Queries with the texts of their candidates; a title stands before its text."""
    ranked = data.get("top_ranked")
    if ranked is None:
        raise BadInput("no_rows", f"{where}: there are no candidates to rank, only a corpus.")
    corpus = {
        row["id"]: f"{row.get('title') or ''} {row['text']}".strip() for row in data["corpus"]
    }
    for row in data["queries"]:
        relevant = data["relevant_docs"].get(row["id"], {})
        candidates = ranked.get(row["id"], [])
        yield {
            "query": row["text"],
            "positive": [corpus[c] for c in candidates if relevant.get(c, 0) > 0],
            "negative": [corpus[c] for c in candidates if relevant.get(c, 0) <= 0],
        }


def _task(
    name: str, source: str, rows: Iterator[tuple[str, Mapping[str, Any]]] | Sequence[Any]
) -> RankedTask:
    queries, skipped = [], 0
    for where, values in rows:
        query = values.get("query")
        query_texts = [query] if isinstance(query, str) else query
        sides = [
            _texts(value, key, where)
            for key, value in (
                ("query", query_texts),
                ("positive", values.get("positive")),
                ("negative", values.get("negative")),
            )
        ]
        if not sides[0]:
            raise BadInput("bad_row", f"{where}: the query holds no text.")
        if sides[1] and sides[2]:
            queries.append(RankedQuery(*sides))
        else:
            skipped += 1
    if not queries:
        raise BadInput(
            "no_rows",
            f"{source} holds no query with positive and negative candidates: there is nothing to "
            "evaluate on.",
        )
    return RankedTask(name, tuple(queries), skipped)


def _texts(value: Any, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        what = "is missing" if value is None else f"is a {type(value).__name__}"
        raise BadInput("bad_row", f"{where}: {key} {what}, where a list of texts is needed.")
    for text in value:
        if not is_text(text):
            raise BadInput("bad_row", f"{where}: {key} holds {text!r}, which is not text.")
    return tuple(value)


KIND = Kind(
    FOLDER,
    RERANKING_TASKS,
    lambda root, name, split: read_task(root, name),
    suffixes=(".jsonl",),
)
