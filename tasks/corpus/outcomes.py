"""What became of each corpus: how much of it stands in which split, and what was left out, why."""

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
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
    corpus_of_item = gathered.corpus_of_document[owner]
    kept = np.zeros(len(split), dtype=np.bool_)
    kept[owner[reasons == 0]] = True
    rows: list[tuple[str, str, str, int]] = []
    for number, name in enumerate(names):
        found: Counter[tuple[str, str]] = Counter()
        for reason, count in gathered.faults[number].items():
            found[_UNIT_OF.get(reason, "row"), reason] += count
        found["text", gather.HTML] = gathered.cleaned[number]
        own = gathered.corpus_of_document == number
        found["document", NOTHING_KEPT] = int(np.sum(own & ~kept))
        found["document", LARGE_CLUSTER] = int(np.sum(own & kept & large))
        _by_split(found, "document", split[own & kept & ~large])
        if parted is not None:
            alone = np.zeros(len(split), dtype=np.bool_)
            alone[owner[parted[1] == 0]] = True
            _by_split(found, PARTED, parted[0][own & alone])
        for kind, unit in _UNITS.items():
            items = (corpus_of_item == number) & (gathered.kinds == kind)
            _by_split(found, unit, split[owner[items & (reasons == 0)]])
            for code, reason in enumerate(reasons_named):
                if code:
                    found[unit, reason] += int(np.sum(reasons[items] == code))
        rows += [(name, *key, count) for key, count in sorted(found.items()) if count]
    return pa.Table.from_arrays(
        [pa.array(values) for values in zip(*rows, strict=True)], schema=CORPUS_OUTCOMES
    )


def _by_split(found: Counter[tuple[str, str]], unit: str, codes: splits.Codes) -> None:
    for code, count in enumerate(np.bincount(codes, minlength=len(splits.SPLITS)).tolist()):
        found[unit, splits.SPLITS[code]] = count
