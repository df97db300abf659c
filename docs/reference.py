"""Writes the reference pages from the code: `.venv/bin/python docs/reference.py`.

`tables.md` has every table and column; the texts are the docstrings behind the schemas.
`recipe_keys.md` has every key of a recipe; the texts are those of the pydantic models.
`errors.md` has the sentences of all foreseen failures, read out of the code that raises them.
`sql.md` has a table of reasons (`tasks/reasons.tsv`) and one of warnings (`tasks/findings`).
"""

import ast
import re
import types
import typing
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema

from tercet.flows.recipe.model import Recipe
from tercet.models.generation import DETAIL
from tercet.storage.catalog.snapshot import METADATA
from tercet.tasks.config import description_of
from tercet.tasks.findings.answers import NO_TEXT, UNLIKE
from tercet.tasks.findings.registry import FINDINGS, KEPT
from tercet.tasks.findings.trainings import BEFORE
from tercet.tasks.reasons import REASONS
from tercet.tasks.stages import Described, described, known_schemas, stages

DOCS = Path(__file__).parent

# Headings, and where the schemas of their tables are.
CHAPTERS = {
    "The corpus": ("tasks/corpus/",),
    "Knowledge": ("tasks/knowledge/",),
    "What was generated": ("models/", "tasks/synthesis/"),
    "Judgement": ("tasks/scoring/",),
    "Search": ("tasks/retrieval/",),
    "Contamination": ("tasks/guarding.py",),
    "Training": ("tasks/training/",),
    "Figures": ("tasks/evaluation/",),
    "What was left out, and what is odd": ("tasks/stage.py", "tasks/", "storage/artifacts.py"),
    "The store itself": ("storage/",),
}
TABLES = """\
# Tables

Every table that a run makes, with every column. [sql.md](sql.md) says how to query them.

*Made by `docs/reference.py` from the docstrings behind the schemas.*
"""
OF_THE_STORE = (
    "These tables span all runs; `--run` does not narrow them. Times are in UTC, without a zone."
)


def tables() -> str:
    """The page of tables."""
    schemas = {**known_schemas(), **METADATA}
    descriptions = described()
    left = list(schemas)
    lines = [TABLES]
    for chapter, places in CHAPTERS.items():
        here = [name for name in left if descriptions[name].place.startswith(places)]
        left = [name for name in left if name not in here]
        if here:
            lines.append(f"## {chapter}\n")
        if chapter == "The store itself":
            lines.append(f"{OF_THE_STORE}\n")
        for name in here:
            lines += _table(name, schemas[name], descriptions[name])
    assert not left, f"no chapter of docs/reference.py has {left}"
    return "\n".join(lines)


def _table(name: str, schema: pa.Schema, table: Described) -> list[str]:
    makers = [f"`{stage.name}`" for stage in stages() if name in stage.tables]
    made_by = (
        "" if not makers or len(makers) > 8 else f"Made by {', '.join(dict.fromkeys(makers))}."
    )
    rows = [(column, kind, table.columns[column]) for column, kind in _types(schema).items()]
    if name == "candidates":
        inner = described()["detail"].columns
        kinds = _types(pa.schema(list(DETAIL)))
        rows += [(f"detail.{column}", kind, inner[column]) for column, kind in kinds.items()]
    return [
        f"### {name}\n",
        *(f"{part}\n" for part in (made_by, table.text) if part),
        "| column | type | meaning |",
        "|---|---|---|",
        *(f"| `{column}` | {kind} | {meaning} |" for column, kind, meaning in rows),
        "",
    ]


def _types(schema: pa.Schema) -> dict[str, str]:
    """The type of each column in DuckDB's words, and of those that the table's view computes."""
    computed = {name.decode(): sql.decode() for name, sql in (schema.metadata or {}).items()}
    added = "".join(f", {sql} AS {name}" for name, sql in computed.items())
    rows = schema.empty_table()
    with duckdb.connect() as connection:
        connection.register("described", rows)
        fields = connection.execute(f"DESCRIBE SELECT *{added} FROM described").fetchall()
    return {name: "STRUCT" if kind.startswith("STRUCT") else kind for name, kind, *_ in fields}


KEYS = """\
# Keys of a recipe

Every key, by the key that it stands under. [recipes.md](recipes.md) tells how to use them.

*Made by `docs/reference.py` from the recipe's pydantic models.*

`[]` stands for a list index (in `--set` a number, from 0), `METHOD` for a method's name, `NAME` for
one of yours. A default of "none" means that leaving the key out, or setting it to `null`, turns the
feature off. Exceptions: `extract_generate: null` means its defaults, so leave the key out; and
`train`, `run.llm.endpoints` and a part's `models` take no `null`: write `train.phases=[]`, `[]` and
`{}`.
"""


