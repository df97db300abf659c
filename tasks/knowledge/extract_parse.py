"""Stage `extract_parse`: what a language model said of sentences becomes mentions, or rejects.

Cheap, and free to change: the answers stay as they were said.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.models.knowledge.answers import Allowed, read
from tercet.models.knowledge.extraction import Mentions
from tercet.models.knowledge.lexicon import load_lexicon
from tercet.models.knowledge.places import Fault
from tercet.models.prompted.checks import without_thoughts
from tercet.tasks.isolation import Rows, isolated, numbers, refused
from tercet.tasks.knowledge.extract import MENTIONS, SENTENCE_CATEGORIES, mentions
from tercet.tasks.stage import REJECTS, BadInput, Config, Stage, Work

BATCH_ROWS = 4096
# Characters that a reject repeats of what is at fault; the whole answer is in `generations`.
_SHOWN = 200


class ExtractParseSettings(Config):
    """How answers are read."""

    lexicon: str = Field(
        "builtin", description="whose nouns tell dictionary forms: builtin, or a lexicon's path"
    )


class ExtractParseConfig(ExtractParseSettings):
    """And the closed lists that the model was told (`extract_generate`)."""

    categories: tuple[str, ...] = Field(min_length=1)
    types: tuple[str, ...] = Field(min_length=1)


def externals(config: ExtractParseConfig) -> dict[str, Path]:
    """The files outside the project whose content decides the result."""
    return {} if config.lexicon == "builtin" else {"lexicon": Path(config.lexicon)}


def run(work: Work) -> None:
    """Emits mentions and sentence_categories of one part of the answers, and rejects.

    The columns are those of `extract`; an entity's `type` and a sentence's category are what the
    model said, all of a quantity but what it counts is what is read in the text.
    A reject's row is the generation. Reasons that lose the answer: cut_off (its length limit or an
    unclosed thought ended it), not_json. Reasons that lose one item of it: not_json, not_in_text,
    number_not_there, unknown_type, unknown_category, overlapping; too_many loses what one of its
    lists has behind 200 items. An answer at which reading
    itself breaks has the reason `error`.
    Raises BadInput where the lexicon cannot be read.
    """
    config: ExtractParseConfig = work.config
    allowed = Allowed(config.categories, config.types, _nouns(config.lexicon))
    sentences = work.inputs["sentences"].table("sentences", ["sentence_id", "text"])
    generations = work.inputs["generations"]
    total, done = generations.count("generations"), 0
    columns = ["generation_id", "sentence_id", "raw", "finish_reason"]
    for batch in generations.batches("generations", columns, rows=BATCH_ROWS):
        said = pa.Table.from_batches([batch])
        answers, unclosed = without_thoughts(said["raw"])
        cut = pc.or_(unclosed, pc.fill_null(pc.equal(said["finish_reason"], "length"), False))
        if pc.any(cut).as_py():
            lost = said.filter(cut)
            work.emit("rejects", _cut_off(lost))
            whole = pc.invert(cut)
            said, answers = said.filter(whole), answers.filter(whole)
        at = pc.index_in(said["sentence_id"], sentences["sentence_id"])
        texts = pc.fill_null(sentences["text"].take(at), "").to_pylist()
        _read(work, said, answers.to_pylist(), texts, allowed)
        done += batch.num_rows
        work.resources.progress(done, total, "answers")


def _read(
    work: Work, said: pa.Table, answers: list[str], texts: list[str], allowed: Allowed
) -> None:
    """Emits what is read from answers about texts; `said` has their generations."""
    ids = said["sentence_id"].to_numpy()

    def made(rows: Rows) -> tuple[Rows, Mentions, list[Fault]]:
        some = rows.tolist()
        return rows, *read([answers[row] for row in some], [texts[row] for row in some], allowed)

    def refuse(row: int, error: Exception) -> None:
        generation = said["generation_id"][row].as_py()
        rejected = refused(
            STAGE.name, generation, error, answers[row][:_SHOWN], "reading the answer"
        )
        work.emit("rejects", rejected)

    for rows, found, faults in isolated(numbers(len(texts)), made, refuse):
        at, categories = found.categories
        work.emit("mentions", mentions(found, ids[rows]))
        columns = [pa.array(ids[rows][at]), pa.array(categories, pa.string())]
        work.emit("sentence_categories", pa.table(columns, SENTENCE_CATEGORIES))
        if faults:
            work.emit("rejects", _rejects(faults, rows, said))


def _nouns(lexicon: str) -> frozenset[str]:
    try:
        return frozenset(load_lexicon(None if lexicon == "builtin" else Path(lexicon)).nouns)
    except ValueError as error:
        raise BadInput(f"extract_parse.lexicon: {error}") from None


def _cut_off(said: pa.Table) -> pa.Table:
    rows = said.num_rows
    columns = [
        pa.array(["extract_parse"] * rows, pa.string()),
        said["generation_id"],
        pa.array(["cut_off"] * rows, pa.string()),
        pa.array(["the length limit ended it"] * rows, pa.string()),
        said["raw"],
    ]
    return pa.Table.from_arrays(columns, schema=REJECTS)


def _rejects(faults: Sequence[Fault], rows: Rows, said: pa.Table) -> pa.Table:
    """The faults as rows; an answer's own fault repeats the beginning of what was said.

    rows: which of `said` the faults count.
    """
    at = [int(rows[fault.row]) for fault in faults]
    raws = said["raw"]
    texts = [
        (raws[row].as_py() or "") if fault.text is None else fault.text
        for row, fault in zip(at, faults, strict=True)
    ]
    columns = [
        pa.array(["extract_parse"] * len(faults), pa.string()),
        said["generation_id"].take(pa.array(at, pa.int64())),
        pa.array([fault.reason for fault in faults], pa.string()),
        pa.array([_sayable(fault.detail) for fault in faults], pa.string()),
        pa.array([_sayable(text[:_SHOWN]) for text in texts], pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=REJECTS)


def _sayable(text: str) -> str:
    """The text without lone surrogates, which JSON can escape and no column can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


STAGE = Stage(
    name="extract_parse",
    config=ExtractParseConfig,
    tables={"mentions": MENTIONS, "sentence_categories": SENTENCE_CATEGORIES},
    run=run,
    each="generations",
    aligned=("sentences",),
    seeded=False,
    externals=externals,
    locations=("lexicon",),
)
