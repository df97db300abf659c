"""Stage `extract`: the entities and quantities that sentences mention (GCSE §3.1, eq. 1)."""

from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models import seeding
from tercet.models.knowledge.extraction import Mentions, extract
from tercet.models.knowledge.lexicon import Lexicon, load_lexicon
from tercet.models.knowledge.pipeline import Pipeline, extract_named, find_pipeline
from tercet.tasks.rejects import Rows, isolated, numbers, refused
from tercet.tasks.stage import PACKAGE, BadInput, Config, EachPart, Stage, Work, file_path

BATCH_ROWS = 4096

MENTIONS = pa.schema(
    [
        ("mention_id", pa.uint64()),
        ("node_id", pa.uint64()),
        ("sentence_id", pa.uint64()),
        ("kind", pa.string()),
        ("text", pa.string()),
        ("type", pa.string()),
        ("value", pa.float64()),
        ("unit", pa.string()),
        ("of_mention_id", pa.uint64()),
        ("start", pa.int32()),
        ("end", pa.int32()),
    ]
)
"""Table `mentions`. One row per entity or quantity in a sentence. Mentions in a sentence do not
overlap: the longest is kept, then the leftmost.

Key: `mention_id`.

Columns:
    mention_id: id of sentence and place
    node_id: → `kg_nodes.node_id`; for an entity the id of its dictionary form, for a quantity
        that of its text, ignoring case
    sentence_id: → `sentences.sentence_id`
    kind: `entity` or `quantity`
    text: the words as in the sentence; for a quantity the number without its unit
    type: an entity's type: one of the lexicon's, `identifier` (a name from code) or `name` (a
        proper name); if there are several, the one that most other entities of the sentence
        share, else the first. With `extract.pipeline` its label there (`PERSON`, `LOC`) or
        `identifier`. For a quantity its form: `number`, `year`, `fraction`, `range`,
        `percentage`, `money`, `measure`
    value: the quantity as a number, for a range its midpoint; NULL for entities
    unit: the quantity's unit in one spelling (`km`, `%`, `day`); NULL if it has none
    of_mention_id: → `mentions.mention_id` of the entity that the quantity counts; NULL if there
        is none
    start: first character of the mention in `sentences.text`, from 0, in code points
    end: the character after the last one: `substr(text, start + 1, "end" - start)`. `end` is a
        keyword of SQL: quote it
"""
SENTENCE_CATEGORIES = pa.schema([("sentence_id", pa.uint64()), ("category", pa.string())])
"""Table `sentence_categories`.

Key: `sentence_id`.

Columns:
    sentence_id: → `sentences.sentence_id`; a sentence without entities has no row
    category: the type that most of its entities have
"""


class ExtractConfig(Config):
    """How entities and quantities are found."""

    lexicon: str = Field(
        "builtin", description="builtin, or the path of a lexicon in our format or WordNet's"
    )
    pipeline: str | None = Field(
        None,
        min_length=1,
        description="Entities by a pipeline of spaCy instead, in its language and with its types: "
        "an installed package (fr_core_news_sm), a directory, or package:PACKAGE/FOLDER; needs the "
        "extra `language`",
    )

    @model_validator(mode="after")
    def _one_source(self) -> "ExtractConfig":
        if self.pipeline is not None and self.lexicon != "builtin":
            raise InvalidSetting(
                "conflict", "entities come from a lexicon or from a pipeline: give one of the two"
            )
        return self


def pipeline_of(name: str) -> Pipeline:
    """The pipeline of that name. Raises BadInput or Unusable; nothing is imported."""
    installed = name.isidentifier() and not Path(name).is_dir()
    return find_pipeline(file_path(f"{PACKAGE}{name}" if installed else name))


def externals(config: ExtractConfig) -> dict[str, Path | str]:
    """External files whose content affects the result, and spaCy where it does."""
    if config.pipeline is not None:
        pipeline = pipeline_of(config.pipeline)
        return {"pipeline": pipeline.path, "spacy": metadata.version("spacy")}
    return {} if config.lexicon == "builtin" else {"lexicon": Path(config.lexicon)}


