"""Upper bounds of the rows that each step reads and makes, before any of it exists."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tercet.flows.pipeline.step import Step
from tercet.storage.artifacts import Artifact
from tercet.tasks.corpus import sample
from tercet.tasks.corpus.sample import SampleConfig
from tercet.tasks.corpus.sources.corpora import CorpusConfig, IngestConfig

# More sentences than any corpus has.
_ENDLESS = 2**62

Rows: TypeAlias = int | None  # None: unknown


@dataclass(frozen=True)
class Most:
    """The most rows that a step reads and makes; None if unknown.

    words: the most words of a sentence among them.
    """

    reads: Rows = None
    makes: Rows = None
    words: Rows = None


def most_rows(steps: Sequence[Step], finished: Callable[[str], Artifact | None]) -> dict[str, Most]:
    """The bounds of each step, from the recipe's numbers and the existing tables.

    Args:
        steps: in order, each after its inputs.
        finished: the complete artifact of a step, if there is one.
    """
    found: dict[str, Most] = {}
    for step in steps:
        found[step.name] = _most(step, finished(step.name), found)
    return found


def _most(step: Step, artifact: Artifact | None, found: Mapping[str, Most]) -> Most:
    config: Any = step.config
    match step.stage.name:
        case "ingest":
            made = None if artifact is None else _made(artifact, "sentences")
            return Most(None, _sentences(config) if made is None else made, config.max_words)
        case "sample":
            sentences = found[step.inputs["sentences"][0]]
            anchors = _anchors(config, sentences.makes) if artifact is None else _drawn(artifact)
            return Most(sentences.makes, anchors, _least([sentences.words, config.max_words]))
        case "extract_generate" | "synthesise":
            anchors, words = _of(step, "anchors", found)
            made = None if artifact is None else _made(artifact, "generations")
            params = getattr(config, "params", {})
            asked = _times(anchors, params.get("per_unit", params.get("per_sentence", 1)))
            if params.get("unit") == "passage":
                words = None  # A paragraph has any number of sentences.
            return Most(anchors, asked if made is None else made, words)
        case "extract" | "extract_parse":
            return Most(_of(step, step.stage.each or "sentences", found)[0])
        case "parse":
            generations = _of(step, "generations", found)[0]
            made = None if artifact is None else _made(artifact, "candidates")
            return Most(generations, generations if made is None else made)
        case "select":
            candidates = _of(step, "candidates", found)[0]
            made = None if artifact is None else _made(artifact, "triplets")
            # Of each relation so many, and none without a candidate of its own.
            each = config.per_sentence * (1 if config.pairing == "role" else 3)
            triplets = _least([_times(found["sample"].makes, each), candidates])
            return Most(candidates, triplets if made is None else made)
        case "mine":
            candidates = _of(step, "candidates", found)[0]
            made = None if artifact is None else _made(artifact, "candidates")
            return Most(candidates, candidates if made is None else made)
        case "embed" | "score":
            return Most(_of(step, "candidates", found)[0])
        case _:
            slots = [slot for slot in ("triplets", "anchors") if slot in step.inputs]
            return Most(_of(step, slots[0], found)[0]) if slots else Most()


def _of(step: Step, slot: str, found: Mapping[str, Most]) -> tuple[Rows, Rows]:
    """The most rows of a slot, and the most words of a sentence among them."""
    read = [found[name] for name in step.inputs[slot]]
    rows = [one.makes for one in read]
    known = [one for one in rows if one is not None]
    return sum(known) if len(known) == len(rows) else None, _least([one.words for one in read])


def _made(artifact: Artifact, table: str) -> Rows:
    manifest = artifact.manifest() or {"tables": {}}
    entry = manifest["tables"].get(table)
    return None if entry is None else int(entry["rows"])


def _drawn(artifact: Artifact) -> Rows:
    return int(sum(artifact.rows().table("anchor_shares")["anchors"].to_pylist()))


def _anchors(config: SampleConfig, sentences: Rows) -> Rows:
    if config.rows is None:
        return sentences
    shares = [corpus.share for corpus in config.corpora]
    wanted = sum(sample.wanted([_ENDLESS] * len(shares), shares, config.rows))
    return _least([wanted, sentences])


def _sentences(config: IngestConfig) -> Rows:
    """The sentences of corpora with a limit of lines, if each line is one sentence."""
    counts = [corpus.limit if _by_lines(corpus) else None for corpus in config.corpora]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _by_lines(corpus: CorpusConfig) -> bool:
    plain = corpus.source.removesuffix(".gz").removesuffix(".zst").endswith(".txt")
    if corpus.source == "pydocs":
        return False
    return corpus.query is None and (corpus.prose is False or (corpus.prose is None and plain))


def _times(rows: Rows, each: int) -> Rows:
    return None if rows is None else rows * each


def _least(rows: Sequence[Rows]) -> Rows:
    return min((one for one in rows if one is not None), default=None)
