"""Findings about trainings: few rows, cut texts, unknown words, rows without a teacher, a lost
loss; rows that are also in evaluation sets, and rows with few negatives.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tercet.models.encoders.settings import has_sides
from tercet.models.losses.registry import TEACHER
from tercet.models.pretraining.forms import transformer_folder
from tercet.models.retrieval.words import split
from tercet.storage.rows import quoted
from tercet.tasks.corpus.splits import SPLITS
from tercet.tasks.findings.finding import Finding, Look, Row, counted, cut, cut_sql, listed
from tercet.tasks.retrieval.negatives import count_rows
from tercet.tasks.stage import Work, ask
from tercet.tasks.training.phase_rows import rows_sql, sides_of
from tercet.tasks.training.phases import OF_TRIPLETS, SOURCES, PartConfig

FEW_BATCHES = 8
# The share of rows with mined negatives below which a warning is given.
FEW_NEGATIVES = 0.05
# UNKNOWN: the share of unknown words among the distinct words of a part's LOOKED_AT first texts.
UNKNOWN, LOOKED_AT = 0.5, 1_000
# Tokens for unknown words, of WordPiece and of SentencePiece; byte vocabularies know all words.
_UNKNOWN = frozenset(("[UNK]", "<unk>"))
_PAIRS, _QUERIES = "document_pairs", "queries"
_TEXTS = ("anchor", "positive", "negative")


def _few_rows(look: Look) -> Iterator[Row]:
    """The first parts with too few rows; parts without a share of the batch count together."""
    phase = look.work.config.phase
    shared = [(part.share, [part]) for part in phase.parts if part.share is not None]
    others = [part for part in phase.parts if part.share is None]
    for share, parts in [*shared, *([(1.0, others)] if others else [])]:
        count = sum(_rows(part, look.work) for part in parts)
        size = max(round(share * phase.batch_size), 1)
        if count < FEW_BATCHES * size:
            sources = list(dict.fromkeys(part.rows.source for part in parts))
            stage, why = _left_out(look.work, sources)
            yield {
                "key": ", ".join(part.name for part in parts),
                "count": count,
                "total": FEW_BATCHES * size,
                "sources": " and ".join(map(repr, sources)),
                "batches": f"{count / size:.1f} batches of {size}",
                "left_out": f"; left out are {listed(why)}" if why else "",
                "why": why,
                "stage": stage,
            }
            return


def _left_out(work: Work, sources: Sequence[str]) -> tuple[str, list[Row]]:
    """The stage that left out candidates or pairs of these sources, and reasons by frequency."""
    if any(source in (*OF_TRIPLETS, _QUERIES) for source in sources):
        stage, table = "select", work.inputs["triplets"].sql("rejects")
        # Candidates that were merely not needed do not count.
        rows = f"""SELECT reason, count(*) FROM {table}
            WHERE reason NOT IN ('surplus', 'unused_fallback') GROUP BY ALL"""
    elif _PAIRS in sources:
        stage, table = "ingest", work.inputs[_PAIRS].sql("corpus_outcomes")
        rows = f"""SELECT outcome, sum(n)::BIGINT FROM {table}
            WHERE unit = 'pair' AND outcome NOT IN {SPLITS} GROUP BY ALL"""
    else:
        return "", []
    counts = ask(work, f"FROM ({rows}) AS counts(reason, n) ORDER BY n DESC, reason")
    return stage, [{"reason": reason, "n": n} for reason, n in counts]


def _rows(part: PartConfig, work: Work) -> int:
    """The number of rows that a part takes, without rows that the guard leaves out."""
    if part.rows.source == "anchors":
        table = work.inputs["anchors"].table("anchor_shares", ["corpus", "anchors"])
        if part.rows.corpora:
            table = table.filter(pc.is_in(table["corpus"], pa.array(part.rows.corpora)))
        count = int(pc.sum(table["anchors"]).as_py() or 0)
    else:
        each = "*" if part.rows.one_per is None else 'DISTINCT "group"'
        ((count,),) = ask(work, f"SELECT count({each}) FROM ({rows_sql(work, part)})")
    return min(count, part.rows.max_rows or count)


def _texts_of(work: Work, part: PartConfig) -> tuple[Sequence[str], str]:
    """The columns that hold a part's texts, and its rows in SQL."""
    if part.rows.source == "anchors":
        return ("text",), f"{work.inputs['sentences'].sql('sentences')} WHERE split = 'train'"
    columns = [name for name in SOURCES.get(part.rows.source, _TEXTS) if name in _TEXTS]
    return columns, f"({rows_sql(work, part)})"


def _cut(look: Look) -> str:
    """A query of the parts' first texts that are longer than `max_length`."""
    phase = look.work.config.phase
    return " UNION ALL ".join(
        cut_sql(
            part.name,
            f"texts that train {part.name!r}",
            *_texts_of(look.work, part),
            longest=phase.max_length,
        )
        for part in phase.parts
    )


