"""Stage `pretrain`: what it reads, what it leaves, and what it refuses in one sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails
from spoilt_models import spoilt
from tiny_t5 import tiny_t5

from tercet.models import seeding
from tercet.models.encoders.template_encoder import longest_input
from tercet.storage.rows import rows_of
from tercet.tasks.stage import BadInput, Resources, Work
from tercet.tasks.training import pretrain
from tercet.tasks.training.pretrain import PretrainConfig

SMALL = {"layers": 1, "width": 32, "vocabulary": 90, "max_length": 32}
QUICK = {"batch_tokens": 256, "steps": 6, "measure_steps": 3, "log_steps": 2, "precision": "fp32"}

Order = Callable[..., Work]


@pytest.fixture
def order(tmp_path: Path, tiny_texts: list[str]) -> Order:
    """An order of the stage, over sixty texts of `wiki` and sixty of `docs`, ten of each in dev."""

    def rows(name: str, texts: list[str]) -> pa.Table:
        split = ["dev"] * 10 + ["train"] * (len(texts) - 10)
        ids = pa.array(seeding.text_ids(texts), pa.uint64())
        columns = {"sentence_id": ids, "text": texts, "corpus": [name] * len(texts)}
        return pa.table({**columns, "split": split})

    tables = {
        "pretrain_sentences": ("wiki", tiny_texts[:60]),
        "sentences": ("docs", tiny_texts[60:120]),
    }
    for table, given in tables.items():
        pq.write_table(rows(*given), tmp_path / f"{table}.parquet")
    inputs = {table: rows_of({table: [tmp_path / f"{table}.parquet"]}) for table in tables}

    def _order(
        corpora: tuple[str, ...] = ("wiki", "docs"), init: Path | None = None, **settings: Any
    ) -> Work:
        shape = {} if init is not None else SMALL
        given = {"form": "masked", **shape, **QUICK, **settings}
        if init is not None:
            given["init"] = str(init)
        config = PretrainConfig(name="small", corpora=corpora, **given)
        emitted: dict[str, list[pa.Table]] = {}
        emit = lambda table, rows: emitted.setdefault(table, []).append(rows)  # noqa: E731
        models = {} if init is None else {"init": init}
        work = Work(config, 7, inputs, models, {}, Resources(), tmp_path / "scratch", emit)
        (tmp_path / "scratch").mkdir(exist_ok=True)
        object.__setattr__(work, "emitted", emitted)
        return work

    return _order


def log_of(work: Any) -> list[dict[str, Any]]:
    return [row for table in work.emitted["training_log"] for row in table.to_pylist()]


def test_a_masked_model_is_an_encoder(order: Order, tmp_path: Path) -> None:
    from tercet.models.encoders.encoder import encode, load_encoder

    work = order()
    folder = pretrain.run(work)
    encoder = load_encoder(folder)
    assert encode(encoder, ["the blue text", "a new value"]).shape == (2, 32)
    # It was trained without, but SimCSE lives on it.
    assert encoder[0].config.hidden_dropout_prob == 0.1
    assert {path.suffix for path in folder.iterdir()} == {".json", ".safetensors"}
    log = log_of(work)
    assert {row["phase"] for row in log} == {"small"}
    assert [row["step"] for row in log] == [2, 3, 4, 6]
    assert [row["dev_metric"] for row in log] == [None, "loss", None, "loss"]


@pytest.mark.parametrize(("form", "vocabulary"), [("causal", 270), ("t5", 144)])
def test_the_other_forms_load_as_what_they_are(order: Order, form: str, vocabulary: int) -> None:
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

    folder = pretrain.run(order(form=form, vocabulary=vocabulary))
    loader = AutoModelForCausalLM if form == "causal" else AutoModelForSeq2SeqLM
    model = loader.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked = tokenizer(["the blue", "one two three"], return_tensors="pt", padding=True)
    asked.pop("token_type_ids", None)
    said = model.generate(**asked, max_new_tokens=4, do_sample=False)
    assert said.shape[0] == 2
    assert model.config.vocab_size == vocabulary == len(tokenizer)


def test_only_the_corpora_that_are_named_are_read(order: Order) -> None:
    texts = [t for batch in pretrain._texts(order(("docs",)), "train", None) for t in batch]
    assert len(texts) == 50
    both = [t for batch in pretrain._texts(order(), "train", None) for t in batch]
    assert len(both) == 100
    sample = [t for batch in pretrain._texts(order(), "train", 30) for t in batch]
    assert 10 < len(sample) < 60
    assert set(sample) < set(both)


def test_training_goes_on_from_an_encoder_without_a_head(
    order: Order, tiny_backbone: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    work = order(init=tiny_backbone, learning_rate=1e-4)
    folder = pretrain.run(work)
    key = "embeddings.word_embeddings.weight"
    before = load_file(tiny_backbone / "model.safetensors")[key]
    after = load_file(folder / "model.safetensors")[f"bert.{key}"]
    moved = (after - before).abs().max()
    assert 0 < moved < 6 * 2e-4
    # And from what was made so, by the head that it has now.
    again = order(init=folder)
    object.__setattr__(again, "scratch", tmp_path / "again")
    (tmp_path / "again").mkdir()
    pretrain.run(again)
    assert log_of(again)[0]["loss"] > 0


def test_the_tokenizer_and_the_texts_are_kept_for_a_resumption(order: Order) -> None:
    work = order()
    pretrain.run(work)
    kept = {p: p.stat().st_mtime_ns for p in work.scratch.rglob("*") if p.suffix in (".bin",)}
    assert len(kept) == 4
    first = log_of(work)
    again = pretrain.run(work)
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    assert log_of(work) == [*first, *first]
    assert again.is_dir()


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"vocabulary": 5000}, "vocabulary"),
        ({"form": "causal", "vocabulary": 100}, "characters"),
        ({"corpora": ("none",)}, "none"),
    ],
)
def test_what_cannot_be_trained_is_told(order: Order, settings, word) -> None:
    with pytest.raises(BadInput, match=word):
        pretrain.run(order(**settings))


def test_a_model_that_cannot_be_gone_on_from_is_told(
    order: Order, tiny_backbone: Path, tmp_path: Path
) -> None:
    t5 = tiny_t5(tmp_path / "t5", ["a", "b"])
    told = {
        "masked": order(init=t5),
        "causal": order(init=tiny_backbone, form="causal"),
        "sentinels": order(init=t5, form="t5"),
        "Python": order(init=spoilt(tiny_backbone, "custom", tmp_path)),
        "tokenizer": order(init=spoilt(tiny_backbone, "voiceless", tmp_path)),
        "loaded": order(init=spoilt(tiny_backbone, "damaged", tmp_path)),
    }
    for word, work in told.items():
        with fails("unfit_model", "pretrain.small", word):
            pretrain.run(work)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("width", "heads"), [(32, 1), (64, 1), (100, 1), (200, 2), (256, 4)])
def test_heads_divide_the_width(width: int, heads: int) -> None:
    settings = PretrainConfig(form="masked", width=width)
    assert settings.head_count() == heads


@pytest.mark.parametrize("kind", ["Roberta", "MPNet", "Bert"])
def test_no_text_is_longer_than_the_models_positions(kind: str) -> None:
    import torch
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=34,
        pad_token_id=1,
    )
    model = getattr(transformers, f"{kind}ForMaskedLM")(config)
    longest = longest_input(model)
    assert longest == (34 if kind == "Bert" else 32)
    model(input_ids=torch.full((1, longest), 5))
    with pytest.raises((IndexError, RuntimeError)):
        model(input_ids=torch.full((1, longest + 1), 5))


def test_an_init_that_is_no_json_is_told(order: Order, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with fails("unfit_model", "pretrain.small"):
        pretrain.run(order(init=tmp_path))
