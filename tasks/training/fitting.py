"""Trains the slot `backbone` through one phase: what `train` and `fit_evaluator` share."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tercet.models.training.phase import Hyperparameters, PartRows, Trained
from tercet.tasks.stage import BadInput, Work
from tercet.tasks.training.training_log import log_table

if TYPE_CHECKING:
    from tercet.models.training.choosing import Choice

MODEL_FOLDER = "model"


def fitted(
    work: Work,
    config: Any,
    hyper: Hyperparameters,
    parts: Sequence[PartRows],
    seed: int,
    choice: "Choice | None" = None,
    mini_batch: int | None = None,
) -> tuple[Path, Trained]:
    """Emits `training_log`; the trained encoder's directory, and what else training left.

    config: any with pooling, prompt, precision, log_steps and trust_remote_code. choice: how the
    weights are chosen; None: the last step's. mini_batch: texts encoded at once; None: a batch's.
    """
    from tercet.models.encoders import encoder
    from tercet.models.training import choosing, loop
    from tercet.models.training.train_encoder import save_encoder, train_encoder

    setting = loop.Setting(
        directory=work.scratch / "checkpoints",
        seed=seed,
        precision=config.precision,
        device=work.resources.device,
        log_steps=config.log_steps,
        progress=work.resources.progress,
        choice=choice,
    )
    try:
        model = encoder.load_encoder(
            work.models["backbone"],
            config.pooling,
            device=work.resources.device,
            trust_remote_code=config.trust_remote_code,
            prompt=config.prompt,
            cnn_seed=seed,
        )
        trained = train_encoder(model, hyper, parts, setting, mini_batch)
    except (ValueError, choosing.NothingToChoose) as error:
        raise BadInput(str(error)) from error
    work.emit("training_log", log_table(trained.log, hyper.name, seed))
    return save_encoder(model, work.scratch / MODEL_FOLDER, trained.kept), trained
