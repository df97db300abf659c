"""Warnings of knowledge: extraction that found next to nothing, and a graph that is kept."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.connections import connection
from tercet.tasks.knowledge import extract
from tercet.tasks.stage import Work
from tercet.tasks.warning import StageWarning, age

# Most sentences of any field name a thing or a number.
UNMENTIONED = 0.5


def find_extract(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
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


_REMEDY = "leave graph.keep out of a run to make a new graph, and tag that"


def find_kept_graph(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning for entities of the corpus that no method swaps in, one for those that are gone.

    work: with the new mentions, and when the graph was made. made: the graph that is kept.
    """
    counted = """SELECT count(*) FILTER (gone), count(*), arg_max(text, n) FILTER (gone)
        FROM (SELECT text, n, node_id NOT IN (SELECT node_id FROM {others}) AS gone FROM {own})"""
    nodes = f"(SELECT * FROM {made.sql('kg_nodes')} WHERE kind = 'entity')"
    mentions = f"""(SELECT node_id, any_value(text) AS text, count(*) AS n
        FROM {work.inputs["mentions"].sql("mentions")} WHERE kind = 'entity' GROUP BY node_id)"""
    known = f"(SELECT node_id, text, count AS n FROM {nodes})"
    with connection(work) as db:
        new, entities, example = db.execute(counted.format(others=nodes, own=mentions)).fetchall()[
            0
        ]
        gone, held, former = db.execute(counted.format(others=mentions, own=known)).fetchall()[0]
    kept = f"the graph of {age(work.spec['made'])} is kept"
    if new:
        said = f"{kept}, in which {new:,} of {entities:,} entities of the corpus are missing"
        yield StageWarning("kept_graph", None, new, entities, said, _REMEDY, example)
    if gone:
        said = f"{kept}, which has {gone:,} of {held:,} entities from documents that are gone, and "
        said += "methods may still write these"
        yield StageWarning("kept_graph_gone", None, gone, held, said, _REMEDY, former)