def _unknown(look: Look) -> Iterator[Row]:
    """Words in each part's first texts that the encoder's tokenizer does not know."""
    from tokenizers import Tokenizer

    backbone = look.work.models.get("backbone")
    file = backbone and transformer_folder(backbone) / "tokenizer.json"
    if file is None or not file.is_file():
        return
    tokenizer = Tokenizer.from_file(str(file))
    for part in look.work.config.phase.parts:
        columns, rows = _texts_of(look.work, part)
        first = f"SELECT unnest([{', '.join(columns)}]) FROM {rows} LIMIT {LOOKED_AT}"
        words = sorted({word for (text,) in ask(look.work, first) if text for word in split(text)})
        tokens = [one.tokens for one in tokenizer.encode_batch(words, add_special_tokens=False)]
        unknown = [word for word, of in zip(words, tokens, strict=True) if _UNKNOWN & set(of)]
        if len(unknown) > UNKNOWN * len(words):
            row = {"key": part.name, "count": len(unknown), "total": len(words)}
            yield row | {"example": unknown[0]}


def _without_side(look: Look) -> Iterator[Row]:
    """Parts whose rows have no sides, if the encoder has prompts for sides."""
    backbone = look.work.models.get("backbone")
    if backbone is None or not has_sides(backbone, look.work.config.prompts):
        return
    for part in look.work.config.phase.parts:
        if not sides_of(part.rows):
            count = _rows(part, look.work)
            yield {"key": part.name, "count": count, "source": part.rows.source}


def _undecayed(look: Look) -> str:
    """A query of rows without a teacher's cosine, in parts that decay by the rows' cosines."""
    return " UNION ALL ".join(
        counted(
            "label IS NULL",
            f"FROM ({rows_sql(look.work, part)}) WHERE negative IS NOT NULL",
            "min(anchor)",
            f"{quoted(part.name)} AS key, {quoted(part.rows.source)} AS source",
        )
        for part in look.work.config.phase.parts
        if part.decays() and TEACHER not in part.models
    )


def _few_negatives(look: Look) -> str:
    total = count_rows(look.work)
    return f"""SELECT $source AS key, {total} - count(*) FILTER (n = $k) AS count,
        {total} AS total, {total} - count(*) AS none, $k AS k
        FROM (SELECT count(*) AS n FROM negatives GROUP BY triplet_id)"""


def _transductive(look: Look) -> str:
    """A query of the texts that the guard found, if it removes none."""
    if look.work.config.action != "report":
        return ""
    return """SELECT NULL AS key, (SELECT count(DISTINCT text_id) FROM contamination) AS count,
        (SELECT list({reason: task, n: n} ORDER BY n DESC, task)
            FROM (SELECT task, count(*) AS n FROM contamination GROUP BY task)) AS why"""


BEFORE = (
    Finding(
        "few_rows",
        _few_rows,
        "there are only {count:,} rows of {sources} to train {key!r}, {batches}, which teach an "
        "encoder little{left_out}",
        "add text or rows, or raise sample.rows",
    ),
    cut("train", _cut),
    Finding(
        "unknown",
        _unknown,
        "{count:,} of {total:,} words in texts that train {key!r} are unknown to the encoder's "
        "tokenizer, which writes one token for all of them",
        "start from a backbone that was trained on their language",
    ),
    Finding(
        "no_side",
        _without_side,
        "the encoder has prompts for queries and documents, and the {count:,} rows of {source!r} "
        "that train {key!r}, which have no such sides, are read without them",
        "train on `rows: document_pairs` for search, or do without its prompts by `prompts: "
        '{{query: "", document: ""}}`',
    ),
    Finding(
        "undecayed",
        _undecayed,
        "{count:,} of {total:,} rows of {source!r} that train {key!r} have no teacher's cosine of "
        "their negative, which counts in full, without decay",
        "name the teacher beside the loss, `models: {{teacher: evaluator}}`, or write "
        "`sigma_cosine: 0`",
    ),
)
"""Findings about the rows that a phase is about to train on."""
FINDINGS: Mapping[str, Sequence[Finding]] = {
    "train": (
        Finding(
            "lost_loss",
            """SELECT phase AS key, seed, ended - kept AS count, ended AS total, kept FROM (
                SELECT phase, seed, max(step) FILTER (loss IS NOT NULL) AS ended,
                    max(step) FILTER (chosen) AS kept
                FROM training_log GROUP BY phase, seed HAVING NOT isfinite(arg_max(loss, step)))""",
            "{key}, seed {seed}: the loss was NaN or infinite at its last step, {total:,}; the "
            "weights of step {kept:,} are kept",
            "lower its learning rate",
        ),
    ),
    "negatives": (
        Finding(
            "few_negatives",
            _few_negatives,
            "{count:,} of {total:,} rows have fewer than {k} negatives, {none:,} of them none",
            "lower negatives.margin or negatives.k",
            f"total > 0 AND count >= {FEW_NEGATIVES} * total",
        ),
    ),
    "guard": (
        Finding(
            "transductive",
            _transductive,
            "{count:,} training texts stand in evaluation sets ({reasons}) and are trained on, "
            "since guard.action is report",
            "figures of these sets are transductive, and do not show how the encoder does on new "
            "texts",
        ),
    ),
}
