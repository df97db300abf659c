"""Warnings of extraction, by rules or by a language model: it found next to nothing."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.connections import connection
from tercet.tasks.knowledge import extract
from tercet.tasks.stage import Work
from tercet.tasks.warning import StageWarning

# Most sentences of any field name a thing or a number.
UNMENTIONED = 0.5


def find(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning if no mention was found in half of the sentences or more."""
    by_rules = work.stage == extract.STAGE.name
    sentences = work.inputs["sentences"].sql("sentences")
    asked = sentences if by_rules else work.inputs["generations"].sql("generations")
    with connection(work) as db:
        count, total, example = db.execute(
            f"""SELECT count(*) FILTER (NOT found), count(*), min(text) FILTER (NOT found)
            FROM (SELECT text, sentence_id IN (SELECT sentence_id FROM {made.sql("mentions")})
                AS found FROM {sentences} WHERE sentence_id IN (SELECT sentence_id FROM {asked}))"""
        ).fetchall()[0]
    if not total or count < UNMENTIONED * total:
        return
    remedy = "read the answers (tercet try RECIPE --method extract), change the prompt or the model"
    if by_rules:
        remedy = "the rules know English nouns and numbers; name a lexicon of the field, or extract"
        remedy += " with a language model (extract_generate)"
    said = f"no mention was found in {count:,} of {total:,} sentences"
    yield StageWarning("no_mention", None, count, total, said, remedy, example)
