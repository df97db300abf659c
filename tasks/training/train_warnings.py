"""Warnings of trainings: few rows, cut texts, unknown words, rows without a teacher, a lost loss;
rows that evaluation sets hold too, and rows with few negatives.

The first four are looked for before the training, from the rows that it will read.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from tercet.models.encoders.settings import has_sides
from tercet.models.losses.gaussian_decay import TEACHER
from tercet.models.pretraining.forms import transformer_folder
from tercet.models.retrieval.words import split
from tercet.storage.rows import Rows
from tercet.tasks.corpus.kind_registry import KINDS
from tercet.tasks.corpus.labelled import LabelledConfig, columns_of
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.corpus.splits import SPLITS
from tercet.tasks.reasons import remedies
from tercet.tasks.retrieval.negatives import count_rows
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.stage import Work, ask, connection
from tercet.tasks.training.phase_rows import rows_sql, sides_of
from tercet.tasks.training.phases import OF_TRIPLETS, SOURCES, PartConfig
from tercet.tasks.training.train_settings import TrainConfig
from tercet.tasks.warning import StageWarning, find_cut

FEW_BATCHES = 8
# A share of a part's distinct words, in its first texts.
UNKNOWN, LOOKED_AT = 0.5, 1_000
# Tokens for what a vocabulary lacks: of WordPiece, and of SentencePiece. Bytes lack nothing.
_UNKNOWN = frozenset(("[UNK]", "<unk>"))
_PAIRS, _QUERIES = "document_pairs", "queries"
_TAUGHT = (
    "name the teacher beside the loss, `models: {teacher: evaluator}`, or write `sigma_cosine: 0`"
)
_SIDED = (
    "train on `rows: document_pairs` for search, or do without its prompts by `prompts: {query: "
    '"", document: ""}`'
)
_TEXTS = ("anchor", "positive", "negative")

_LOST = """
SELECT phase, seed, max(step) FILTER (loss IS NOT NULL) AS ended, max(step) FILTER (chosen) AS kept
FROM {log} GROUP BY phase, seed
HAVING NOT isfinite(arg_max(loss, step)) AND kept < ended ORDER BY phase, seed
"""


def find_before(work: Work, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """Warnings of the rows that a phase is about to train on."""
    phase = work.config.phase
    shared = [(part.share, [part]) for part in phase.parts if part.share is not None]
    others = [part for part in phase.parts if part.share is None]
    # Parts without a share of the batch fill it together.
    for share, parts in [*shared, *([(1.0, others)] if others else [])]:
        rows = sum(_rows(part, work) for part in parts)
        size = max(round(share * phase.batch_size), 1)
        if rows < FEW_BATCHES * size:
            yield _few(work, configs, parts, rows, size)
            break
    backbone = work.models.get("backbone")
    sided = backbone is not None and has_sides(backbone, work.config.prompts)
    for part in phase.parts:
        yield from _cut(work, part, phase.max_length)
        if backbone is not None:
            yield from _unknown(work, part, backbone)
        if sided and not sides_of(part.rows):
            yield _without_side(part, _rows(part, work))
        if _decays(part):
            lacking, total = _counted(
                work, part, "count(*) FILTER (label IS NULL), count(*)", "negative IS NOT NULL"
            )
            if lacking:
                yield _undecayed(part, f"{lacking:,} of {total:,}", lacking, total)
            elif phase.word_repetition:
                yield _repeating(part, total)


def find_lost(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """Warnings of trainings whose loss became NaN or infinite: what they kept is of an earlier
    step."""
    for phase, seed, ended, kept in ask(work, _LOST.format(log=made.sql("training_log"))):
        said = f"{phase}, seed {seed}: the loss was NaN or infinite at its last step, {ended:,}; "
        said += f"the weights of step {kept:,} are kept"
        lost = ended - kept
        yield StageWarning("lost_loss", phase, lost, ended, said, "lower its learning rate")


def find_beforehand(configs: Mapping[str, BaseModel]) -> Iterator[tuple[str, StageWarning]]:
    """Step and warning where the columns of labelled corpora show before anything runs that rows
    have no teacher's cosine.

    configs: of all steps, by name.
    """
    corpora = {
        corpus.name: (corpus, config.max_line_bytes)
        for config in configs.values()
        if isinstance(config, LabelledConfig)
        for corpus in config.corpora
    }
    decaying = [
        (step, config.phase, part)
        for step, config in configs.items()
        if isinstance(config, TrainConfig)
        for part in config.phase.parts
        if _decays(part) and part.rows.source in corpora
    ]
    for step, phase, part in decaying:
        corpus, longest = corpora[part.rows.source]
        assert corpus.kind is not None
        kind = KINDS[corpus.kind]
        tables = reader_of(corpus.source).tables(corpus, longest)
        if not any("label" in columns_of(corpus, kind, table) for table in tables):
            yield step, _undecayed(part, "all", 0, 0)
        elif phase.word_repetition:
            yield step, _repeating(part, 0)


def _decays(part: PartConfig) -> bool:
    """Whether the part decays by what stands in its rows."""
    return part.decays() and TEACHER not in part.models


def _few(
    work: Work, configs: Sequence[BaseModel], parts: Sequence[PartConfig], rows: int, size: int
) -> StageWarning:
    sources = list(dict.fromkeys(part.rows.source for part in parts))
    names = " and ".join(repr(part.name) for part in parts)
    said = (
        f"there are only {rows:,} {' and '.join(map(_named, sources))} to train {names}, "
        f"{rows / size:.1f} batches of {size}, which teach an encoder little"
    )
    reasons, left_out = Counter[str](), "Candidates"
    if any(source in (*OF_TRIPLETS, _QUERIES) for source in sources):
        reasons = _refused(work.inputs["triplets"])
    elif _PAIRS in sources:
        reasons, left_out = _pairs_left_out(work.inputs[_PAIRS]), "Pairs"
    common = [reason for reason, _ in reasons.most_common(3)]
    if common:
        listed = ", ".join(f"{reason} {reasons[reason]:,}" for reason in common)
        said += f". {left_out} were left out as {listed}"
    selects = [one.model_dump(mode="json") for one in configs if isinstance(one, SelectConfig)]
    first = remedies(common, "select" if left_out == "Candidates" else "ingest", *selects[:1])[:1]
    remedy = ", or ".join([*first, " and ".join(dict.fromkeys(map(_more, sources)))])
    key = ", ".join(part.name for part in parts)
    return StageWarning("few_rows", key, rows, FEW_BATCHES * size, said, remedy)


def _named(source: str) -> str:
    return source.replace("_", " ") if source in SOURCES else f"rows of {source!r}"


def _more(source: str) -> str:
    if source in (_PAIRS, _QUERIES):
        return "add text"
    return "add text or raise sample.rows" if source in SOURCES else f"add rows to {source!r}"


def _rows(part: PartConfig, work: Work) -> int:
    """The rows that a part takes, apart from those that the guard leaves out."""
    if part.rows.source == "anchors":
        table = work.inputs["anchors"].table("anchor_shares", ["corpus", "anchors"])
        if part.rows.corpora:
            table = table.filter(pc.is_in(table["corpus"], pa.array(part.rows.corpora)))
        found = int(pc.sum(table["anchors"]).as_py() or 0)
    else:
        each = "*" if part.rows.one_per is None else 'DISTINCT "group"'
        (found,) = _counted(work, part, f"count({each})")
    return min(found, part.rows.max_rows or found)


def _counted(work: Work, part: PartConfig, counts: str, where: str = "true") -> tuple[int, ...]:
    """Counts, in SQL, of the rows that a part can train on."""
    return ask(work, f"SELECT {counts} FROM ({rows_sql(work, part)}) WHERE {where}")[0]


def _refused(made: Rows) -> Counter[str]:
    """How often `select` left out a candidate, by reason; what it could spare is not counted."""
    counts = made.table("rejects", ["reason"])["reason"].value_counts().to_pylist()
    found = Counter({entry["values"]: entry["counts"] for entry in counts})
    for reason in ("surplus", "unused_fallback"):
        found.pop(reason, None)
    return found


def _pairs_left_out(made: Rows) -> Counter[str]:
    """How many natural pairs `ingest` left out, by reason."""
    found = Counter[str]()
    for row in made.table("corpus_outcomes").to_pylist():
        if row["unit"] == "pair" and row["outcome"] not in SPLITS:
            found[row["outcome"]] += row["n"]
    return found


def _cut(work: Work, part: PartConfig, longest: int) -> Iterator[StageWarning]:
    """Of a part's texts that are longer than the training reads, in its first rows."""
    which = f"texts that train {part.name!r}"
    yield from find_cut(work, part.name, *_texts_of(work, part), longest, which, "train")


