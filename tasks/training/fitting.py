"""Trains the slot `backbone` through one phase: what `train` and `fit_evaluator` share."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tercet.models.training.phase import Numbers, PartRows
from tercet.tasks.stage import BadInput, Work

if TYPE_CHECKING:
    from tercet.models.training.choosing import Choice

TRAINING_LOG = pa.schema(
    [
        ("phase", pa.string()),
        ("step", pa.int32()),
        ("epoch", pa.float64()),
        ("loss", pa.float64()),
        ("terms", pa.map_(pa.string(), pa.float64())),
        ("learning_rate", pa.float64()),
        ("rows_per_second", pa.float64()),
        ("seed", pa.int64()),
        ("dev_metric", pa.string()),
        ("dev_value", pa.float64()),
        ("chosen", pa.bool_()),
    ],
    # Columns of the table's view: what the losses gaussian_decay and strict report; of several
    # parts, the first that does.
    {
        name: "(list_filter(map_entries(terms), lambda e: "
        f"e.key = '{name}' OR ends_with(e.key, '.{name}')))[1].value"
        for name in ("gate_opening", "student_negative", "teacher_negative", "in_order")
    },
)

MODEL_FOLDER = "model"


def fitted(
    work: Work,
    config: Any,
    numbers: Numbers,
    parts: Sequence[PartRows],
    seed: int,
    choice: "Choice | None" = None,
) -> tuple[Path, pa.Table | None]:
    """Emits `training_log`; the trained encoder's directory, and which rows were drawn.

    config: any with pooling, prompt, precision, log_steps and trust_remote_code. choice: how the
    weights are chosen; None: the last step's.
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
        )
        trained = train_encoder(model, numbers, parts, setting)
    except (ValueError, choosing.NothingToChoose) as error:
        raise BadInput(str(error)) from error
    rows = [
        {**row, "phase": numbers.name, "seed": seed, "terms": _terms(row["terms"])}
        for row in trained.log
    ]
    work.emit("training_log", pa.Table.from_pylist(rows, schema=TRAINING_LOG))
    return save_encoder(model, work.scratch / MODEL_FOLDER, trained.kept), trained.draws


def _terms(terms: Any) -> list[tuple[str, float]]:
    """As a map column takes them."""
    return sorted((terms or {}).items())
