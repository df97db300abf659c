"""Writes the reference pages from the code: `.venv/bin/python docs/reference.py`.

`tables.md` has every table and column; the texts are the docstrings behind the schemas.
"""

from pathlib import Path

import duckdb
import pyarrow as pa

from tercet.models.generation import DETAIL
from tercet.storage.catalog.snapshot import METADATA
from tercet.tasks.described import Described, described
from tercet.tasks.stages import known_schemas, stages

DOCS = Path(__file__).parent

# Headings, and where the schemas of their tables are.
CHAPTERS = {
    "The corpus": ("tasks/corpus/",),
    "Knowledge": ("tasks/knowledge/",),
    "What was generated": ("models/", "tasks/synthesis/"),
    "Judgement": ("tasks/scoring/",),
    "Contamination": ("tasks/guarding/",),
    "Training": ("tasks/training/",),
    "Figures": ("tasks/evaluation/",),
    "What was left out, and what is odd": ("tasks/stage.py", "tasks/", "storage/warnings.py"),
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
    said = described()
    left = list(schemas)
    lines = [TABLES]
    for chapter, places in CHAPTERS.items():
        here = [name for name in left if said[name].place.startswith(places)]
        left = [name for name in left if name not in here]
        if here:
            lines.append(f"## {chapter}\n")
        if chapter == "The store itself":
            lines.append(f"{OF_THE_STORE}\n")
        for name in here:
            lines += _table(name, schemas[name], said[name])
    assert not left, f"no chapter of docs/reference.py has {left}"
    return "\n".join(lines)


def _table(name: str, schema: pa.Schema, said: Described) -> list[str]:
    makers = [f"`{stage.name}`" for stage in stages() if name in stage.tables]
    made = "" if not makers or len(makers) > 8 else f"Made by {', '.join(dict.fromkeys(makers))}."
    rows = [(column, kind, said.columns[column]) for column, kind in _types(schema).items()]
    if name == "candidates":
        inner = described()["detail"].columns
        kinds = _types(pa.schema(list(DETAIL)))
        rows += [(f"detail.{column}", kind, inner[column]) for column, kind in kinds.items()]
    return [
        f"### {name}\n",
        *(f"{part}\n" for part in (made, said.text) if part),
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
        found = connection.execute(f"DESCRIBE SELECT *{added} FROM described").fetchall()
    return {name: "STRUCT" if kind.startswith("STRUCT") else kind for name, kind, *_ in found}


PAGES = {"tables.md": tables}

if __name__ == "__main__":
    for page, write in PAGES.items():
        (DOCS / page).write_text(write(), encoding="utf-8")
