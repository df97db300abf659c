"""Warnings of a sample that is kept while the corpora change: how many sentences it did not see."""

from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow.parquet as pq
from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.corpus.anchors import ANCHOR_COLUMNS, eligible
from tercet.tasks.stage import Work
from tercet.tasks.warning import StageWarning, age

_REMEDY = "leave sample.keep out of a run to draw a new one, and tag that"


def find_kept(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning for each corpus with more or fewer sentences, or without any anchor.

    work: with the new sentences, and when the sample was drawn. made: the sample that is kept.
    """
    drawn = {row["corpus"]: row["sentences"] for row in made.table("anchor_shares").to_pylist()}
    rules = {row["corpus"]: row for row in made.table("anchors").to_pylist()}
    now: Counter[str] = Counter()
    for file in work.inputs["sentences"].files("sentences"):
        table = pq.read_table(file, columns=list(ANCHOR_COLUMNS))
        corpus = table["corpus"].to_numpy()
        for name in set(corpus):
            rule = rules.get(name, {"min_words": 1, "max_words": 1 << 30, "company": 0})
            fits = eligible(table, rule["min_words"], rule["max_words"], rule["company"])
            now[name] += int((fits & (corpus == name)).sum())
    kept = f"the sample of {age(work.spec['made'])} is kept"
    for name, count in sorted(now.items()):
        before = drawn.get(name, 0)
        if name not in rules:
            said = f"{kept}, which has no anchor of the corpus {name!r} with {count:,} sentences"
            yield StageWarning("kept_sample", name, count, count, said, _REMEDY)
        elif count != before:
            more = f"{abs(count - before):,} {'more' if count > before else 'fewer'}"
            said = f"{kept}, and of {name!r} there are now {more} than its {before:,} sentences"
            yield StageWarning("kept_sample", name, abs(count - before), count, said, _REMEDY)
