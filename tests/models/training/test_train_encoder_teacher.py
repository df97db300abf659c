"""A teacher that reads the texts of a batch as the student sees them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from torch.nn.functional import cosine_similarity
from training_run import NUMBERS, part, same_weights, table, train, without_rate

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.losses.registry import loss_named
from tercet.models.training import train_encoder as module
from tercet.models.training.phase import Hyperparameters, PartRows, Teacher

PLAIN = NUMBERS.model_copy(update={"word_repetition": False})


def taught(rows: pa.Table, teacher: Teacher) -> PartRows:
    return part(rows, sigma_cosine=0.05, teacher=teacher)


def batches(
    backbone: Path, given: PartRows, numbers: Hyperparameters, count: int = 14
) -> tuple[list[Any], list[list[str]]]:
    """The labels of so many batches, and the columns of text that the student saw for them."""
    model = load_encoder(backbone, "mean")
    seen: list[list[str]] = []
    preprocess = model.preprocess

    def read(texts: list[str], **rest: Any) -> Any:
        seen.append(texts)
        return preprocess(texts, **rest)

    model.preprocess = read  # type: ignore[method-assign]
    feed = module._Feed(model, numbers, [given], [loss_named(given.loss)], 11)
    return [feed[step].inputs[0][1] for step in range(count)], seen


def cosines(backbone: Path, anchors: list[str], negatives: list[str], **form: Any) -> torch.Tensor:
    model = load_encoder(backbone, max_length=NUMBERS.max_length, **form)
    return cosine_similarity(*(torch.from_numpy(encode(model, t)) for t in (anchors, negatives)))


@pytest.mark.parametrize("pooling", [None, "cls"])
def test_the_labels_are_its_cosines_of_the_very_texts(
    tiny_backbone: Path, tiny_texts: list[str], pooling: Any
) -> None:
    """In the second epoch too, where other words are repeated, and in the form asked for."""
    rows = table(tiny_texts)
    originals = set(rows["anchor"].to_pylist())
    labels, seen = batches(tiny_backbone, taught(rows, Teacher(tiny_backbone, pooling)), NUMBERS)
    changed = 0
    for step, found in enumerate(labels):
        anchors, _, negatives = seen[3 * step : 3 * step + 3]
        expected = cosines(tiny_backbone, anchors, negatives, pooling=pooling)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
        changed += sum(anchor not in originals for anchor in anchors)
    assert changed > 50


def test_where_no_word_is_repeated_they_are_what_could_have_been_stored(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    texts = (rows[name].to_pylist() for name in ("anchor", "negative"))
    stored = pa.array(cosines(tiny_backbone, *texts).tolist(), pa.float32())
    given = rows.set_column(4, "label", stored)
    told, _ = batches(tiny_backbone, taught(rows, Teacher(tiny_backbone)), PLAIN)
    read, _ = batches(tiny_backbone, part(given, sigma_cosine=0.05), PLAIN)
    for left, right in zip(told, read, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-5)


def test_a_training_that_stopped_goes_on_as_if_it_had_not(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    given = [taught(table(tiny_texts), Teacher(tiny_backbone))]

    def stops(done: int, total: int | None, unit: str) -> None:
        if done == 15:
            raise KeyboardInterrupt

    weights, undisturbed = train(tiny_backbone, given, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tiny_backbone, given, tmp_path / "cut", checkpoint_steps=2, progress=stops)
    again, resumed = train(tiny_backbone, given, tmp_path / "cut")
    assert same_weights(weights, again)
    assert without_rate(resumed.log) == without_rate(undisturbed.log)
    assert undisturbed.log[-1]["terms"]["teacher_negative"] != pytest.approx(0.8)