def recipe_keys() -> str:
    """The page of keys."""
    keys = list(_keys(Recipe))
    lines = [KEYS, "## The recipe itself\n", *_rows(key for key in keys if "." not in key[0])]
    for top in Recipe.model_fields:
        within = [key for key in keys if key[0].startswith((f"{top}.", f"{top}[]."))]
        if within:
            lines += [f"## {top}\n", *_rows(within)]
    return "\n".join(lines)


def _rows(keys: Iterator[tuple[str, FieldInfo]] | list[tuple[str, FieldInfo]]) -> list[str]:
    rows: dict[str, list[list[str]]] = {}
    for name, field in keys:
        assert field.description, f"{name} has no description in the code"
        description = description_of(field).replace("|", "\\|")
        rows.setdefault(name, []).append([_default(field), _values(field), description])
    lines = []
    for name, alike in rows.items():
        # A key that two forms of a model have, each with a meaning of its own.
        cells = (" · ".join(dict.fromkeys(filter(None, cell))) for cell in zip(*alike, strict=True))
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return ["| key | default | values | meaning |", "|---|---|---|---|", *lines, ""]


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key that a recipe may have, in dots."""
    for field_name, field in model.model_fields.items():
        if any(isinstance(one, SkipJsonSchema) for one in field.metadata):
            continue
        name = field.alias or field_name
        yield prefix + name, field
        for inner, place in _models(field.annotation):
            if name in ("models", "generators", "sts_sets"):
                place = place.replace("METHOD", "NAME")
            yield from _keys(inner, f"{prefix}{name}{place}.")


def _models(annotation: Any, place: str = "") -> Iterator[tuple[type[BaseModel], str]]:
    """The models inside a type, and how one of them is addressed: a[], a.METHOD or a."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, place
    origin = typing.get_origin(annotation)
    if origin in (list, tuple):
        place += "[]"
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        by_relation = typing.get_origin(typing.get_args(annotation)[0]) is typing.Literal
        place += ".RELATION" if by_relation else ".METHOD"
    for inner in typing.get_args(annotation) if origin is not typing.Literal else ():
        yield from _models(inner, place)


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "required"
    if isinstance(value, BaseModel):
        return ""
    if value is None or value in ((), [], {}, ""):
        return "none" if value is None else "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"`{value}`"
    if isinstance(value, list | tuple):
        return ", ".join(f"`{one}`" for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _values(field: FieldInfo) -> str:
    """The names or the range that are allowed, as far as the type says them."""
    return ", ".join(dict.fromkeys([*_literals(field.annotation), *_ranges(field)]))


def _literals(annotation: Any) -> Iterator[str]:
    if typing.get_origin(annotation) is typing.Literal:
        yield from (f"`{one}`" for one in typing.get_args(annotation) if isinstance(one, str))
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated, tuple):
        for inner in typing.get_args(annotation):
            yield from _literals(inner)


def _ranges(field: FieldInfo) -> Iterator[str]:
    inner = [one for part in typing.get_args(field.annotation) for one in _constraints(part)]
    for limits in (field.metadata, *inner):
        low = next((one for one in limits if isinstance(one, Ge | Gt)), None)
        high = next((one for one in limits if isinstance(one, Le | Lt)), None)
        least = None if low is None else _number(low.ge if isinstance(low, Ge) else low.gt)
        most = None if high is None else _number(high.le if isinstance(high, Le) else high.lt)
        if isinstance(low, Ge) and isinstance(high, Le):
            yield f"{least} to {most}"
        elif least and most:
            yield (
                f"{least} {'<' if isinstance(low, Gt) else '≤'} x "
                f"{'<' if isinstance(high, Lt) else '≤'} {most}"
            )
        elif least:
            yield f"{'>' if isinstance(low, Gt) else '≥'} {least}"
        elif most:
            yield f"{'<' if isinstance(high, Lt) else '≤'} {most}"


def _number(bound: Any) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"


def _constraints(annotation: Any) -> Iterator[list[Any]]:
    """What `Annotated` says of each alternative of a type."""
    if typing.get_origin(annotation) is typing.Annotated:
        metadata = typing.get_args(annotation)[1:]
        yield [limit for one in metadata for limit in getattr(one, "metadata", [one])]