def run(work: Work) -> None:
    """Emits mentions and sentence_categories of the sentences.

    A type's mentions are entities; for quantities `type` is the form (number, year, fraction,
    range, percentage, money, measure), `value` a range's middle, `text` the number without its
    unit, and `of_mention_id` what is counted. Sentences without entities have no category. A
    sentence at which extraction fails is a reject with the reason `error`.
    Raises BadInput where the lexicon or the pipeline cannot be read.
    """
    config: ExtractConfig = work.config
    find: Callable[[Sequence[str]], Mentions]
    if config.pipeline is None:
        find = partial(extract, lexicon=lexicon_of(config.lexicon, "extract"))
    else:
        find = partial(extract_named, pipeline=pipeline_of(config.pipeline))
    sentences = work.inputs["sentences"]
    total, done = sentences.count("sentences"), 0
    for batch in sentences.batches("sentences", ["sentence_id", "text"], rows=BATCH_ROWS):
        texts = batch.column("text").to_pylist()
        ids = batch.column("sentence_id").to_numpy(zero_copy_only=False)

        def read(rows: Rows, texts: list[str] = texts) -> tuple[Rows, Mentions]:
            return rows, find([texts[row] for row in rows.tolist()])

        def refuse(
            row: int, error: Exception, texts: list[str] = texts, ids: seeding.Ids = ids
        ) -> None:
            rejected = refused("extract", int(ids[row]), error, texts[row], "extraction")
            work.emit("rejects", rejected)

        for rows, spans in isolated(numbers(len(texts)), read, refuse):
            row_ids = ids[rows]
            work.emit("mentions", mentions(spans, row_ids))
            at, categories = spans.categories
            work.emit(
                "sentence_categories",
                pa.table([pa.array(row_ids[at]), pa.array(categories)], schema=SENTENCE_CATEGORIES),
            )
        done += batch.num_rows
        work.resources.progress(done, total, "sentences")


def lexicon_of(lexicon: str, stage: str) -> Lexicon:
    """The lexicon that a stage's config names. Raises BadInput if it cannot be read."""
    try:
        return load_lexicon(None if lexicon == "builtin" else Path(lexicon))
    except ValueError as error:
        raise BadInput("unreadable", f"{stage}.lexicon: {error}") from None


def mentions(spans: Mentions, sentence_ids: seeding.Ids) -> pa.Table:
    """The mentions as rows of their table; `sentence_ids` has one id a text."""
    sentence = sentence_ids[spans.row].astype(np.uint64)
    kind = np.where(spans.entity, "entity", "quantity").tolist()
    places = zip(sentence.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)
    mention = seeding.text_ids([f"{row}\x1f{start}\x1f{end}" for row, start, end in places])
    counts = spans.counted >= 0
    counted = mention[np.where(counts, spans.counted, 0)] if len(mention) else mention
    columns = [
        pa.array(mention),
        pa.array(_node_ids(kind, spans.node)),
        pa.array(sentence),
        pa.array(kind, pa.string()),
        pa.array(spans.text, pa.string()),
        pa.array(spans.type, pa.string()),
        pa.array(spans.value, mask=np.isnan(spans.value)),
        pa.array(spans.unit, pa.string()),
        pa.array(counted, mask=~counts),
        pa.array(spans.start.astype(np.int32)),
        pa.array(spans.end.astype(np.int32)),
    ]
    return pa.table(columns, schema=MENTIONS)


def _node_ids(kinds: list[str], texts: list[str]) -> seeding.Ids:
    """Ids of the nodes; each distinct node is hashed once."""
    places: dict[tuple[str, str], int] = {}
    codes = [places.setdefault(pair, len(places)) for pair in zip(kinds, texts, strict=True)]
    ids = seeding.text_ids([pair[0] for pair in places], [pair[1] for pair in places])
    return ids[np.array(codes, dtype=np.int64)]


STAGE = Stage(
    name="extract",
    config=ExtractConfig,
    tables={"mentions": MENTIONS, "sentence_categories": SENTENCE_CATEGORIES},
    run=run,
    cut=EachPart("sentences"),
    seeded=False,
    libraries=("lemminflect",),
    externals=externals,
    locations=("lexicon", "pipeline"),
)
