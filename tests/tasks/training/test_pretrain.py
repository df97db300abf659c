"""Stage `pretrain`: what it reads, what it leaves, and what it refuses in one sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failures import fails
from spoilt_models import spoilt
from stages import ran, stored
from tiny_t5 import tiny_t5

from tercet.models import seeding
from tercet.models.encoders.template_encoder import longest_input
from tercet.tasks.training import pretrain
from tercet.tasks.training.pretrain import PretrainConfig

SMALL = {"layers": 1, "width": 32, "vocabulary": 90, "max_length": 32}
QUICK = {"batch_tokens": 256, "steps": 6, "measure_steps": 3, "log_steps": 2, "precision": "fp32"}

Order = Callable[..., Any]


@pytest.fixture
def order(tmp_path: Path, tiny_texts: list[str]) -> Order:
    """Runs the stage over sixty texts of `wiki` and sixty of `docs`, ten of each in dev.

    It returns the model's directory and the log's rows.
    """

    def rows(name: str, texts: list[str]) -> pa.Table:
        ids = pa.array(seeding.text_ids(texts), pa.uint64())
        columns = {"sentence_id": ids, "text": texts, "corpus": [name] * len(texts)}
        return pa.table({**columns, "split": ["dev"] * 10 + ["train"] * (len(texts) - 10)})

    wiki, docs = rows("wiki", tiny_texts[:60]), rows("docs", tiny_texts[60:120])
    inputs = stored(tmp_path, pretrain_sentences=wiki, sentences=docs)

    def _order(init: Path | None = None, folder: str = "scratch", **settings: Any) -> Any:
        given = {"corpora": ("wiki", "docs"), "form": "masked", **QUICK}
        given |= SMALL if init is None else {"init": str(init)}
        config = PretrainConfig(**{"name": "small", **given, **settings})
        models = {} if init is None else {"init": init}
        path, tables = ran(pretrain.STAGE, config, inputs, tmp_path / folder, models, seed=7)
        return path, tables["training_log"].to_pylist()

    return _order


def test_a_masked_model_is_an_encoder(order: Order) -> None:
    from tercet.models.encoders.encoder import encode, load_encoder

    folder, log = order()
    encoder = load_encoder(folder)
    assert encode(encoder, ["the blue text", "a new value"]).shape == (2, 32)
    # It was trained without, but SimCSE lives on it.
    assert encoder[0].config.hidden_dropout_prob == 0.1
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}
    assert {row["phase"] for row in log} == {"small"}
    assert [row["step"] for row in log] == [2, 3, 4, 6]
    assert [row["dev_metric"] for row in log] == [None, "loss", None, "loss"]


@pytest.mark.parametrize(("form", "vocabulary"), [("causal", 270), ("t5", 144)])
def test_the_other_forms_load_as_what_they_are(order: Order, form: str, vocabulary: int) -> None:
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    folder, _ = order(form=form, vocabulary=vocabulary)
    loader = AutoModelForCausalLM if form == "causal" else AutoModelForSeq2SeqLM
    model = loader.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked = tokenizer(["the blue", "one two three"], return_tensors="pt", padding=True)
    asked.pop("token_type_ids", None)
    assert model.generate(**asked, max_new_tokens=4, do_sample=False).shape[0] == 2
    assert model.config.vocab_size == vocabulary == len(tokenizer)


def test_only_the_corpora_that_are_named_are_read(order: Order) -> None:
    from tokenizers import Tokenizer

    alone, both = (
        Tokenizer.from_file(str(order(folder=name, corpora=corpora)[0] / "tokenizer.json"))
        for name, corpora in (("alone", ("docs",)), ("both", ("wiki", "docs")))
    )
    assert alone.get_vocab() != both.get_vocab()


def test_training_goes_on_from_an_encoder_without_a_head(
    order: Order, tiny_backbone: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    folder, _ = order(init=tiny_backbone, learning_rate=1e-4)
    key = "embeddings.word_embeddings.weight"
    before = load_file(tiny_backbone / "model.safetensors")[key]
    after = load_file(folder / "model.safetensors")[f"bert.{key}"]
    moved = (after - before).abs().max()
    assert 0 < moved < 6 * 2e-4
    # And from what was made so, by the head that it has now.
    _, log = order(init=folder, folder="again")
    assert log[0]["loss"] > 0


def test_the_tokenizer_and_the_texts_are_kept_for_a_resumption(
    order: Order, tmp_path: Path
) -> None:
    _, first = order()
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "scratch").rglob("*.bin")}
    assert len(kept) == 4
    path, again = order()
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert again == first
    assert path.is_dir()


@pytest.mark.parametrize(
    ("settings", "kind", "name"),
    [
        ({"vocabulary": 5000}, "unfit_model", "vocabulary"),
        ({"form": "causal", "vocabulary": 100}, "unfit_model", "vocabulary"),
        ({"corpora": ("none",)}, "no_rows", "none"),
    ],
)
def test_what_cannot_be_trained_is_told(order: Order, settings: Any, kind: Any, name: str) -> None:
    with fails(kind, "pretrain.small", name):
        order(**settings)


def test_a_model_that_cannot_be_gone_on_from_is_told(
    order: Order, tiny_backbone: Path, tmp_path: Path
) -> None:
    t5 = tiny_t5(tmp_path / "t5", ["a", "b"])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{", encoding="utf-8")
    for word, init, form in (
        ("masked", t5, "masked"),
        ("causal", tiny_backbone, "causal"),
        ("sentinels", t5, "t5"),
        ("Python", spoilt(tiny_backbone, "custom", tmp_path), "masked"),
        ("tokenizer", spoilt(tiny_backbone, "voiceless", tmp_path), "masked"),
        ("header", spoilt(tiny_backbone, "damaged", tmp_path), "masked"),
        ("", tmp_path / "broken", "masked"),
    ):
        with fails("unfit_model", "pretrain.small", word):
            order(init=init, form=form)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("width", "heads"), [(32, 1), (64, 1), (100, 1), (200, 2), (256, 4)])
def test_heads_divide_the_width(width: int, heads: int) -> None:
    settings = PretrainConfig(form="masked", width=width)
    assert settings.head_count() == heads


@pytest.mark.parametrize("kind", ["Roberta", "MPNet", "Bert"])
def test_no_text_is_longer_than_the_models_positions(kind: str) -> None:
    import torch
    import transformers

    small = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}
    more = {"num_attention_heads": 1, "max_position_embeddings": 34, "pad_token_id": 1}
    config = getattr(transformers, f"{kind}Config")(**small, **more)
    model = getattr(transformers, f"{kind}ForMaskedLM")(config)
    longest = longest_input(model)
    assert longest == (34 if kind == "Bert" else 32)
    model(input_ids=torch.full((1, longest), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 5))