def _unknown(work: Work, part: PartConfig, backbone: Path) -> Iterator[StageWarning]:
    """Of words that the encoder cannot tell one from another, in a part's first texts."""
    from tokenizers import Tokenizer

    file = transformer_folder(backbone) / "tokenizer.json"
    columns, rows = _texts_of(work, part)
    found = ask(work, f"SELECT unnest([{', '.join(columns)}]) FROM {rows} LIMIT {LOOKED_AT}")
    words = sorted({word for (text,) in found if text for word in split(text)})
    if not words or not file.is_file():
        return
    tokenizer = Tokenizer.from_file(str(file))
    tokens = [one.tokens for one in tokenizer.encode_batch(words, add_special_tokens=False)]
    unknown = [word for word, of in zip(words, tokens, strict=True) if _UNKNOWN & set(of)]
    if len(unknown) > UNKNOWN * len(words):
        message = f"{len(unknown):,} of {len(words):,} words in texts that train {part.name!r} are "
        message += "unknown to the encoder's tokenizer, which writes one token for all of them"
        remedy = "start from a backbone that was trained on their language"
        count, total = len(unknown), len(words)
        yield StageWarning("unknown", part.name, count, total, message, remedy, unknown[0])


def _texts_of(work: Work, part: PartConfig) -> tuple[Sequence[str], str]:
    """The columns that hold a part's texts, and its rows in SQL."""
    if part.rows.source == "anchors":
        return ("text",), f"{work.inputs['sentences'].sql('sentences')} WHERE split = 'train'"
    columns = [name for name in SOURCES.get(part.rows.source, _TEXTS) if name in _TEXTS]
    return columns, f"({rows_sql(work, part)})"


