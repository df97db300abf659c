"""Stage `judgements`: the user's own questions with the passages that answer them.

`suites/own_questions.py` reads the tables, `answering_passages.py` finds the passages.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from tercet.models import seeding
from tercet.tasks.corpus import ingest
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.corpus.sources.tables import label_of
from tercet.tasks.evaluation.answering_passages import (
    COLUMNS,
    NotFound,
    Passages,
    find_answers,
    index_passages,
    split_question,
)
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.evaluation.suites.own import RetrievalSource, TaskName
from tercet.tasks.evaluation.suites.own_questions import (
    NAMES,
    Question,
    Questions,
    Unusable,
    find_questions,
    read_questions,
)
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import BadInput, Config, Stage, Work

NAME = "judgements"
JUDGEMENTS = pa.schema(
    [
        ("task", pa.string()),
        ("query_id", pa.uint64()),
        ("query", pa.string()),
        ("split", pa.string()),
        ("unit", pa.string()),
        ("passage_id", pa.uint64()),
        ("grade", pa.int32()),
    ]
)
"""Table `judgements`. The questions of the tables in `evaluate.retrieval_sets`: one row for each
passage that answers a question. Questions of which nothing was found are in `rejects`.

Key: `task`, `query_id`, `passage_id`.

Columns:
    task: the table's name in the recipe
    query_id: id of the question's text
    query: the question
    split: `test`; `dev` where a column `split` says so
    unit: what is ranked: `passage` if each row of the table has a quote; else `document` if one has
        an id; else `file`. A document, or a file, ranks where its best passage does
    passage_id: → `passages.passage_id`; of a file or document each of its passages
    grade: how well it answers, which is its gain: from the table's column of judgements, else 1
