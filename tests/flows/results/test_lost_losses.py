"""What the summary says of trainings whose loss was NaN at their end."""

import math

import duckdb
import pyarrow as pa

from tercet.flows.results import lost_losses
from tercet.tasks.training.training_log import TRAINING_LOG


def connection(
    *trainings: tuple[str, int, list[float | None], int | None],
) -> duckdb.DuckDBPyConnection:
    """Of each training its phase, its seed, the loss of steps 10, 20, …, and the chosen step."""
    blank = dict.fromkeys(TRAINING_LOG.names)
    rows = [
        {**blank, "phase": phase, "seed": seed, "step": step, "loss": loss, "chosen": step == kept}
        for phase, seed, losses, kept in trainings
        for step, loss in zip(range(10, 10_000, 10), losses, strict=False)
    ]
    db = duckdb.connect()
    db.register("training_log", pa.Table.from_pylist(rows, schema=TRAINING_LOG))
    return db


def test_a_training_that_ended_at_a_nan_names_its_step_and_the_one_kept() -> None:
    lost = ("writer", 42, [3.0, 2.0, math.nan], 20)
    same_phase = ("writer", 43, [3.0, 2.0, 1.0], 30)
    (said,) = lost_losses.told(connection(lost, same_phase))
    assert said == (
        "writer, seed 42: the loss was NaN or infinite at its last step, 30; the weights of step "
        "20 are kept. Lower its learning rate."
    )
    assert len(lost_losses.told(connection(("writer", 42, [3.0, math.inf], 10)))) == 1


def test_only_steps_with_a_loss_are_told() -> None:
    # Measured on dev at step 40, where no loss was logged.
    (said,) = lost_losses.told(connection(("writer", 42, [3.0, 2.0, math.nan, None], 20)))
    assert "infinite at its last step, 30; the weights of step 20" in said
    assert lost_losses.told(connection(("writer", 42, [3.0, math.inf], 20))) == []


def test_a_nan_that_passed_is_not_told() -> None:
    assert lost_losses.told(connection(("train", 42, [3.0, math.nan, 2.0], 30))) == []


def test_a_run_that_trained_nothing_says_nothing() -> None:
    assert lost_losses.told(duckdb.connect()) == []
