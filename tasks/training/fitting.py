"""What stages that train have in common: configs of models that are made, and the training."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from tercet.models.precision import Precision
from tercet.models.training.phase import Hyperparameters, Optimizer, PartRows, Trained
from tercet.tasks.stage import BadInput, Config, Work
from tercet.tasks.training.training_log import log_table

if TYPE_CHECKING:
    from tercet.models.training.loop import Choice, Setting


class MadeModel(Config):
    """A model that a recipe makes.

    name: its own under `models`, which a recipe writes as the key alone.
    """

    name: SkipJsonSchema[str] = ""


class FittedGenerator(MadeModel):
    """The model to start from, and how it is fitted."""

    init: str = Field(
        min_length=1,
        description="A model of the form, of `gense` a T5, named like any other.",
    )
    optimizer: Optimizer = Field(
        default="adamw",
        description="adafactor: rates are relative to the size of the weights; for a small T5, ten "
        "times adamw's rate.",
    )
    epochs: float = Field(default=10.0, gt=0.0, le=1000.0, description="Passes over the pairs")
    max_steps: int | None = Field(default=None, ge=1, description="Instead of epochs.")
    warmup: float = Field(
        default=0.06, ge=0.0, le=1.0, description="Share of the steps with a rising learning rate"
    )
    weight_decay: float = Field(default=0.01, ge=0.0, le=1.0, description="Weight decay of AdamW.")
    precision: Precision = Field(
        "fp32", description="Fp32, or bf16 where the processor or GPU is fast at it."
    )
    log_steps: int = Field(default=10, ge=1, description="Steps between rows of training_log.")

    def models(self) -> dict[str, str]:
        """The models that are read, by slot."""
        return {"init": self.init}


def hyperparameters_of(config: BaseModel, **more: Any) -> Hyperparameters:
    """Those that a config has under their own names."""
    return Hyperparameters(**config.model_dump(include={*Hyperparameters.model_fields}), **more)


def setting_of(
    work: Work, config: Any, choice: "Choice | None" = None, seed: int | None = None
) -> "Setting":
    """Where and how a stage's training runs.

    config: any with precision and log_steps. seed: None: the run's.
    """
    from tercet.models.training import loop

    return loop.Setting(
        directory=work.scratch / "checkpoints",
        seed=work.seed if seed is None else seed,
        precision=config.precision,
        device=work.resources.device,
        log_steps=config.log_steps,
        progress=work.resources.progress,
        choice=choice,
    )


def fitted(
    work: Work,
    config: Any,
    hyper: Hyperparameters,
    parts: Sequence[PartRows],
    seed: int,
    choice: "Choice | None" = None,
    mini_batch: int | None = None,
) -> tuple[Path, Trained]:
    """Trains the slot `backbone` through one phase, and emits `training_log`.

    Returns the trained encoder's directory, and what else training left.

    config: any with pooling, prompt, precision, log_steps and trust_remote_code. choice: how the
    weights are chosen; None: the last step's. mini_batch: texts encoded at once; None: a batch's.
    """
    from tercet.models.encoders import encoder
    from tercet.models.training import loop
    from tercet.models.training.train_encoder import save_encoder, train_encoder

    try:
        model = encoder.load_encoder(
            work.models["backbone"],
            config.pooling,
            device=work.resources.device,
            trust_remote_code=config.trust_remote_code,
            prompt=config.prompt,
            cnn_seed=seed,
            prompts=getattr(config, "prompts", None),
        )
        trained = train_encoder(
            model, hyper, parts, setting_of(work, config, choice, seed), mini_batch
        )
    except (ValueError, loop.NothingToChoose) as error:
        raise BadInput(str(error)) from error
    work.emit("training_log", log_table(trained.log, hyper.name, seed))
    return save_encoder(model, work.scratch / "model", trained.kept), trained
