"""What became of each corpus: how much of it stands in which split, and what was left out, why."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.tasks.corpus import gather, splits

CORPUS_OUTCOMES = pa.schema(
    [
        ("corpus", pa.string()),
        ("unit", pa.string()),
        ("outcome", pa.string()),
        ("n", pa.int64()),
    ]
)
"""Table `corpus_outcomes`. What became of each corpus, in counts: what stands in which split, and
what was left out, why. What a user should know of it is in `warnings`.

Columns:
    corpus: the corpus's name in the recipe
    unit: `document`, `sentence`, `pair`, or `row` (what a reader could not use); `text`: of these
        only those are counted that HTML was taken out of, the outcome `html`; `parted`: documents
        as they would stand with `ingest.max_shingle_frequency: 1`, if few are in test or a cluster
        is too large
    outcome: a split, for what is kept; else the reason of `rejects`. Of documents also
        `large_cluster`: in train, since `ingest.largest_cluster` sends them there; and
        `nothing_kept`: in no table
    n: how many
"""
# Outcomes of documents beside the splits: in train because of `ingest.largest_cluster`, and
# nowhere, since nothing of them was kept.
LARGE_CLUSTER, NOTHING_KEPT = "large_cluster", "nothing_kept"
# The unit of documents as they would stand without ties, with `ingest.max_shingle_frequency: 1`.
PARTED = "parted"
Parted: TypeAlias = tuple[splits.Codes, splits.Codes]
# What a reason of `gather` concerns, if not a row that a reader reads.
_UNIT_OF = {"too_short": "sentence", "too_long": "sentence", "incomplete_pair": "pair"}
_UNITS = {gather.SENTENCE: "sentence", gather.QUERY: "pair"}


def outcomes(
    names: Sequence[str],
    gathered: gather.Gathered,
    split: splits.Codes,
    large: splits.Flags,
    reasons: splits.Codes,
    reasons_named: Sequence[str],
    parted: Parted | None = None,
) -> pa.Table:
    """The rows of `corpus_outcomes`: counts of documents, sentences, pairs and unread rows.

    Args:
        names: the corpora's names.
        split, large: of each document, its split and whether its cluster was too large.
        reasons: of each item, why it is left out (0: it is kept), an index of `reasons_named`.
        parted: split and reasons as they would be without ties.
    """
    owner = gathered.document_of_item
    named = (*splits.SPLITS, *reasons_named[1:], LARGE_CLUSTER, NOTHING_KEPT)
    found: Counter[tuple[int, str, str]] = Counter()

    def count(unit: str, corpora: splits.Index, outcome: npt.NDArray[Any]) -> None:
        codes, counts = np.unique(
            corpora.astype(np.int64) * len(named) + outcome, return_counts=True
        )
        for code, n in zip(codes.tolist(), counts.tolist(), strict=True):
            found[code // len(named), unit, named[code % len(named)]] += n

    for number in range(len(names)):
        for reason, n in gathered.faults[number].items():
            found[number, _UNIT_OF.get(reason, "row"), reason] += n
        found[number, "text", gather.HTML] += gathered.cleaned[number]
    kept = np.isin(np.arange(len(split)), owner[reasons == 0])
    of_kept = np.where(large, named.index(LARGE_CLUSTER), split)
    of_document = np.where(kept, of_kept, named.index(NOTHING_KEPT))
    count("document", gathered.corpus_of_document, of_document)
    if parted is not None:
        alone = np.unique(owner[parted[1] == 0])
        count(PARTED, gathered.corpus_of_document[alone], parted[0][alone])
    of_item = np.where(reasons == 0, split[owner], len(splits.SPLITS) - 1 + reasons)
    for kind, unit in _UNITS.items():
        own = gathered.kinds == kind
        count(unit, gathered.corpus_of_document[owner[own]], of_item[own])
    rows = [(names[number], *key, n) for (number, *key), n in sorted(found.items()) if n]
    return pa.Table.from_arrays(
        [pa.array(values) for values in zip(*rows, strict=True)], schema=CORPUS_OUTCOMES
    )
