"""Rows with several negatives: sentence-transformers' loss of as many columns, and its formula."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor, nn
from training_run import NUMBERS, part

from tercet.models import seeding
from tercet.models.encoders.encoder import load_encoder
from tercet.models.losses.registry import loss_named
from tercet.models.training import train_encoder as module
from tercet.models.training.train_encoder import CachedEncoder, LengthGroups

TAU, ROWS = 0.05, 8


@pytest.fixture
def encoder(tiny_backbone: Path) -> SentenceTransformer:
    """Without dropout, so that the order of the texts plays no part."""
    torch.set_num_threads(1)
    return load_encoder(tiny_backbone, "mean").eval()


def table(texts: list[str], k: int) -> pa.Table:
    """Rows with k negatives, all texts distinct and of very different lengths."""
    names = ["negative", *(f"negative_{number}" for number in range(2, k + 1))]
    columns: dict[str, Any] = {"anchor": texts[:ROWS]}
    for place, name in enumerate(["positive", *names], start=1):
        of_row = texts[place * ROWS : (place + 1) * ROWS]
        columns[name] = [" ".join([text] * place) for text in of_row]
    ids = pa.array(seeding.text_ids(texts[:ROWS]), pa.uint64())
    return pa.table({"row_id": ids, **columns})


def gradients(model: SentenceTransformer, value: Tensor) -> Tensor:
    """The gradient of all weights, as one vector."""
    value.backward()
    found = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
    model.zero_grad()
    return torch.cat(found)


def of_training(
    model: SentenceTransformer, seen: nn.Module, rows: pa.Table
) -> tuple[float, Tensor]:
    """The loss of all rows as training feeds them, and its gradient."""
    loss = loss_named("info_nce")
    numbers = NUMBERS.model_copy(update={"word_repetition": None, "max_length": 64})
    feed = module._Feed(model, numbers, [part(rows, "info_nce")], [loss], seed=11)
    features, labels = feed[0].inputs[0]
    value: Tensor = loss.build(seen, loss.params(tau=TAU), {})(features, labels)  # type: ignore[arg-type]
    return float(value.detach()), gradients(model, value)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("cached", [False, True])
def test_it_is_the_loss_of_the_library_with_k_columns(
    encoder: SentenceTransformer, tiny_texts: list[str], k: int, cached: bool
) -> None:
    rows = table(tiny_texts, k)
    seen = CachedEncoder(encoder, 5) if cached else LengthGroups(encoder)
    ours, slope = of_training(encoder, seen, rows)
    columns = [rows[name].to_pylist() for name in rows.column_names[1:]]
    assert len(columns) == 2 + k
    features = [encoder.preprocess(column, max_length=64) for column in columns]
    value = MultipleNegativesRankingLoss(encoder, scale=1 / TAU)(features, None)
    assert ours == pytest.approx(float(value.detach()), abs=1e-6)
    wanted = gradients(encoder, value)
    assert float((slope - wanted).norm()) <= 1e-5 * float(wanted.norm())


def test_a_text_that_a_row_lacks_is_nobodys_negative(
    encoder: SentenceTransformer, tiny_texts: list[str]
) -> None:
    rows = table(tiny_texts, 3)
    # Each of the columns lacks others.
    for name, step in (("negative", 5), ("negative_2", 3), ("negative_3", 2)):
        texts = [
            None if row % step == 1 else text for row, text in enumerate(rows[name].to_pylist())
        ]
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(texts, pa.string()))
    ours, _ = of_training(encoder, LengthGroups(encoder), rows)
    anchors, positives, *others = (rows[name].to_pylist() for name in rows.column_names[1:])
    negatives = [text for column in others for text in column if text is not None]
    assert len(negatives) == 3 * ROWS - 2 - 3 - 4
    vectors = encoder.encode([*anchors, *positives, *negatives], convert_to_tensor=True).double()
    vectors = nn.functional.normalize(vectors, dim=-1)
    losses = []
    for row in range(ROWS):
        logits = [float(vectors[row] @ other) / TAU for other in vectors[ROWS:]]
        losses.append(torch.tensor(logits, dtype=torch.float64).logsumexp(0) - logits[row])
    assert ours == pytest.approx(float(torch.stack(losses).mean()), abs=1e-5)


def test_no_batch_has_a_text_of_another_row_for_a_negative(
    encoder: SentenceTransformer, tiny_texts: list[str]
) -> None:
    """The third negative of every second row is the positive of the row before it."""
    rows = table(tiny_texts, 3)
    positives, third = rows["positive"].to_pylist(), rows["negative_3"].to_pylist()
    third[1::2] = positives[::2]
    rows = rows.set_column(5, "negative_3", pa.array(third))
    numbers = NUMBERS.model_copy(update={"batch_size": ROWS // 2, "word_repetition": None})
    loss = loss_named("info_nce")
    feed = module._Feed(encoder, numbers, [part(rows, "info_nce")], [loss], seed=11)
    assert len(feed) == 2
    for step in range(2 * len(feed)):
        features, _ = feed[step].inputs[0]
        texts = [
            tuple(ids[mask.bool()].tolist())
            for one in features[1:]
            for ids, mask in zip(one["input_ids"], one["attention_mask"], strict=True)
        ]
        assert len(set(texts)) == len(texts) == ROWS // 2 * 4