def _without_side(part: PartConfig, rows: int) -> StageWarning:
    said = f"the encoder has prompts for queries and documents, and the {rows:,} {_rows_of(part)} "
    said += f"that train {part.name!r}, which have no such sides, are read without them"
    return StageWarning("no_side", part.name, rows, rows, said, _SIDED)


def _undecayed(part: PartConfig, lacking: str, count: int, total: int) -> StageWarning:
    said = f"{lacking} {_rows_of(part)} that train {part.name!r} have no teacher's cosine of "
    said += "their negative, which counts in full, without decay"
    return StageWarning("undecayed", part.name, count, total, said, _TAUGHT)


def _repeating(part: PartConfig, total: int) -> StageWarning:
    said = f"the teacher's cosines of the {_rows_of(part)} that train {part.name!r} are of the "
    said += "plain anchors, in which word_repetition repeats words"
    return StageWarning("plain_cosines", part.name, total, total, said, _TAUGHT)


def _rows_of(part: PartConfig) -> str:
    if part.rows.source == "anchors":
        return "anchors"
    return "triplets" if part.rows.source in OF_TRIPLETS else f"rows of {part.rows.source!r}"


# Sets named in the sentence.
_NAMED = 4


def find_transductive(
    work: Work, made: Rows, configs: Sequence[BaseModel]
) -> Iterator[StageWarning]:
    """A warning if the guard found such texts and removes none."""
    if work.config.action != "report":
        return
    found = made.table("contamination", ["text_id", "task"])
    if not found.num_rows:
        return
    counts = sorted(found["task"].value_counts().to_pylist(), key=lambda one: -one["counts"])
    named = ", ".join(f"{one['values']} {one['counts']:,}" for one in counts[:_NAMED])
    more = f" and {len(counts) - _NAMED} more" if len(counts) > _NAMED else ""
    texts = pc.count_distinct(found["text_id"]).as_py()
    said = "1 training text stands" if texts == 1 else f"{texts:,} training texts stand"
    trained = "is" if texts == 1 else "are"
    said += f" in evaluation sets ({named}{more}) and {trained} trained on, since guard.action is "
    said += "report"
    remedy = (
        "figures of these sets are transductive, and do not show how the encoder does on new texts"
    )
    yield StageWarning("transductive", None, texts, texts, said, remedy)


# A share of the rows.
FEW_NEGATIVES = 0.05


def find_few_negatives(
    work: Work, made: Rows, configs: Sequence[BaseModel]
) -> Iterator[StageWarning]:
    """A warning if too many rows have fewer than `negatives.k`."""
    total, k = count_rows(work), work.config.k
    with connection(work) as db:
        whole, some = db.execute(
            f"""SELECT count(*) FILTER (n = {k}), count(*) FROM
                (SELECT count(*) AS n FROM {made.sql("negatives")} GROUP BY triplet_id)"""
        ).fetchall()[0]
    if total and total - whole >= FEW_NEGATIVES * total:
        said = f"{total - whole:,} of {total:,} rows have fewer than {k} negatives, of which "
        said += f"{total - some:,} have none"
        remedy = "lower negatives.margin or negatives.k"
        yield StageWarning("few_negatives", work.config.source, total - whole, total, said, remedy)
