"""Stage `halves`: held-out texts cut in two, for a corpus that has no natural pairs.

The first half is a query that must find its second half among the second halves of its split. A
text is a paragraph of the recipe's corpora. Splits are by document, so nothing of dev and test is
trained on.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from tercet.models import seeding
from tercet.models.text.halves import halves
from tercet.models.text.words import count_words
from tercet.tasks.corpus.questions import QUESTIONS
from tercet.tasks.evaluation.evaluation_rows import HALVES as NAME
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import Config, Stage, Work

# Questions that a split needs: one answer to find and one other.
LEAST = 2
_COLUMNS = ("corpus", "doc_id", "paragraph", "position", "text", "split")


class HalvesConfig(Config):
    """Settings of which texts are cut."""

    min_words: int = Field(
        default=20, ge=8, le=1000, description="words from which a single sentence is cut"
    )
    corpora: tuple[str, ...] = Field(default=(), description="only texts of these; empty: of all")


def run(work: Work) -> None:
    """Emits `questions`: a row for each paragraph of dev and test that is long enough.

    A split with fewer than two questions cannot be ranked: a reject names the reason.
    """
    config: HalvesConfig = work.config
    texts_of: dict[str, set[str]] = {}
    longest: dict[str, list[int]] = {split: [] for split in ("dev", "test")}
    held_out = pc.field("split") != pc.scalar("train")
    if config.corpora:
        held_out &= pc.field("corpus").isin(list(config.corpora))
    # No document lies in two files.
    for file in work.inputs["sentences"].files("sentences"):
        table = pq.read_table(file, columns=list(_COLUMNS), filters=held_out)
        rows = []
        for doc_id, split, sentences in paragraphs(table):
            cut = halves(sentences, config.min_words)
            longest[split].append(sum(map(count_words, sentences)))
            # If two texts shared a half, a right answer would count as wrong.
            if cut is None or not texts_of.setdefault(split, set()).isdisjoint(cut):
                continue
            texts_of[split].update(cut)
            rows.append((doc_id, *cut, split))
        if rows:
            doc_ids, queries, answers, splits = map(list, zip(*rows, strict=True))
            names = [NAME] * len(queries)
            ids = seeding.text_ids(names, queries, answers)
            columns = [ids, pa.array(doc_ids, pa.uint64()), names, queries, answers, splits]
            work.emit("questions", pa.table(columns, schema=QUESTIONS))
    for split, words in longest.items():
        if len(texts_of.get(split, ())) < 2 * LEAST:
            why = _why(split, words, config.min_words)
            work.emit("rejects", rejects(NAME, [None], "no_halves", why, split))


def _why(split: str, words: Sequence[int], min_words: int) -> str:
    """Why a split has too few texts that can be cut; words: of each of its texts."""
    if not words:
        return f"halves: no text fell to split {split}"
    return (
        f"halves: of the {len(words):,} texts in split {split} fewer than {LEAST} can be cut in two"
        f" (one of several sentences, or one of {min_words} words; the longest text has "
        f"{max(words)})"
    )


def paragraphs(table: pa.Table) -> Iterator[tuple[int, str, list[str]]]:
    """(document, split, sentences) of each paragraph of a table with whole documents."""
    table = table.sort_by([(name, "ascending") for name in ("doc_id", "paragraph", "position")])
    columns = [table[name].to_pylist() for name in ("doc_id", "paragraph", "split", "text")]
    for (doc_id, _, split), rows in groupby(zip(*columns, strict=True), lambda row: row[:3]):
        yield doc_id, split, [row[3] for row in rows]


STAGE = Stage(
    name=NAME, config=HalvesConfig, tables={"questions": QUESTIONS}, run=run, seeded=False
)
