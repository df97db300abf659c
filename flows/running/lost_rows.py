"""Warnings after `ingest`: corpora that lost rows or pairs, or of which little is held out."""

from collections import Counter, defaultdict
from collections.abc import Mapping

from tercet.flows.pipeline.step import Step
from tercet.flows.running.few_rows import MENDS
from tercet.storage.artifacts import Artifact
from tercet.tasks.corpus.ingest import IngestConfig
from tercet.tasks.corpus.outcomes import LARGE_CLUSTER, NOTHING_KEPT, PARTED
from tercet.tasks.corpus.sources.streams import conversion
from tercet.tasks.corpus.splits import SPLITS

OUTCOMES = "corpus_outcomes"
# A share of unreadable rows, or of pairs left out, from which it is told.
_LOST = 0.1
# No loss: the pair's text is there in another one.
_REPEATED = ("duplicate_query", "duplicate_answer")
# Where so many documents are asked for in dev or test, fewer than a third of them is no accident.
_ASKED = 10
# What the splits keep out of dev or train.
_BY_SPLITS = ("shared_with_test", "shared_with_dev", "like_test", "like_dev")

_Counts = Counter[tuple[str, str]]


def warnings(step: Step, artifact: Artifact) -> list[str]:
    """A sentence for each loss that a user should know of; none after other steps than `ingest`.

    artifact: the step's, finished.
    """
    if OUTCOMES not in step.stage.tables:
        return []
    assert isinstance(step.config, IngestConfig)
    config = step.config
    table = artifact.rows().table(OUTCOMES)
    found: dict[str, _Counts] = defaultdict(Counter)
    for row in table.to_pylist():
        found[row["corpus"]][row["unit"], row["outcome"]] = row["n"]
    asked = {"test": config.test, "dev": config.dev}
    said = []
    for corpus in config.corpora:
        counts = found[corpus.name]
        lines = (
            _unreadable(counts, corpus.source),
            _unused(counts),
            _unsplit(counts),
            _unpaired(counts),
            _held_out(counts, asked),
        )
        for line in lines:
            if line is not None:
                said.append(f"ingest: corpus {corpus.name!r}: {line}.")
    return said


def _of(counts: _Counts, unit: str) -> Counter[str]:
    return Counter({outcome: n for (of, outcome), n in counts.items() if of == unit})


def _listed(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} {n:,}" for reason, n in reasons.most_common(3))


def _unreadable(counts: _Counts, source: str) -> str | None:
    rows = _of(counts, "row")
    del rows["markup"]  # no loss: code, tables and lists between the prose
    read = rows.total() + _of(counts, "document").total()
    if rows.total() <= _LOST * read:
        return None
    hint = f"; if it is Latin-1: {conversion(source)}" if "not_utf8" in rows else ""
    return f"{rows.total():,} of {read:,} rows cannot be used ({_listed(rows)}){hint}"


def _unused(counts: _Counts) -> str | None:
    documents = _of(counts, "document")
    if documents.total() > documents[NOTHING_KEPT]:
        return None
    lost = Counter({reason: n for (unit, reason), n in counts.items() if unit != "document"})
    return f"no document of it is used ({_listed(lost)})"


def _unsplit(counts: _Counts) -> str | None:
    """Of sentences that the splits keep out, if they are many."""
    sentences = _of(counts, "sentence")
    lost = Counter({reason: n for reason, n in sentences.items() if reason in _BY_SPLITS})
    kept = Counter({split: sentences[split] for split in SPLITS})
    if not lost or lost.total() < _LOST * (lost + kept).total():
        return None
    return (
        f"{lost.total():,} of {(lost + kept).total():,} sentences are left out ({_listed(lost)}), "
        f"and {sentences['train']:,} are in train{_hint(lost)}"
    )


def _hint(lost: Counter[str]) -> str:
    mends = dict.fromkeys(MENDS[reason] for reason, _ in lost.most_common(3) if reason in MENDS)
    return f"; to keep more, {' and '.join(mends)}" if mends else ""


def _unpaired(counts: _Counts) -> str | None:
    pairs = _of(counts, "pair")
    for reason in _REPEATED:
        del pairs[reason]
    lost = Counter({reason: n for reason, n in pairs.items() if reason not in SPLITS})
    if not lost or lost.total() < _LOST * pairs.total():
        return None
    return (
        f"{lost.total():,} of {pairs.total():,} pairs are left out ({_listed(lost)}), and "
        f"{pairs['train']:,} are in train{_hint(lost)}"
    )


def _held_out(counts: _Counts, asked: Mapping[str, float]) -> str | None:
    documents = _of(counts, "document")
    kept = documents.total() - documents[NOTHING_KEPT]
    few = [
        name
        for name, share in asked.items()
        if share * kept >= _ASKED and documents[name] < share * kept / 3
    ]
    if not few:
        return None
    there = " and ".join(f"{documents[name]:,} are in {name}" for name in few)
    wanted = " and ".join(f"{asked[name]:.0%}" for name in few)
    said = f"of {kept:,} documents {there}, where {wanted} were asked for"
    together = documents[LARGE_CLUSTER]
    parted = _of(counts, PARTED)
    if together:
        said += (
            f"; {together:,} are tied together by runs of eight words or by nearly all their words,"
            " and went to train (ingest.largest_cluster)"
        )
    elif parted:
        # No document leaves test, so too few were drawn: those that are tied are drawn as one.
        said += "; documents that share runs of eight words or nearly all words stay together"
    if not parted:
        return said
    if all(parted[name] >= asked[name] * kept / 3 for name in few) and 2 * parted["train"] >= kept:
        return (
            f"{said}: ingest.rare=1 parts them, and leaves {parted['train']:,} in train and "
            f"{parted['test']:,} in test"
        )
    return (
        f"{said}: they are too alike to be parted (ingest.rare=1 would leave {parted['train']:,} "
        "in train), so leave copies out, or measure on texts of another corpus"
    )