"""

# A question answered by a larger share of what is ranked, and by at least so many, is too broad to
# tell encoders apart.
BROAD, LEAST = 0.1, 5
NOTES: Mapping[str, str] = {
    "repeated": "judge again what an earlier row has judged",
    "broad": "are answered by more than a tenth of everything that is ranked",
    "unread": "are read without a column of theirs",
}
"""Reasons of rows that are used in spite of a fault, with the words of their warning."""


class JudgementsConfig(Config):
    """sets: tables by the names of their tasks. splits: the splits that are measured.

    chosen_on: tasks whose dev questions decide which checkpoint is kept. corpora: whose rows may
    have ids.
    """

    sets: dict[TaskName, RetrievalSource]
    splits: tuple[Split, ...] = ("test",)
    chosen_on: tuple[str, ...] = ()
    corpora: list[CorpusConfig] = Field(min_length=1)
    max_line_bytes: int


def externals(config: JudgementsConfig) -> dict[str, Path | str]:
    """The tables, and the digests of the corpora. Raises BadInput for a table that is missing."""
    tables = {f"questions/{name}": find_questions(one.source) for name, one in config.sets.items()}
    return {**tables, **{c.name: reader_of(c.source).digest(c) for c in config.corpora}}


def run(work: Work) -> None:
    """Emits `judgements`, and a reject for each row without an answer or with a note of `NOTES`.

    Raises: BadInput for a table without any answer, and for one without a question in the splits
        that it is needed for.
    """
    table = work.inputs["passages"].table("passages", COLUMNS)
    for name, judgements, left_out in judge_tables(work.config, table):
        work.emit(NAME, judgements)
        lost = [seeding.text_id(row.text) if row.text else None for row in left_out]
        details = [f"{name}: row {row.row}: {row.detail}" for row in left_out]
        reasons, texts = [row.reason for row in left_out], [row.text for row in left_out]
        work.emit("rejects", rejects(NAME, lost, reasons, details, texts))


def judge_tables(
    config: JudgementsConfig, passages: pa.Table
) -> Iterator[tuple[str, pa.Table, list[Unusable]]]:
    """The name of each table, its rows of `judgements`, and its rows without an answer or with a
    note of `NOTES`.

    passages: with `COLUMNS`. Raises as `run`.
    """
    for name, one in config.sets.items():
        questions = read_questions(one)
        _check_splits(config, name, one, questions.rows)
        ids = _ids(config, questions) if "id" in questions.columns else ()
        yield name, *_judge(name, one, questions, index_passages(passages, ids))


def _judge(
    name: str, one: RetrievalSource, questions: Questions, passages: Passages
) -> tuple[pa.Table, list[Unusable]]:
    quoted = all(row.quote is not None for row in questions.rows)
    unit = "passage" if quoted else "document" if "id" in questions.columns else "file"
    left_out = [*questions.unusable, *questions.unread]
    pairs: dict[tuple[str, str, int], int] = {}
    judged: dict[tuple[str, str, frozenset[int]], Question] = {}
    for row in (one for whole in questions.rows for one in split_question(whole, passages)):
        answers_of: Sequence[int] | NotFound = NotFound("no_document", "it names no document")
        if (row.file, row.id, row.quote) != (None, None, None):
            answers_of = find_answers(row, passages)
        if isinstance(answers_of, NotFound):
            left_out.append(Unusable(row.row, answers_of.reason, answers_of.detail, row.text))
            continue
        first = judged.setdefault((row.split, row.text, frozenset(answers_of)), row)
        if first is not row:
            grades = "" if first.grade == row.grade else f", with {row.grade} for {first.grade}"
            detail = f"what it names is judged in row {first.row}{grades}"
            left_out.append(Unusable(row.row, "repeated", detail, row.text))
        for pair in ((row.split, row.text, place) for place in answers_of):
            pairs[pair] = max(row.grade, pairs.get(pair, row.grade))
    relevant = {pair: grade for pair, grade in pairs.items() if grade > 0}
    unanswered = {pair[:2] for pair in pairs} - {pair[:2] for pair in relevant}
    rows = {key[:2]: row.row for key, row in reversed(judged.items())}
    detail = "nothing is judged to answer it"
    left_out += [Unusable(rows[one], "no_judgement", detail, one[1]) for one in unanswered]
    left_out += _broad(unit, relevant, rows, passages)
    if not relevant:
        raise BadInput("no_rows", _none_found(one, questions, left_out, passages))
    splits, texts, places = zip(*relevant, strict=True)
    table = pa.table(
        [
            pa.repeat(pa.scalar(name), len(relevant)),
            pa.array(seeding.text_ids(list(texts)), pa.uint64()),
            pa.array(texts, pa.string()),
            pa.array(splits, pa.string()),
            pa.repeat(pa.scalar(unit), len(relevant)),
            passages.table["passage_id"].take(pa.array(places, pa.int64())),
            pa.array(relevant.values(), pa.int32()),
        ],
        schema=JUDGEMENTS,
    )
    return table, sorted(left_out)


def _broad(
    unit: str,
    pairs: Iterable[tuple[str, str, int]],
    rows: Mapping[tuple[str, str], int],
    passages: Passages,
) -> Iterator[Unusable]:
    """Notes on questions that are answered by a large part of everything that is ranked."""
    unit_of: Sequence[object] = range(passages.table.num_rows)
    if unit != "passage":
        documents = passages.table["doc_id"].to_pylist()
        unit_of = documents if unit == "document" else [passages.file_of[d] for d in documents]
    answers: dict[tuple[str, str], set[object]] = {}
    for split, text, place in pairs:
        answers.setdefault((split, text), set()).add(unit_of[place])
    total = len(set(unit_of))
    for one, places in answers.items():
        if len(places) >= LEAST and len(places) > BROAD * total:
            detail = f"{len(places):,} of {total:,} {unit}s answer it"
            yield Unusable(rows[one], "broad", detail, one[1])


def _none_found(
    one: RetrievalSource, questions: Questions, left_out: Sequence[Unusable], passages: Passages
) -> str:
    first = min(
        row for row in left_out if row not in questions.unusable and row.reason not in NOTES
    )
    message = (
        f"None of the {len(questions.rows):,} rows of {one.source} names a passage of this run "
        f"(row {first.row}: {first.detail})"
    )
    if first.reason == "no_passage":
        column, instead = questions.columns["quote"][0], "and name files in a column `file`"
        if questions.columns.keys() & {"file", "id"}:
            unit = "row" if "id" in questions.columns else "file"
            instead = f"so that all of the {unit} counts as the answer"
        return (
            f"{message}: write words of the passages into the column {column!r}, or leave it out, "
            f"{instead}."
        )
    key, names = ("id", passages.ids) if "id" in questions.columns else ("file", passages.files)
    shown = ", ".join(repr(name) for name in list(names)[:3])
    column = questions.columns.get(key, [key])[0]
    return f"{message}; there are {shown}: write the column {column!r} so."


def _check_splits(
    config: JudgementsConfig, name: str, one: RetrievalSource, rows: Sequence[Question]
) -> None:
    splits = {row.split for row in rows}
    needed = {"dev"} if name in config.chosen_on else set(config.splits)
    if splits.isdisjoint(needed):
        raise BadInput(
            "no_rows",
            f"{one.source} has no question of split {' or '.join(sorted(needed))}: write the split "
            "into a column `split` (rows without it are test).",
        )


def _ids(config: JudgementsConfig, questions: Questions) -> Iterator[tuple[str, str, str]]:
    """Corpus, path and id of each row of the corpora's tables that have a column of ids.

    The column of ids is named as in the questions, or else has a usual name.
    """
    names = [questions.columns["id"][0].lower(), *NAMES["id"], "_id"]
    for corpus in config.corpora:
        try:
            tables = list(reader_of(corpus.source).tables(corpus, config.max_line_bytes))
        except BadInput:  # texts without columns
            continue
        for table in tables:
            lower = {column.strip().lower(): column for column in table.columns}
            column = next((lower[name] for name in names if name in lower), None)
            if column is None:
                continue
            for row in table.rows([column]):
                doc_id = label_of(row.values.get(column))
                if doc_id is not None:
                    yield corpus.name, f"{table.name}:{row.number}", doc_id


STAGE = Stage(
    name=NAME,
    config=JudgementsConfig,
    tables={NAME: JUDGEMENTS},
    run=run,
    seeded=False,
    externals=externals,
    locations=(*ingest.STAGE.locations, "sets.*.source"),
    uses=ingest.readers,
)
