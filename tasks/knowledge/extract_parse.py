"""Stage `extract_parse`: a language model's answers become mentions, or rejects with a reason.

Cheap, and free to change: the answers themselves are kept.
"""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.models.knowledge.answers import Allowed, Fault, read
from tercet.models.knowledge.extraction import Mentions
from tercet.models.prompted.checks import without_thoughts
from tercet.tasks.config import Wired
from tercet.tasks.knowledge.extract import MENTIONS, SENTENCE_CATEGORIES, lexicon_of, mentions
from tercet.tasks.rejects import Rows, isolated, numbers, refused, rejects
from tercet.tasks.stage import Config, EachPart, Stage, Work

BATCH_ROWS = 4096
# Characters of a faulty piece that a reject shows; the whole answer is in `generations`.
_SHOWN = 200


class ExtractParseConfig(Config):
    """How answers are read."""

    lexicon: str = Field(
        "builtin", description="whose nouns give dictionary forms: builtin, or a lexicon's path"
    )
    # The closed lists that the model was given.
    categories: Wired[tuple[str, ...]] = ()
    types: Wired[tuple[str, ...]] = ()


def externals(config: ExtractParseConfig) -> dict[str, Path]:
    """External files whose content affects the result."""
    return {} if config.lexicon == "builtin" else {"lexicon": Path(config.lexicon)}


def run(work: Work) -> None:
    """Emits mentions and sentence_categories of one part of the answers, and rejects.

    The columns are those of `extract`. An entity's `type`, a sentence's category and what a
    quantity counts come from the model; the rest of a quantity is read from the text.
    A reject's row is the generation. Reasons that lose the whole answer: cut_off (its length limit
    or an unclosed thought ended it), not_json, and error, where reading it fails. Reasons that
    lose one item: not_json, not_in_text, number_not_there, unknown_type, unknown_category,
    overlapping. too_many loses the items of a list after the first 200.
    Raises BadInput where the lexicon cannot be read.
    """
    config: ExtractParseConfig = work.config
    nouns = frozenset(lexicon_of(config.lexicon, STAGE.name).nouns)
    allowed = Allowed(config.categories, config.types, nouns)
    sentences = work.inputs["sentences"].table("sentences", ["sentence_id", "text"])
    generations = work.inputs["generations"]
    total, done = generations.count("generations"), 0
    columns = ["generation_id", "sentence_id", "raw", "finish_reason"]
    for batch in generations.batches("generations", columns, rows=BATCH_ROWS):
        rows = pa.Table.from_batches([batch])
        answers, unclosed = without_thoughts(rows["raw"])
        cut = pc.or_(unclosed, pc.fill_null(pc.equal(rows["finish_reason"], "length"), False))
        if pc.any(cut).as_py():
            lost = rows.filter(cut)
            why = "the length limit ended it"
            ids = lost["generation_id"]
            work.emit("rejects", rejects(STAGE.name, ids, "cut_off", why, lost["raw"]))
            whole = pc.invert(cut)
            rows, answers = rows.filter(whole), answers.filter(whole)
        at = pc.index_in(rows["sentence_id"], sentences["sentence_id"])
        texts = pc.fill_null(sentences["text"].take(at), "").to_pylist()
        _read(work, rows, answers.to_pylist(), texts, allowed)
        done += batch.num_rows
        work.resources.progress(done, total, "answers")


def _read(
    work: Work, generations: pa.Table, answers: list[str], texts: list[str], allowed: Allowed
) -> None:
    """Emits the mentions that answers about texts name; `generations` are theirs."""
    ids = generations["sentence_id"].to_numpy()

    def made(rows: Rows) -> tuple[Rows, Mentions, list[Fault]]:
        some = rows.tolist()
        return rows, *read([answers[row] for row in some], [texts[row] for row in some], allowed)

    def refuse(row: int, error: Exception) -> None:
        generation = generations["generation_id"][row].as_py()
        rejected = refused(
            STAGE.name, generation, error, answers[row][:_SHOWN], "reading the answer"
        )
        work.emit("rejects", rejected)

    for rows, spans, faults in isolated(numbers(len(texts)), made, refuse):
        at, categories = spans.categories
        work.emit("mentions", mentions(spans, ids[rows]))
        columns = [pa.array(ids[rows][at]), pa.array(categories, pa.string())]
        work.emit("sentence_categories", pa.table(columns, SENTENCE_CATEGORIES))
        if faults:
            work.emit("rejects", _rejects(faults, rows, generations))


def _rejects(faults: Sequence[Fault], rows: Rows, generations: pa.Table) -> pa.Table:
    """The faults as rows; a fault of a whole answer shows the beginning of it.

    rows: the rows of `generations` that the faults number.
    """
    at = [int(rows[fault.row]) for fault in faults]
    raws = generations["raw"]
    texts = [
        (raws[row].as_py() or "") if fault.text is None else fault.text
        for row, fault in zip(at, faults, strict=True)
    ]
    return rejects(
        STAGE.name,
        generations["generation_id"].take(pa.array(at, pa.int64())),
        [fault.reason for fault in faults],
        [_sayable(fault.detail) for fault in faults],
        [_sayable(text[:_SHOWN]) for text in texts],
    )


def _sayable(text: str) -> str:
    """The text without lone surrogates: JSON can escape them, but no column can hold them."""
    return text.encode("utf-8", "replace").decode("utf-8")


STAGE = Stage(
    name="extract_parse",
    config=ExtractParseConfig,
    tables={"mentions": MENTIONS, "sentence_categories": SENTENCE_CATEGORIES},
    run=run,
    cut=EachPart("generations", aligned=("sentences",)),
    seeded=False,
    libraries=("lemminflect",),
    externals=externals,
    locations=("lexicon",),
)
