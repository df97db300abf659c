"""Warnings of `embed` and `select`: cut candidates, methods left nothing, fallbacks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.connections import connection
from tercet.tasks.scoring.select import RANDOM, SelectConfig
from tercet.tasks.stage import Work
from tercet.tasks.synthesis.answer_warnings import refused
from tercet.tasks.synthesis.synthesise import SynthesiseConfig
from tercet.tasks.warning import StageWarning, find_cut

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
