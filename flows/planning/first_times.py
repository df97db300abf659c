"""A first estimate of a step's time, before anything like it was made in the store.

Rough on purpose: what a recipe says before it is run is how many anchors it draws and how long its
files are, and the rates are those of one run elsewhere, in which a stage's rows grew with the
anchors.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Made, Weights
from tercet.models import weights
from tercet.tasks.corpus.sources import files
from tercet.tasks.corpus.sources.registry import reader_of

MACHINE = "2 cores of an AMD EPYC"
# Anchors a second; of `train` rows that it trains on, of `evaluate` encoders that it measures, of
# `passage_vectors` passages.
# `tercet run quickstart`, 3,000 anchors, and then
# tercet sql "SELECT step, 3000 / sum(seconds) FROM run_steps WHERE state = 'made' GROUP BY ALL".
RATES = {
    "ingest": 120,
    "extract": 1_000,
    "graph": 5_500,
    "synthesise": 2_000,
    "parse": 7_500,
    "embed": 130,
    "select": 3_000,
    "guard": 880,
    "evaluate": 1 / 28,
    "train": 46,
    "passage_vectors": 30,
}
# Bytes of the weights that encoded and learnt there; others take time in proportion to theirs.
_WEIGHTS = 90_864_192
# Rows of an epoch for each anchor: triplets, and about as many natural pairs.
_TRAINED = 1.9
# Bytes of a passage: 200 tokens of four letters.
_PASSAGE = 800
# Stages that take as good as no time.
_QUICK = ("sample", "passages", "score", "halves", "labels", "judgements")


def first_seconds(step: Step, steps: Sequence[Step]) -> float | None:
    """Seconds of a step by the recipe's numbers; None without a rate, a number or the weights.

    steps: all those of the run.
    """
    if step.stage.name in _QUICK:
        return 0.0
    rate, rows = RATES.get(step.stage.name), _rows(step, steps)
    size = _size(step, {other.name: other for other in steps}) if step.models else _WEIGHTS
    if rate is None or rows is None or size is None:
        return None
    return rows / rate * size / _WEIGHTS


def _rows(step: Step, steps: Sequence[Step]) -> float | None:
    """What the stage's rate counts; None where the recipe does not say."""
    if step.stage.name == "evaluate":
        return 1.0
    config: Any = step.config
    if step.stage.name == "passage_vectors":
        cut: Any = next(one.config for one in steps if one.stage.name == "passages")
        sources = [corpus.source for corpus in cut.corpora]
        # What is not in files says nothing of its length.
        if any(reader_of(source) is not files.READER for source in sources):
            return None
        found = [path for source in sources for _, path in files.files_of(source)]
        return sum(path.stat().st_size for path in found) / _PASSAGE
    if step.stage.name == "train" and config.phase.max_steps is not None:
        return float(config.phase.max_steps * config.phase.batch_size)
    sample: Any = next((one.config for one in steps if one.stage.name == "sample"), None)
    if sample is None or sample.rows is None:
        return None
    if step.stage.name == "train":
        return float(sample.rows * _TRAINED * config.phase.epochs)
    return float(sample.rows)


def _size(step: Step, by_name: Mapping[str, Step]) -> int | None:
    """Bytes of the largest weights behind the step's models; None while some are not here."""
    sizes = []
    for model in step.models.values():
        if isinstance(model, Made):
            sizes.append(_size(by_name[model.step], by_name))
        else:
            folder = weights.cached(model.name) if isinstance(model, Weights) else None
            files = [] if folder is None else [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
            sizes.append(sum(file.stat().st_size for file in files) or None)
    known = [size for size in sizes if size is not None]
    return max(known) if known and len(known) == len(sizes) else None
