"""A part whose columns are the sides of a search is read with the encoder's prompts for them."""

from pathlib import Path

import pyarrow as pa
import pytest
import torch
from training_run import NUMBERS, Weights, part, same_weights, table, train

from tercet.models.encoders.encoder import load_encoder, save_encoder
from tercet.models.encoders.settings import Prompts

# Equally long, so that batches are the same without them.
BEFORE = {"anchor": "the old ", "positive": "red row "}
SIDES = {"anchor": "query", "positive": "document"}


@pytest.fixture
def sided(tiny_backbone: Path, tmp_path: Path) -> Path:
    prompts = Prompts(query=BEFORE["anchor"], document=BEFORE["positive"])
    return save_encoder(load_encoder(tiny_backbone, "mean", prompts=prompts), tmp_path / "sided")


def trained(backbone: Path, rows: pa.Table, directory: Path, **fields: object) -> Weights:
    torch.set_num_threads(1)
    numbers = NUMBERS.model_copy(update={"word_repetition": False, "epochs": 1.0})
    pairs = rows.drop_columns(["negative", "label"])
    weights, _ = train(backbone, [part(pairs, "info_nce", **fields)], directory, numbers)
    return weights


def test_training_on_sides_is_training_on_texts_with_their_prompts(
    tiny_backbone: Path, sided: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    found = trained(sided, rows, tmp_path / "a", sides=SIDES)
    for place, (name, prompt) in enumerate(BEFORE.items(), start=1):
        texts = [prompt + text for text in rows[name].to_pylist()]
        rows = rows.set_column(place, name, pa.array(texts))
    assert same_weights(found, trained(tiny_backbone, rows, tmp_path / "b"))


def test_without_sides_the_prompts_are_not_read(
    tiny_backbone: Path, sided: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    found = trained(sided, rows, tmp_path / "a")
    assert same_weights(found, trained(tiny_backbone, rows, tmp_path / "b", sides=SIDES))
    assert not same_weights(found, trained(sided, rows, tmp_path / "c", sides=SIDES))


def test_a_prompt_must_leave_the_trained_texts_some_room(
    sided: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    numbers = NUMBERS.model_copy(update={"max_length": 4})
    with pytest.raises(ValueError, match="query"):
        train(sided, [part(table(tiny_texts), sides=SIDES)], tmp_path / "a", numbers)
