"""Training in phases, and going on after a kill as if nothing had happened."""

import dataclasses
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from training_run import PAIRS, PHASE, same_weights, table, train, wait_for, without_rate

from tercet.models.encoders.encoder import load_encoder
from tercet.models.training import batches as training_batches
from tercet.models.training import loop as training
from tercet.models.training.loop import Setting


@pytest.fixture(scope="module")
def undisturbed(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple:  # type: ignore[type-arg]
    torch.set_num_threads(1)
    return train(tiny_backbone, table(tiny_texts), tmp_path_factory.mktemp("undisturbed"))


CHILD = """
import sys, time
from pathlib import Path
import pyarrow.parquet as pq
import torch
sys.path.insert(0, sys.argv[1])
import training_run as test_training
torch.set_num_threads(1)
def waits(done, total, unit):
    # Until it is killed: it gets no further, however late that is.
    if done >= int(sys.argv[5]):
        time.sleep(3600)
test_training.train(
    Path(sys.argv[2]), pq.read_table(sys.argv[3]), Path(sys.argv[4]),
    checkpoint_steps=2, progress=waits,
)
"""


def test_killed_in_the_middle_of_an_epoch_it_ends_with_the_same_weights(
    tiny_backbone: Path,
    tiny_texts: list[str],
    tmp_path: Path,
    undisturbed: tuple,  # type: ignore[type-arg]
) -> None:
    rows = table(tiny_texts)
    pq.write_table(rows, tmp_path / "rows.parquet")
    work = tmp_path / "work"
    here = str(Path(__file__).parents[2] / "support")
    command = [sys.executable, "-c", CHILD, here, tiny_backbone, tmp_path / "rows.parquet", work]
    first = work / "phase-000"
    # 22 steps of the first phase, 11 an epoch: the second kill falls into the second epoch.
    for wanted in (4, 14):
        child = subprocess.Popen([str(part) for part in [*command, wanted + 4]])
        reached = wait_for(first, wanted, child)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert wanted <= reached < 22
    seen: list[int] = []
    weights, log = train(
        tiny_backbone, rows, work, progress=lambda done, total, unit: seen.append(done)
    )
    assert seen[0] > 14  # it went on, it did not begin again
    assert seen[-1] == 33
    assert same_weights(weights, undisturbed[0])
    assert without_rate(log) == without_rate(undisturbed[1])
    assert not [path for path in work.rglob("*") if path.suffix in (".bin", ".pt", ".pth", ".pkl")]


def test_the_log(undisturbed: tuple) -> None:  # type: ignore[type-arg]
    log = undisturbed[1]
    first = [row for row in log if row["phase"] == "first"]
    assert [row["step"] for row in first] == list(range(2, 23, 2))
    assert [row["step"] for row in log[len(first) :]] == [2, 4, 6, 8, 10, 11]
    assert first[-1]["epoch"] == 2.0
    assert first[-1]["loss"] < first[0]["loss"]
    for row in first:
        assert 0 <= row["gate_opening"] <= 1
        assert row["teacher_negative"] == pytest.approx(0.8)
        assert -1 <= row["student_negative"] <= 1
        assert row["rows_per_second"] > 0
    assert all(row["gate_opening"] is None for row in log[len(first) :])


def test_the_learning_rate_rises_then_falls_to_zero(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    phase = dataclasses.replace(PAIRS, warmup=0.4, max_steps=10)
    setting = Setting(tmp_path, seed=1, log_steps=1)
    rows = table(tiny_texts)
    _, log = training.train_phases(
        lambda: load_encoder(tiny_backbone, "mean"), [(phase, False, rows)], setting
    )
    shares = [0, 1 / 4, 2 / 4, 3 / 4, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]
    rates = [row["learning_rate"] for row in log]
    # The log gives the rate of the step just taken.
    assert rates == pytest.approx([1e-3 * share for share in shares])


def test_phases_reach_the_trainer(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decays: list[set[float]] = []
    batches: dict[int, set[tuple[int, ...]]] = {}
    said: dict[int, dict[int, str]] = {}
    collate = training.Collator.__call__
    repeat = training_batches.repeat_words

    class Watched(training._Trainer):
        def training_step(self, *args: object) -> torch.Tensor:
            decays.append({group["weight_decay"] for group in self.optimizer.param_groups})
            return super().training_step(*args)

    def collated(self: training.Collator, features: list[dict[str, object]]) -> object:
        ids = tuple(sorted(row["row_id"] for row in features))  # type: ignore[type-var]
        batches.setdefault(self.epoch, set()).add(ids)  # type: ignore[arg-type]
        return collate(self, features)  # type: ignore[arg-type]

    def repeated(text: str, seed: int, row_id: int, epoch: int) -> str:
        return said.setdefault(epoch, {}).setdefault(row_id, repeat(text, seed, row_id, epoch))

    monkeypatch.setattr(training, "_Trainer", Watched)
    monkeypatch.setattr(training.Collator, "__call__", collated)
    monkeypatch.setattr(training_batches, "repeat_words", repeated)
    phase = dataclasses.replace(PHASE, weight_decay=0.125)
    rows = table(tiny_texts)
    training.train_phases(
        lambda: load_encoder(tiny_backbone, "mean"), [(phase, False, rows)], Setting(tmp_path, 1)
    )
    assert len(decays) == 22
    assert set().union(*decays) == {0.0, 0.125}  # none on biases and norms
    assert set(batches) == set(said) == {0, 1}
    assert len(batches[0] & batches[1]) < 4  # of 11
    assert said[0].keys() == said[1].keys() == set(rows["row_id"].to_pylist())
    assert sum(said[0][row] != said[1][row] for row in said[0]) > 60  # of 84


def test_finished_phases_are_not_trained_again(
    tiny_backbone: Path,
    tiny_texts: list[str],
    tmp_path: Path,
    undisturbed: tuple,  # type: ignore[type-arg]
) -> None:
    rows = table(tiny_texts)
    train(tiny_backbone, rows, tmp_path)
    seen: list[int] = []
    again = train(
        tiny_backbone, rows, tmp_path, progress=lambda done, total, unit: seen.append(done)
    )
    assert seen == []
    assert same_weights(again[0], undisturbed[0])
    assert without_rate(again[1]) == without_rate(undisturbed[1])


def test_the_order_of_the_rows_does_not_matter(
    tiny_backbone: Path,
    tiny_texts: list[str],
    tmp_path: Path,
    undisturbed: tuple,  # type: ignore[type-arg]
) -> None:
    rows = table(tiny_texts)
    backwards = rows.take(list(range(rows.num_rows))[::-1])
    assert same_weights(train(tiny_backbone, backwards, tmp_path)[0], undisturbed[0])


def test_a_phase_from_the_backbone_forgets_the_one_before(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts).select(["row_id", "anchor", "positive"])
    short = dataclasses.replace(PAIRS, max_steps=3)
    other = dataclasses.replace(short, name="other", learning_rate=1e-2)

    def weights(name: str, *phases: tuple) -> dict[str, torch.Tensor]:  # type: ignore[type-arg]
        model, _ = training.train_phases(
            lambda: load_encoder(tiny_backbone, "mean"), phases, Setting(tmp_path / name, seed=1)
        )
        return model.state_dict()  # type: ignore[no-any-return]

    alone = weights("alone", (short, False, rows))
    assert same_weights(weights("again", (other, False, rows), (short, True, rows)), alone)
    assert not same_weights(weights("on", (other, False, rows), (short, False, rows)), alone)


def test_the_saved_encoder_is_plain_and_keeps_its_length(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    path = training.save_encoder(load_encoder(tiny_backbone, "cls"), tmp_path / "encoder")
    names = {file.name for file in path.rglob("*") if file.is_file()}
    assert "model.safetensors" in names
    assert not names & {"README.md", "training_args.bin", "pytorch_model.bin"}
    again = load_encoder(path)
    assert again.max_seq_length == 64
    assert again[1].pooling_mode == "cls"