ERRORS = """\
# Errors

A failure that is foreseen ends with one sentence and its kind in brackets, such as
`[missing_file]`. Braces stand for what differs from case to case.

*Made by `docs/reference.py` from the code.*
"""
# The first argument of these is a kind of tercet/errors.py, the second the sentence; `Damaged` has
# its kind.
_RAISED = re.compile(
    "BadInput|InvalidSetting|Misplaced|StoreError|FullDisk|UnknownRef|SeveralRuns|SqlError|Unusable|"
    "Stopped|CeilingReached|ModelMissing|NothingToChoose|StageFailed|ServerError|Damaged"
)


def errors() -> str:
    """The page of errors: every kind with its sentences, in the order of the alphabet."""
    kinds = re.findall(r'"(\w+)",  # (.+)', (DOCS.parent / "tercet" / "errors.py").read_text())
    sentences: dict[str, set[str]] = {kind: set() for kind, _ in kinds}
    for room in ("tercet", "flows", "tasks", "models", "storage"):
        for path in (DOCS.parent / room).rglob("*.py"):
            for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(function, ast.FunctionDef):
                    for kind, sentence in _sentences(function):
                        sentences[kind].add(sentence)
    lines = [ERRORS]
    for kind, meaning in kinds:
        lines += [f"## {kind}\n", f"{meaning[0].upper()}{meaning[1:]}.\n"]
        lines += [f"- {sentence}" for sentence in sorted(sentences[kind])] + [""]
    return "\n".join(lines)


def _sentences(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """The kind and the sentence of each failure, also where a variable holds the sentence."""
    variables: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            variables.setdefault(node.targets[0].id, []).append(node.value)
    for node in ast.walk(function):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        kind, message, *_ = [ast.Constant("damaged")] * (name == "Damaged") + [
            *node.args,
            None,
            None,
        ]
        raised = _RAISED.fullmatch(name) and message is not None
        if raised and isinstance(kind, ast.Constant) and isinstance(kind.value, str):
            for text in variables.get(getattr(message, "id", ""), [message]):
                if re.search(r"[a-z]{2,} [a-z]", re.sub(r"\{.*?\}", "", _written(text))):
                    yield kind.value, _written(text)


def _written(text: ast.expr) -> str:
    if isinstance(text, ast.Constant):
        return str(text.value)
    if isinstance(text, ast.JoinedStr):
        return "".join(_written(part) for part in text.values)
    if isinstance(text, ast.BinOp):
        return _written(text.left) + _written(text.right)
    if isinstance(text, ast.FormattedValue):
        value = text.value
        return f"{{{getattr(value, 'id', getattr(value, 'attr', '…'))}}}"
    return "{…}"


REASONS_HEAD = "| stage | reason | a row of it |\n|---|---|---|\n"
KINDS_HEAD = "| stage | kind | what it says |\n|---|---|---|\n"


def sql() -> str:
    """The page of queries, its tables of reasons and of warnings written anew."""
    reasons = [
        (one.stages, one.name, re.sub(r"\b(?:ingest|parse)\.\w+", r"`\g<0>`", one.text))
        for one in REASONS
    ]
    by_stage = [*FINDINGS.items(), *KEPT.items(), ("synthesise", (UNLIKE, NO_TEXT))]
    kinds = [
        (stage, one.kind, re.sub(r"\{(\w+).*?\}", r"*\1*", one.sentence))
        for stage, findings in by_stage
        for one in (*findings, *(BEFORE if stage == "train" else ()))
    ]
    text = (DOCS / "sql.md").read_text(encoding="utf-8")
    for head, rows in ((REASONS_HEAD, reasons), (KINDS_HEAD, kinds)):
        before, _, after = text.partition(head)
        text = before + head + _listed(rows) + re.sub(r"\A(\|.*\n)*", "", after)
    return text


def _listed(rows: list[tuple[str, str, str]]) -> str:
    """Lines of a table that names each stage once."""
    lines = []
    for key, group in groupby(rows, lambda row: row[0]):
        named = ", ".join(f"`{stage}`" for stage in key.split(", "))
        for _, name, text in group:
            lines.append(f"| {named} | `{name}` | {text} |\n")
            named = ""
    return "".join(lines)


PAGES = {"tables.md": tables, "recipe_keys.md": recipe_keys, "errors.md": errors, "sql.md": sql}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (DOCS / page).write_text(write(), encoding="utf-8")
