"""A phase of parts: its batches, log, prompts and precision, and going on after a kill."""

import signal
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch
from sentence_transformers import SentenceTransformer
from training_run import (
    NUMBERS,
    Weights,
    drawn,
    mixed,
    part,
    same_weights,
    table,
    train,
    wait_for,
    without_rate,
)

from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses import registry
from tercet.models.training import train_encoder as module
from tercet.models.training.phase import Trained

SUPPORT = str(Path(__file__).parents[2] / "support")


@pytest.fixture(scope="module")
def undisturbed(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Weights, Trained]:
    torch.set_num_threads(1)
    return train(tiny_backbone, mixed(table(tiny_texts)), tmp_path_factory.mktemp("undisturbed"))


CHILD = """
import sys, time
from pathlib import Path
import pyarrow.parquet as pq
import torch
sys.path.insert(0, sys.argv[1])
import training_run
torch.set_num_threads(1)
def waits(done, total, unit):
    # Until it is killed: it gets no further, however late that is.
    if done >= int(sys.argv[5]):
        time.sleep(3600)
parts = getattr(training_run, sys.argv[6])(pq.read_table(sys.argv[3]))
training_run.train(
    Path(sys.argv[2]), parts, Path(sys.argv[4]),
    checkpoint_steps=2, progress=waits,
)
"""


def killed(backbone: Path, rows: pa.Table, work: Path, step: int, parts: str) -> int:
    """Trains these parts in a process that is killed once that step is kept; the step reached."""
    path = work.with_suffix(".parquet")
    pq.write_table(rows, path)
    command = [sys.executable, "-c", CHILD, SUPPORT, backbone, path, work, step + 4, parts]
    child = subprocess.Popen([str(word) for word in command])
    reached = wait_for(work, step, child)
    child.send_signal(signal.SIGKILL)
    child.wait()
    return reached


@pytest.mark.slow
def test_killed_in_the_middle_of_an_epoch_it_ends_with_the_same_weights(
    tiny_backbone: Path,
    tiny_texts: list[str],
    tmp_path: Path,
    undisturbed: tuple[Weights, Trained],
) -> None:
    rows, work = table(tiny_texts), tmp_path / "work"
    # 42 steps, 21 an epoch and in a round of the triplets: the second kill is in the second epoch.
    for wanted in (6, 26):
        assert wanted <= killed(tiny_backbone, rows, work, wanted, "mixed") < 42
    seen: list[int] = []
    weights, trained = train(
        tiny_backbone, mixed(rows), work, progress=lambda done, total, unit: seen.append(done)
    )
    assert seen[0] > 26  # it went on, it did not begin again
    assert seen[-1] == 42
    assert same_weights(weights, undisturbed[0])
    assert without_rate(trained.log) == without_rate(undisturbed[1].log)
    assert trained.draws == undisturbed[1].draws
    assert {path.suffix for path in work.rglob("*") if path.is_file()} == {".safetensors", ".json"}


