"""A warning: what shows in a step's rows that something went wrong, though nothing failed.

Modules called `warnings`, or `…_warnings`, look for them, with the thresholds that they apply.
No stage imports them: a wording that is mended makes no artifact anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tercet.models.text.words import words_sql
from tercet.tasks.stage import Work, ask

# Characters of an example that are kept.
SHOWN = 80


@dataclass(frozen=True)
class StageWarning:
    """`count` of `total` rows of a step are of this kind.

    kind: one word or two for SQL. key: the method, corpus, set or part, if it is about one.
    message: what was found, as a clause. example: one such row's text, or its fault. remedy: what
    to do, as the end of a sentence.
    """

    kind: str
    key: str | None
    count: int
    total: int
    message: str
    remedy: str
    example: str | None = None


def sentence(row: Mapping[str, Any]) -> str:
    """A row of the table `warnings` as people read it."""
    said = f"{row['step']}: {row['message']}"
    if row["example"] is not None:
        text = " ".join(row["example"].split())
        said += f", such as {text if len(text) <= SHOWN else text[: SHOWN - 1] + '…'!r}"
    return f"{said}: {row['remedy']}."


def age(created: str) -> str:
    """A date and how long ago it was: `2026-11-20 (7 days old)`. created: in ISO's form."""
    then = datetime.fromisoformat(created)
    days = (datetime.now(then.tzinfo) - then).days
    return f"{then:%Y-%m-%d} ({days:,} {'day' if days == 1 else 'days'} old)"


# A share of the texts that have more words than `max_length` has tokens; a word is a token or more,
# so that more of them are cut than are counted. Looked for in the first rows.
CUT, LOOKED_AT = 0.05, 20_000


def find_cut(
    work: Work, key: str, columns: Sequence[str], rows: str, longest: int, which: str, stage: str
) -> Iterator[StageWarning]:
    """A warning if too many texts are cut.

    columns: of texts. rows: SQL behind FROM. which: the texts, in words. stage: the recipe's key
    that has `max_length`.
    """
    listed = ", ".join(columns)
    ((count, total, example),) = ask(
        work,
        f"""SELECT count(*) FILTER (words > {longest}), count(*),
            min(text) FILTER (words > {longest})
        FROM (SELECT text, {words_sql("text")} AS words FROM
            (SELECT unnest([{listed}]) AS text FROM
                (SELECT {listed} FROM {rows} LIMIT {LOOKED_AT}))
            WHERE text IS NOT NULL)""",
    )
    if total and count >= CUT * total:
        said = f"{count:,} or more of {total:,} {which} are longer than max_length, {longest} "
        said += "tokens, and are cut there"
        remedy = f"raise {stage}.max_length, or cut the texts into shorter passages"
        yield StageWarning("cut", key, count, total, said, remedy, example)
