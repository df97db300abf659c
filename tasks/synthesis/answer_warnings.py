"""Warnings of what methods wrote: one text for all, copies of the source, hardly anything usable.

A language model that says one thing whatever it is asked, or nothing to the point, ends no run:
each of its rows is refused with a reason, or a fallback takes its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.connections import connection
from tercet.tasks.stage import Work
from tercet.tasks.warning import StageWarning

# Strict thresholds leave a method a tenth of its candidates and more where it does what it should.
# A share of five in a hundred shows in a hundred; that there is none shows in ten.
ACCEPTED, OF_MANY, OF_FEW = 0.05, 100, 10
# A few short answers may be alike by chance, in a small run as well.
REPEATED, REPEATS = 0.01, 5
# A model that has nothing to say gives the sentence back.
COPIED = 0.2


def find_repeated(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning if one text answers many prompts of a method."""
    method, generations = work.config.method, made.sql("generations")
    if not work.config.described.prompted:
        return
    with connection(work) as db:
        said, count, total = db.execute(
            f"""SELECT max_by(said, n), max(n)::BIGINT, sum(n)::BIGINT FROM
            (SELECT hash(trim(raw)) AS said, count(*) AS n FROM {generations} GROUP BY said)"""
        ).fetchall()[0]
        if not total or count < REPEATS or count <= REPEATED * total:
            return
        text = f"SELECT any_value(raw) FROM {generations} WHERE hash(trim(raw)) = ?"
        example = db.execute(text, [said]).fetchall()[0][0]
    remedy = f"read them with their prompts (tercet try RECIPE --method {method}), and change the"
    remedy += " prompt, the temperature or the model"
    message = f"{count:,} of {total:,} answers are the same text"
    yield StageWarning("one_answer", method, count, total, message, remedy, example)


def find_unusable(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """Warnings of methods whose generations `parse` refuses, or that give their source back."""
    generations, kept = work.inputs["generations"].sql("generations"), made.sql("candidates")
    counts = f"""SELECT method, count(*) AS total, count(*) FILTER (generation_id IN
        (SELECT generation_id FROM {kept})) AS accepted FROM {generations} GROUP BY method"""
    reasons = f"""SELECT g.method, reason, text FROM {made.sql("rejects")} r
        JOIN {generations} g ON g.generation_id = r.row_id"""
    with connection(work) as db:
        copied = db.execute(
            f"""SELECT method, total, count(*) AS copies, min(text) FROM ({counts})
            JOIN ({reasons}) USING (method) WHERE reason = 'same_as_source'
            GROUP BY method, total HAVING total >= {OF_FEW} AND copies >= {COPIED} * total
            ORDER BY method"""
        ).fetchall()
        for method, total, count, example in copied:
            said = f"{count:,} of {total:,} rows of {method} are copies of their sentence"
            remedy = f"read them with their prompts (tercet try RECIPE --method {method}), and "
            remedy += "change the prompt or the model"
            yield StageWarning("copied", method, count, total, said, remedy, example)
        told = [method for method, *_ in copied]
        mends = {"cut_off": "raise its max_tokens"}
        for warning in refused(db, counts, reasons, mends):
            if warning.key not in told:
                yield warning


def refused(db: Any, counts: str, reasons: str, mends: Mapping[str, str]) -> Iterator[StageWarning]:
    """Warnings of methods of which next to nothing was accepted.

    counts: query of (method, total, accepted); reasons: of each refused row's (method, reason,
    text). mends: what to do about a reason.
    """
    few = db.execute(
        f"""SELECT method, total, accepted, reasons[1] AS most FROM ({counts}) JOIN
        (SELECT method, list({{reason: reason, text: text}} ORDER BY n DESC, reason) AS reasons
            FROM (SELECT method, reason, count(*) AS n, min(text) AS text FROM ({reasons})
                GROUP BY method, reason) GROUP BY method) USING (method)
        WHERE (total >= {OF_MANY} AND accepted < {ACCEPTED} * total)
            OR (total >= {OF_FEW} AND accepted = 0) ORDER BY method"""
    ).fetchall()
    for method, total, accepted, most in few:
        if most["reason"] == "no_weight":  # the recipe wants none of it
            continue
        count = total - accepted
        said = f"{count:,} of {total:,} rows of {method} were refused"
        mend = mends.get(most["reason"], f"read them (tercet try RECIPE --method {method})")
        remedy = f"most often as {most['reason']}; {mend}"
        yield StageWarning("refused", method, count, total, said, remedy, most["text"])
