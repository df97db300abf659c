"""All stages: the catalog finds every table here, and a newcomer sees the whole pipeline."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa

from tercet.tasks import guarding
from tercet.tasks.corpus import ingest, labelled, passages, sample
from tercet.tasks.evaluation import (
    awareness,
    define,
    evaluate,
    halves,
    judgements,
    labels,
    measure_generators,
    paraphrase,
)
from tercet.tasks.knowledge import extract, extract_generate, extract_parse, graph
from tercet.tasks.retrieval import negatives, passage_vectors
from tercet.tasks.scoring import embed, mine, select
from tercet.tasks.scoring.scorers import SCORERS
from tercet.tasks.stage import REJECTS, Stage
from tercet.tasks.synthesis import fitted, parse, prompted, synthesise
from tercet.tasks.training import (
    choose,
    count_tokens,
    entry_matrix,
    fit_evaluator,
    fit_generator,
    fit_gense,
    fit_pair,
    pretrain,
    train,
    whiten,
)


def stages() -> tuple[Stage, ...]:
    """All stages in the order of a pipeline."""
    return (
        ingest.STAGE,
        ingest.PRETRAIN,
        sample.STAGE,
        passages.STAGE,
        labelled.STAGE,
        extract.STAGE,
        extract_generate.STAGE,
        extract_parse.STAGE,
        graph.STAGE,
        synthesise.STAGE,
        prompted.STAGE,
        fitted.STAGE,
        parse.STAGE,
        embed.STAGE,
        passage_vectors.STAGE,
        *(scorer.stage for scorer in SCORERS.values()),
        mine.STAGE,
        select.STAGE,
        negatives.STAGE,
        guarding.SENTENCES,
        guarding.TRIPLETS,
        pretrain.STAGE,
        fit_generator.STAGE,
        fit_gense.STAGE,
        fit_pair.STAGE,
        count_tokens.STAGE,
        fit_evaluator.STAGE,
        entry_matrix.STAGE,
        train.STAGE,
        whiten.STAGE,
        choose.STAGE,
        awareness.STAGE,
        halves.STAGE,
        labels.STAGE,
        judgements.STAGE,
        paraphrase.STAGE,
        measure_generators.STAGE,
        define.STAGE,
        evaluate.STAGE,
    )


def known_schemas() -> dict[str, pa.Schema]:
    """Columns of every table that some stage makes."""
    schemas = {name: schema for stage in stages() for name, schema in stage.tables.items()}
    return {**schemas, "rejects": REJECTS}


# The meaning of each table and column is read from the docstrings behind their schemas.
#
# Such a docstring begins with the tables' names and ends with their columns:
#
#     Table `anchors`. One row per corpus that gives any …
#
#     Key: `corpus`.
#
#     Columns:
#         corpus: the corpus's name in the recipe
#
# It is written beside the schema and is no code, so that an edit makes no rows anew.

_ROOMS = ("tasks", "models", "storage")
_HEAD = re.compile(r"(?:Table|Struct) ((?:`\w+`(?:, )?)+)\.\s*")
_COLUMN = re.compile(r"^    (\w+): ", re.MULTILINE)
_KEY = re.compile(r"^Key: (.+)\.$", re.MULTILINE)


@dataclass(frozen=True)
class Described:
    """A table in words: text, as Markdown; columns: name to meaning; place: its module's file."""

    text: str
    columns: Mapping[str, str]
    place: str

    @property
    def key(self) -> list[str]:
        """The columns that together identify a row; empty if none do."""
        key = _KEY.search(self.text)
        return [] if key is None else re.findall(r"`(\w+)`", key[1])


@cache
def described() -> dict[str, Described]:
    """Every table by its name, and the struct `detail`."""
    here = Path(__file__).parents[1]
    tables: dict[str, Described] = {}
    for room in _ROOMS:
        for path in sorted((here / room).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if '"""Table `' in source or '"""Struct `' in source:
                place = path.relative_to(here).as_posix()
                for names, text, columns in _docstrings(source):
                    tables |= {name: Described(text, columns, place) for name in names}
    return tables


def meaning(table: str, column: str) -> str:
    """The meaning of a column (of a struct's field as `detail.old`); empty if nothing is known."""
    table, _, inner = (column if "." in column else f"{table}.{column}").partition(".")
    return described()[table].columns.get(inner, "") if table in described() else ""


def _docstrings(source: str) -> Iterator[tuple[list[str], str, dict[str, str]]]:
    for node in ast.parse(source).body:
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        head = _HEAD.match(str(node.value.value))
        if head is None:
            continue
        text, _, listed = str(node.value.value)[head.end() :].partition("Columns:\n")
        parts = _COLUMN.split(listed)[1:]
        columns = {
            name: " ".join(words.split())
            for name, words in zip(parts[::2], parts[1::2], strict=True)
        }
        yield re.findall(r"`(\w+)`", head[1]), text.strip(), columns
