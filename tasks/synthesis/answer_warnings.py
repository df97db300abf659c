"""Warnings of what methods wrote: one text for all, copies of the source, hardly anything usable,
and what is cut, falls to the thresholds of `select` or is replaced there.

A language model that says one thing whatever it is asked, or nothing to the point, ends no run:
each of its rows is refused with a reason, or a fallback takes its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pydantic import BaseModel

from tercet.storage.rows import Rows, read_parquet_sql
from tercet.tasks.scoring.select import RANDOM, SelectConfig
from tercet.tasks.stage import Work, connection
from tercet.tasks.synthesis.methods import SynthesiseConfig
from tercet.tasks.warning import StageWarning, find_cut

if TYPE_CHECKING:
    from tercet.models.llm.client.in_flight import Tally


# Strict thresholds leave a method a tenth of its candidates and more where it does what it should.
# A share of five in a hundred shows in a hundred; that there is none shows in ten.
ACCEPTED, OF_MANY, OF_FEW = 0.05, 100, 10
# A few short answers may be alike by chance, in a small run as well.
REPEATED, REPEATS = 0.01, 5
# A model that has nothing to say gives the sentence back.
COPIED = 0.2
# A restart costs what is open; of an endpoint that is well, hardly a row comes to nothing.
FRUITLESS = 0.1
# An endpoint that has another model, or none that works: what half of its answers are, if not half
# as many of the others' are.
REFUSED, BESIDE = 0.5, 0.5
# Of what is refused in extraction, the reasons that lose a whole answer.
EXTRACTION, LOST = "extract_parse", ("cut_off", "error", "not_json")

# The pool's sealed files, and its rows that are in none yet.
Pool: TypeAlias = tuple[Sequence[str], pa.Table]


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


def find_unlike(difference: str | None, endpoints: int) -> Iterator[StageWarning]:
    """A warning if endpoints say different things of what should be one model, as a clause."""
    if difference is not None:
        remedy = "their answers count as one model's; serve one model at all of run.llm.endpoints"
        yield StageWarning("unlike", None, 2, endpoints, difference, remedy)


def find_fruitless(tally: "Tally") -> Iterator[StageWarning]:
    """A warning of an endpoint that brought no text for many rows, or for any."""
    count, total = tally.fruitless, tally.fruitless + tally.answered
    if count and (not tally.answered or (count >= OF_FEW and count >= FRUITLESS * total)):
        said = f"{tally.shown} brought no text in {count:,} of {total:,} attempts"
        remedy = "read its log, and take it out of run.llm.endpoints if it cannot be mended"
        yield StageWarning("no_text", tally.shown, count, total, said, remedy, tally.fault)


def find_by_endpoint(work: Work, made: Rows, pool: Pool) -> Iterator[StageWarning]:
    """Warnings of endpoints most of whose answers are refused, where others' are not."""
    generations, (files, unsealed) = work.inputs["generations"].sql("generations"), pool
    answers = f"{read_parquet_sql(files)} UNION ALL BY NAME FROM unsealed" if files else "unsealed"
    with connection(work) as db:
        db.register("unsealed", unsealed)
        counts = db.execute(
            f"""SELECT endpoint, count(*), count(why), coalesce(mode(why), ''), min(text)
            FROM {generations} LEFT JOIN (
                SELECT row_id, min(reason) AS why, min(text) AS text FROM {made.sql("rejects")}
                WHERE stage <> '{EXTRACTION}' OR reason IN {LOST} GROUP BY row_id
            ) ON row_id = generation_id
            JOIN (SELECT DISTINCT request_digest, endpoint FROM (FROM {answers})
                WHERE finish_reason <> 'failed') USING (request_digest)
            GROUP BY endpoint ORDER BY endpoint"""
        ).fetchall()
    for endpoint, total, count, reason, example in counts:
        others = [(n, refused) for at, n, refused, *_ in counts if at != endpoint]
        beside, refused_there = sum(n for n, _ in others), sum(refused for _, refused in others)
        if count < OF_FEW or beside < OF_FEW or count < REFUSED * total:
            continue
        if refused_there * total < BESIDE * count * beside:
            said = f"{count:,} of {total:,} answers of {endpoint} were refused, and "
            said += f"{refused_there:,} of {beside:,} of the others"
            remedy = f"most often as {reason}; look which model it serves, and how"
            yield StageWarning("refused", endpoint, count, total, said, remedy, example)


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


# Beyond it, training is mostly on the fallback.
FALLEN_BACK = 0.5
_THRESHOLDS = {
    "below_positive_min": ("lower", "positive_min"),
    "above_negative_max": ("raise", "negative_max"),
    "beyond_rank_max": ("raise", "rank_max"),
}


def find_select(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """Warnings of methods of which little was accepted, and of what stands in for their texts."""
    counts = f"""SELECT method, sum(candidates)::BIGINT AS total, sum(accepted)::BIGINT AS accepted
        FROM {made.sql("acceptance")} GROUP BY method"""
    reasons = f"""SELECT c.method, reason, r.text FROM {made.sql("rejects")} r
        JOIN {work.inputs["candidates"].sql("candidates")} c ON c.candidate_id = r.row_id"""
    with connection(work) as db:
        yield from refused(db, counts, reasons, remedies(work.config))
        total, unrelated, itself = db.execute(
            f"""SELECT count(*), count(*) FILTER (negative_method = '{RANDOM}'),
                count(*) FILTER (positive_id IS NULL) FROM {made.sql("triplets")}"""
        ).fetchall()[0]
    # A random negative is a fallback unless the config gives it a place.
    methods = [one.described for one in configs if isinstance(one, SynthesiseConfig)]
    asked = {method.purpose for method in methods if method.name != RANDOM}
    fallbacks = (
        ("random_negative", unrelated, "a random sentence as their negative", "negative"),
        ("self_positive", itself, "the anchor itself as their positive", "positive"),
    )
    for kind, count, having, purpose in fallbacks:
        wanted = kind == "random_negative" and RANDOM in work.config.methods
        if purpose in asked and not wanted and count > FALLEN_BACK * total:
            said = f"{count:,} of {total:,} triplets have {having}, since no text written for it "
            said += "was accepted"
            remedy = "see what was refused (tercet sql 'SELECT * FROM acceptance')"
            yield StageWarning(kind, None, count, total, said, remedy)


def remedies(config: SelectConfig) -> dict[str, str]:
    """What to do about a candidate on the wrong side of a threshold, by the reason."""
    settings = config.model_dump(mode="json")
    return {
        reason: f"{change} {threshold_keys(name, settings)}"
        for reason, (change, name) in _THRESHOLDS.items()
    }


def threshold_keys(name: str, select: Mapping[str, Any]) -> str:
    """The general key of a threshold, and those of relations and methods that have their own.

    Their own takes the general one's place for their texts, so that changing the general one would
    do nothing to those.
    name: such as positive_min. select: the settings of `select`, as JSON has them.
    """
    own = [
        f"select.{kind}.{one}.{name}"
        for kind in ("relations", "methods")
        for one, settings in select.get(kind, {}).items()
        if settings.get(name) is not None
    ]
    listed = " and ".join(own)
    return f"select.{name}" + (f" (where they count instead, {listed})" if own else "")


def find_embed(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning if too many candidates are cut, whose ends then count for nothing."""
    candidates, longest = work.inputs["candidates"].sql("candidates"), work.config.max_length
    which = "candidates that the evaluator compares"
    yield from find_cut(work, "candidates", ("text",), candidates, longest, which, "embed")
