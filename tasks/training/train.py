"""Stage `train`: one phase of training; the artifact is a SentenceTransformer."""

from collections.abc import Iterator
from pathlib import Path

from tercet.models.losses.registry import LOSSES
from tercet.tasks.stage import Stage, Work
from tercet.tasks.training.choosers import LOCATIONS, choice_files, choice_for, chooser_used
from tercet.tasks.training.fitting import TRAINING_LOG, fitted
from tercet.tasks.training.phase_rows import (
    DRAWN_PAIRS,
    DRAWS,
    drawn_table,
    draws_table,
    part_rows,
)
from tercet.tasks.training.train_settings import TrainConfig


def run(work: Work) -> Path:
    """Trains the phase; returns the encoder's directory, emits the log and the draws."""
    config: TrainConfig = work.config
    phase = config.phase
    choice = choice_for(work, config)
    teachers = config.teachers
    parts = [part_rows(work, phase.name, part, teachers.get(part.name)) for part in phase.parts]
    seed = work.seed if config.model_seed is None else config.model_seed
    directory, trained = fitted(work, config, phase, parts, seed, choice, phase.mini_batch)
    if trained.draws is not None:
        work.emit("draws", draws_table(work, phase, seed, trained.draws))
    for drawn in trained.drawn:
        work.emit("drawn_pairs", drawn_table(phase.name, seed, drawn))
    return directory


def uses(config: TrainConfig) -> Iterator[object]:
    """The phase's losses and its chooser, on whose code only this training depends."""
    yield from (LOSSES[name] for name in config.phase.losses())
    yield from chooser_used(config)


STAGE = Stage(
    name="train",
    config=TrainConfig,
    tables={"training_log": TRAINING_LOG, "draws": DRAWS, "drawn_pairs": DRAWN_PAIRS},
    run=run,
    model=True,
    libraries=("torch", "transformers", "sentence-transformers"),
    uses=uses,
    externals=choice_files,
    locations=("phase.backbone", *LOCATIONS),
)
