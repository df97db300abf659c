"""Which step's weights a phase leaves: chosen by a figure, without moving what is trained."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from chosen_training import nearness, train
from training_run import Weights, same_weights, table, wait_for, without_rate

from tercet.models.encoders.encoder import encode
from tercet.models.training.loop import Choice, LogRow, NothingToChoose


def scripted(values: list[float | None]) -> Callable[[Any], float | None]:
    """These figures, one after the other, whatever the model."""
    given = iter(values)
    return lambda model: next(given)


@pytest.fixture(scope="module")
def plain(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Weights, list[LogRow]]:
    folder = tmp_path_factory.mktemp("plain")
    return train(tiny_backbone, table(tiny_texts), folder, None)


def test_measuring_leaves_every_step_of_the_training_as_it_was(
    tiny_backbone: Path,
    tiny_texts: list[str],
    tmp_path: Path,
    plain: tuple[Weights, list[LogRow]],
) -> None:
    # 22 steps; the last is the best, so that the weights must be those of no choice at all.
    choice = Choice(3, "some dev figure", scripted([1.0, 2, 3, 4, 5, 6, 7, 8]))

    def disturbing(model: Any) -> float | None:
        torch.rand(7)
        np.random.rand(3)
        encode(model, ["the old array"])
        return choice.measure(model)

    moved = Choice(3, choice.metric, disturbing)
    weights, log = train(tiny_backbone, table(tiny_texts), tmp_path, moved)
    assert same_weights(weights, plain[0])
    losses = [(row["step"], row["loss"], row["terms"]) for row in log if row["loss"]]
    assert losses == [(row["step"], row["loss"], row["terms"]) for row in plain[1]]
    measured = [(row["step"], row["dev_value"]) for row in log if row["dev_metric"]]
    assert measured == [(3, 1), (6, 2), (9, 3), (12, 4), (15, 5), (18, 6), (21, 7), (22, 8)]
    assert {row["dev_metric"] for row in log} == {None, "some dev figure"}
    # Steps 3, 9, 15 and 21 lie between the log's own: their rows have the measure alone.
    assert [row["step"] for row in log if row["loss"] is None] == [3, 9, 15, 21]
    assert [row["step"] for row in log] == sorted({row["step"] for row in log})
    assert [row["step"] for row in log if row["chosen"]] == [22]
    assert [row["step"] for row in plain[1] if row["chosen"]] == [22]


def test_the_best_step_stays_and_of_equals_the_earlier(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    seen: dict[int, dict[str, torch.Tensor]] = {}
    given = iter([4.0, 9.0, None, 9.0, 1.0])

    def measure(model: Any) -> float | None:
        seen[5 * (len(seen) + 1)] = {k: v.clone() for k, v in model.state_dict().items()}
        return next(given)

    weights, log = train(tiny_backbone, rows, tmp_path, Choice(5, "dev", measure))
    assert [row["step"] for row in log if row["chosen"]] == [10]
    assert same_weights(weights, seen[10])
    assert not same_weights(weights, seen[20])
    assert [row["dev_value"] for row in log if row["dev_metric"]] == [4, 9, None, 9, 1]


def test_nothing_that_can_be_measured_is_one_sentence(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    with pytest.raises(NothingToChoose):
        train(tiny_backbone, table(tiny_texts), tmp_path, Choice(50, "dev", lambda model: None))


CHILD = """
import sys, time
from pathlib import Path
import pyarrow.parquet as pq
sys.path.insert(0, sys.argv[1])
from chosen_training import Choice, nearness, train
def waits(done, total, unit):
    # Until it is killed: it gets no further, however late that is.
    if done >= int(sys.argv[5]):
        time.sleep(3600)
backbone = Path(sys.argv[2])
train(
    backbone, pq.read_table(sys.argv[3]), Path(sys.argv[4]),
    Choice(3, "dev", nearness(backbone)), checkpoint_steps=2, progress=waits,
)
"""


@pytest.mark.slow
def test_killed_it_keeps_the_best_so_far_and_ends_the_same(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    pq.write_table(rows, tmp_path / "rows.parquet")
    choice = Choice(3, "dev", nearness(tiny_backbone))
    whole, whole_log = train(tiny_backbone, rows, tmp_path / "whole", choice)
    work = tmp_path / "work"
    here = str(Path(__file__).parents[2] / "support")
    command = [sys.executable, "-c", CHILD, here, tiny_backbone, tmp_path / "rows.parquet", work]
    for wanted in (6, 14):
        child = subprocess.Popen([str(part) for part in [*command, wanted + 4]])
        wait_for(work, wanted, child)
        child.send_signal(signal.SIGKILL)
        child.wait()
    seen: list[int] = []
    weights, log = train(
        tiny_backbone, rows, work, choice, progress=lambda done, total, unit: seen.append(done)
    )
    assert seen[0] > 14  # it went on, it did not begin again
    assert same_weights(weights, whole)
    assert without_rate(log) == without_rate(whole_log)
    # The best is of the process that was killed first, and still there.
    assert [row["step"] for row in log if row["chosen"]] == [3]
    assert len(list(work.glob("best-*"))) == 1