@pytest.mark.slow
def test_killed_and_resumed_it_draws_the_same_positives(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    rows, work = table(tiny_texts), tmp_path / "work"
    # 11 steps an epoch: the kill is in the second.
    killed(tiny_backbone, rows, work, 14, "drawn")
    seen: list[int] = []
    weights, resumed = train(
        tiny_backbone, drawn(rows), work, progress=lambda done, total, unit: seen.append(done)
    )
    assert 14 < seen[0] < seen[-1] == 22
    other, undisturbed = train(tiny_backbone, drawn(rows), tmp_path / "undisturbed")
    assert same_weights(weights, other)
    assert without_rate(resumed.log) == without_rate(undisturbed.log)
    positives = [pa.concat_tables(trained.drawn) for trained in (resumed, undisturbed)]
    assert positives[0] == positives[1]
    assert positives[0].num_rows == 2 * rows.num_rows


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The columns of text that the encoder reads, one after the other."""
    columns: list[list[str]] = []
    preprocess = SentenceTransformer.preprocess

    def watching(self: SentenceTransformer, texts: list[str], **more: Any) -> Any:
        columns.append(texts)
        return preprocess(self, texts, **more)

    monkeypatch.setattr(SentenceTransformer, "preprocess", watching)
    return columns


def test_what_is_told_of_the_drawn_positives_is_what_was_trained_on(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path, seen: list[list[str]]
) -> None:
    rows = table(tiny_texts)
    # One epoch of 11 steps and part of the next.
    numbers = NUMBERS.model_copy(update={"max_steps": 15, "word_repetition": None})
    _, trained = train(tiny_backbone, drawn(rows), tmp_path, numbers)
    told = pa.concat_tables(trained.drawn)
    first, second = (told.filter(pc.equal(told["epoch"], epoch)) for epoch in (0, 1))
    assert first.num_rows == rows.num_rows
    # The last batch of an epoch may be the one of four.
    assert second.num_rows in (28, 32)
    anchors = dict(zip(rows["row_id"].to_pylist(), rows["anchor"].to_pylist(), strict=True))
    expected = Counter(told["text"].to_pylist())
    expected.update(anchors[row] for row in told["row_id"].to_pylist())
    assert Counter(text for column in seen for text in column) == expected
    # The same sentences, each with another positive.
    before = dict(zip(first["row_id"].to_pylist(), first["text"].to_pylist(), strict=True))
    after = zip(second["row_id"].to_pylist(), second["text"].to_pylist(), strict=True)
    assert sum(before[row] == text for row, text in after) < second.num_rows / 3


def test_the_log(undisturbed: tuple[Weights, Trained]) -> None:
    log = undisturbed[1].log
    assert [row["step"] for row in log] == list(range(2, 43, 2))
    assert log[-1]["epoch"] == 2.0
    assert log[-1]["loss"] < log[0]["loss"]
    assert [row["step"] for row in log if row["chosen"]] == [42]
    for row in log:
        terms = row["terms"]
        assert set(terms) == {
            "topical.loss",
            "strict.loss",
            "strict.gate_opening",
            "strict.gradient_share",
            "strict.student_negative",
            "strict.teacher_negative",
        }
        assert row["loss"] == pytest.approx(terms["topical.loss"] + 0.5 * terms["strict.loss"])
        assert 0 <= terms["strict.gate_opening"] <= 1
        assert 0 <= terms["strict.gradient_share"] <= 1
        assert terms["strict.teacher_negative"] == pytest.approx(0.8)
        assert -1 <= terms["strict.student_negative"] <= 1
        assert row["rows_per_second"] > 0


def test_a_lone_part_logs_the_terms_as_they_are_called(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    labels = pa.array([0.8 if i % 3 else None for i in range(84)], pa.float32())
    some = rows.set_column(4, "label", labels)
    none = rows.set_column(4, "label", pa.array([None] * 84, pa.float32()))
    _, trained = train(tiny_backbone, [part(some, sigma_cosine=0.1)], tmp_path / "some")
    assert all(row["terms"]["teacher_negative"] == pytest.approx(0.8) for row in trained.log)
    _, trained = train(tiny_backbone, [part(none, sigma_cosine=0.1)], tmp_path / "none")
    # Without a teacher the hard negatives count in full, and there is no cosine to report.
    assert all(row["terms"]["gate_opening"] == 1.0 for row in trained.log)
    assert all(row["terms"]["gradient_share"] == pytest.approx(1.0) for row in trained.log)
    assert all("teacher_negative" not in row["terms"] for row in trained.log)


def test_draws_name_the_rows_that_were_trained_on(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path, seen: list[list[str]]
) -> None:
    rows = table(tiny_texts)
    texts = dict(zip(rows["row_id"].to_pylist(), rows["anchor"].to_pylist(), strict=True))
    triplets = mixed(rows)[1:]
    plain = NUMBERS.model_copy(update={"word_repetition": None})

    def read(first: int, last: int) -> Counter[str]:
        """The anchors of these steps, each of three columns."""
        return Counter(text for column in seen[3 * first : 3 * last : 3] for text in column)

    _, trained = train(tiny_backbone, triplets, tmp_path, plain)
    draws = trained.draws
    assert draws is not None
    assert draws.schema.names == ["epoch", "part", "group", "row_id"]
    assert set(draws["part"].to_pylist()) == {"strict"}
    steps = len(seen) // 6
    for epoch in (0, 1):
        drawn = draws.filter(pc.equal(draws["epoch"], epoch))
        assert sorted(drawn["group"].to_pylist()) == list(range(42))
        anchors = Counter(texts[row] for row in drawn["row_id"].to_pylist())
        assert anchors == read(epoch * steps, (epoch + 1) * steps)
    first, second = (draws.filter(pc.equal(draws["epoch"], e))["row_id"] for e in (0, 1))
    assert 5 < sum(a != b for a, b in zip(first.to_pylist(), second.to_pylist(), strict=True)) < 37
    # The training ends in the middle of a round: the rest of it was not trained on.
    seen.clear()
    short = plain.model_copy(update={"max_steps": 2})
    _, trained = train(tiny_backbone, triplets, tmp_path / "short", short)
    assert trained.draws is not None
    assert Counter(texts[row] for row in trained.draws["row_id"].to_pylist()) == read(0, 2)


def test_batches_hold_each_part_by_its_share(tiny_backbone: Path, tiny_texts: list[str]) -> None:
    rows = table(tiny_texts)
    parts = mixed(rows)
    losses = [registry.loss_named(part.loss) for part in parts]
    feed = module._Feed(load_encoder(tiny_backbone), NUMBERS, parts, losses, 11)
    assert len(feed) == 21  # 42 groups, two a batch; the 84 pairs need 14 batches of six
    sizes = [[len(f[0]["input_ids"]) for f, _ in feed[step].inputs] for step in range(21)]
    assert sizes == [[6, 2]] * 21
    # The smaller part starts over, and each of its rounds goes through all of its rows.
    rounds: dict[int, Counter[tuple[int, ...]]] = {}
    for step in range(28):
        ids = feed[step].inputs[0][0][1]["input_ids"].tolist()
        rounds.setdefault(step // 14, Counter()).update(
            tuple(token for token in row if token) for row in ids
        )
    assert rounds[0] == rounds[1]
    assert rounds[0].total() == 84


def test_other_parts_and_phases_leave_a_parts_draws_alone(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    first, second = mixed(rows)
    reversed_ = train(tiny_backbone, [second, first], tmp_path / "reversed")[1].draws
    other = part(rows.slice(0, 40), "info_nce", name="third", share=0.75)
    replaced = train(tiny_backbone, [second, other], tmp_path / "replaced")[1].draws
    straight = train(tiny_backbone, [first, second], tmp_path / "straight")[1].draws
    assert reversed_ == straight == replaced


def test_the_weight_of_the_only_part_scales_its_loss(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    numbers = NUMBERS.model_copy(update={"max_steps": 1})
    plain, heavy = (
        train(tiny_backbone, [part(rows, weight=weight)], tmp_path / str(weight), numbers)[1].log
        for weight in (1.0, 3.0)
    )
    assert heavy[0]["loss"] == pytest.approx(3 * plain[0]["loss"])


def test_word_repetition_is_anew_each_epoch(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path, seen: list[list[str]]
) -> None:
    def once(text: str) -> str:
        return " ".join(word for word, _ in groupby(text.split()))

    rows = table(tiny_texts)
    train(tiny_backbone, [part(rows)], tmp_path)
    first, second = (
        {once(text): text for column in seen[start : start + 33 : 3] for text in column}
        for start in (0, 33)
    )
    assert first.keys() == second.keys() == set(map(once, rows["anchor"].to_pylist()))
    assert sum(first[text] != second[text] for text in first) > 60  # of 84


def test_the_order_of_the_rows_does_not_matter(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    backwards = rows.take(list(range(rows.num_rows))[::-1])
    numbers = NUMBERS.model_copy(update={"max_steps": 4})
    straight, turned = (
        train(tiny_backbone, [part(given)], tmp_path / name, numbers)[0]
        for name, given in (("straight", rows), ("turned", backwards))
    )
    assert same_weights(straight, turned)


def test_a_column_that_the_loss_needs_is_missing(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    pairs = table(tiny_texts).select(["row_id", "anchor", "positive"])
    with pytest.raises(ValueError, match="negative"):
        train(tiny_backbone, [part(pairs)], tmp_path)
