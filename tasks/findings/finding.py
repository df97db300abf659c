"""A finding: a query over a step's tables, the condition of its warning, and the wording."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel

from tercet.models.errors import Unusable
from tercet.models.plugins import package_of
from tercet.models.text.words import words_sql
from tercet.storage.rows import Rows, quoted
from tercet.tasks.findings.warning import StageWarning, age
from tercet.tasks.reasons import remedies
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.stage import Work, connection

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Row: TypeAlias = dict[str, Any]
# How many reasons a warning lists, and how many of their remedies.
LISTED, MENDED = 4, 3


@dataclass(frozen=True)
class Look:
    """A step to check.

    work: with all of its inputs. Its spec has `made`, the date of kept rows, if there are any.
    made: the step's rows; empty before it is made. configs: of all steps of the run.
    """

    work: Work
    made: Rows
    configs: Sequence[BaseModel]


@dataclass(frozen=True)
class Finding:
    """A kind of warning.

    rows: SQL over the step's tables and its inputs' tables, with fields of its config as `$field`;
        or a function that returns such SQL ("": no check) or the rows. Columns: `count`; optional:
        `total` (by default the count), `key`, `kind` (replaces the finding's), `example`, `why` (a
        list of reasons, each with `n`), and all columns that sentence and remedy name.
    sentence, remedy: text with columns in braces. `{reasons}` lists `why`, `{age}` is the age of
        kept rows. Remedies of the reasons in `why` (for the column `stage`, if any) come first.
    condition: SQL; rows that do not meet it are no warnings.
    stage: the stage whose rows a package's finding looks at. module: its entry point's module.
    """

    kind: str
    rows: str | Callable[[Look], str | Iterable[Row]]
    sentence: str
    remedy: str
    condition: str = "count > 0"
    stage: str = ""
    module: str = ""

    def warnings(self, look: Look, db: "DuckDBPyConnection") -> Iterator[StageWarning]:
        """The warnings of a step. db: runs the queries; views of the tables are created in it."""
        rows = self.rows if isinstance(self.rows, str) else self.rows(look)
        if isinstance(rows, str):
            rows = _query(look, db, rows, self.condition) if rows else ()
        for row in rows:
            why = row.get("why") or []
            words = {"reasons": listed(why)}
            if "made" in look.work.spec:
                words["age"] = age(look.work.spec["made"])
            configs = (look.work.config, *look.configs)
            select = [one for one in configs if isinstance(one, SelectConfig)]
            settings = select[0].model_dump(mode="json") if why and select else {}
            stage, names = row.get("stage", look.work.stage), [one["reason"] for one in why]
            yield self.warning(row | words, remedies(names[:MENDED], stage, settings))

    def warning(self, row: Row, mends: Sequence[str] = ()) -> StageWarning:
        """The warning for a row. mends: remedies that come before the finding's own."""
        row = {"total": row["count"]} | row
        remedy = "; ".join([*mends, self.remedy.format(**row)])
        kind, key, example = row.get("kind", self.kind), row.get("key"), row.get("example")
        message = self.sentence.format(**row)
        return StageWarning(kind, key, row["count"], row["total"], message, remedy, example)


def look_for(findings: Iterable[Finding], look: Look) -> Iterator[StageWarning]:
    """The warnings of one step. Raises: Unusable for SQL of an installed package that fails."""
    import duckdb

    with connection(look.work) as db:
        for finding in findings:
            try:
                yield from finding.warnings(look, db)
            except duckdb.Error as error:
                if not finding.module:
                    raise
                raise Unusable(
                    "bad_query",
                    f"the finding {finding.kind!r} of the installed package "
                    f"{package_of(finding.module)} cannot be read ({str(error).splitlines()[0]}): "
                    "fix that package, or uninstall it",
                ) from error


def _query(look: Look, db: "DuckDBPyConnection", query: str, condition: str) -> list[Row]:
    for rows in (look.made, *look.work.inputs.values()):
        for table in rows.tables:
            # A step's own table comes before one of the same name in its inputs.
            if re.search(rf"\b{table}\b", query):
                db.execute(f"CREATE VIEW IF NOT EXISTS {table} AS FROM {rows.sql(table)}")
    fields = {name: getattr(look.work.config, name) for name in re.findall(r"\$(\w+)", query)}
    values = {
        name: list(value) if isinstance(value, Mapping | tuple) else value
        for name, value in fields.items()
    }
    result = db.execute(f"FROM ({query}) WHERE {condition} ORDER BY ALL", values)
    columns = [name for name, *_ in result.description]
    return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]


def listed(why: Sequence[Mapping[str, Any]]) -> str:
    """The first reasons, each with its `n`."""
    more = f" and {len(why) - LISTED} more" if len(why) > LISTED else ""
    return ", ".join(f"{one['reason']} {one['n']:,}" for one in why[:LISTED]) + more


def counted(hit: str, rows: str, example: str = "min(text)", columns: str = "NULL AS key") -> str:
    """A query that counts all rows and the hits among them, with an example of a hit.

    hit, example: SQL expressions. rows: a query. columns: SQL for the first columns.
    """
    return f"""SELECT {columns}, count(*) FILTER (hit) AS count, count(*) AS total,
        {example} FILTER (hit) AS example
        FROM (SELECT *, {hit} AS hit FROM ({rows}))"""


# The share of texts with more words than `max_length` has tokens, in the first rows. A word has one
# token or more, so more texts are cut than counted.
CUT, LOOKED_AT = 0.05, 20_000


def cut_sql(key: str, which: str, columns: Sequence[str], rows: str, longest: int) -> str:
    """A query of the texts that are cut. which: names the texts. rows: SQL after FROM."""
    listed = ", ".join(columns)
    texts = f"""SELECT text, {words_sql("text")} AS words FROM
        (SELECT unnest([{listed}]) AS text FROM (SELECT {listed} FROM {rows} LIMIT {LOOKED_AT}))
        WHERE text IS NOT NULL"""
    named = f"{quoted(key)} AS key, {quoted(which)} AS which, {longest} AS longest"
    return counted(f"words > {longest}", texts, columns=named)


def cut(stage: str, rows: str | Callable[[Look], str]) -> Finding:
    """The finding of cut texts. stage: the recipe's key that has `max_length`."""
    return Finding(
        "cut",
        rows,
        "{count:,} or more of {total:,} {which} are longer than max_length, {longest} tokens, and "
        "are cut there",
        f"raise {stage}.max_length, or cut the texts into shorter passages",
        f"count >= {CUT} * total AND total > 0",
    )
