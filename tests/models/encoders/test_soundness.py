"""Faults of an encoder that would pass in silence, or end a run midway, are told at once."""

import json
import logging
import math
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import Router, StaticEmbedding
from transformers import (
    AutoModel,
    AutoTokenizer,
    CanineConfig,
    CanineModel,
    CanineTokenizer,
    DebertaV2Config,
    DebertaV2Model,
    MPNetConfig,
    MPNetModel,
)
from transformers.utils import logging as transformers_logging

from tercet.models.encoders import soundness
from tercet.models.encoders.encoder import dimension, encode, load_encoder, longest
from tercet.models.encoders.own_modules import save_encoder
from tercet.models.losses.word_layer import layer_of

QUERY = "encoder.layer.1.attention.self.query.weight"
LONG = "red cup on a table " * 100


def refused(folder: Path, said: str, **given: object) -> None:
    with pytest.raises(ValueError, match=said) as found:
        load_encoder(folder, **given)  # type: ignore[arg-type]
    assert str(found.value).startswith("No sentence encoder can be loaded")
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("pooling", ["cls", "mask"])
def test_a_directory_without_its_modules_is_no_plain_checkpoint(
    tiny_backbone: Path, tmp_path: Path, pooling
) -> None:
    folder = save_encoder(load_encoder(tiny_backbone, pooling), tmp_path / "saved")
    for lacking in ("modules.json", "config_sentence_transformers.json", "template_encoder.json"):
        (folder / lacking).unlink(missing_ok=True)
        refused(folder, r"modules\.json", pooling="mean")
    shutil.rmtree(folder / ("1_Pooling" if pooling == "cls" else "1_MarkedState"))
    assert load_encoder(folder).max_seq_length == load_encoder(tiny_backbone).max_seq_length


def test_a_folder_of_something_else_is_no_module(tiny_backbone: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_backbone, tmp_path / "plain"))
    (folder / "2026_run").mkdir()
    (folder / "2026_run" / "config.json").write_text("{}")
    assert dimension(load_encoder(folder)) == dimension(load_encoder(tiny_backbone))


def test_the_layers_of_a_router_are_looked_at_too(tiny_backbone: Path, tmp_path: Path) -> None:
    def route() -> list[torch.nn.Module]:
        model = load_encoder(tiny_backbone, "mean")
        return [*model, Dense(dimension(model), 4, activation_function=torch.nn.ReLU())]

    model = SentenceTransformer(modules=[Router.for_query_document(route(), route())])
    model.save_pretrained(str(tmp_path))
    positions = json.loads((tiny_backbone / "config.json").read_text())["max_position_embeddings"]
    assert longest(load_encoder(tmp_path)) == positions
    file = sorted(tmp_path.rglob("*Dense*/config.json"))[-1]
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "activation_function": "their_package.Swish"}))
    refused(tmp_path, "their_package.Swish")


def activated(tiny_backbone: Path, folder: Path, pooling, name: str) -> Path:
    """An encoder with a Dense layer whose activation is called so."""
    model = load_encoder(tiny_backbone, pooling)
    model.append(Dense(dimension(model), 4, activation_function=torch.nn.ReLU()))
    save_encoder(model, folder)
    (file,) = folder.glob("*_Dense/config.json")
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "activation_function": name}))
    return folder


# With a module of ours the directory is loaded another way.
@pytest.mark.parametrize("pooling", ["mean", "mask"])
def test_an_activation_is_not_replaced_by_tanh(
    tiny_backbone: Path, tmp_path: Path, pooling
) -> None:
    sound = activated(tiny_backbone, tmp_path / "a", pooling, "torch.nn.modules.activation.ReLU")
    assert (encode(load_encoder(sound), ["red cup", "table"], normalise=False) >= 0).all()
    foreign = activated(tiny_backbone, tmp_path / "b", pooling, "their_package.Swish")
    refused(foreign, r"their_package\.Swish")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_not_finite_are_found(
    tiny_backbone: Path, tmp_path: Path, value: float
) -> None:
    folder = Path(shutil.copytree(tiny_backbone, tmp_path / "damaged"))
    weights = load_file(folder / "model.safetensors")
    weights[QUERY] = weights[QUERY].copy()
    weights[QUERY][3, 3] = value
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refused(folder, QUERY)


def test_a_tokenizer_that_knows_more_than_the_weights_is_found(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_backbone, tmp_path / "larger"))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    known = len(tokenizer)
    # As Gemma's for an image, which no text contains.
    tokenizer.add_tokens(["<picture>"], special_tokens=True)
    tokenizer.save_pretrained(folder)
    load_encoder(folder)
    tokenizer.add_tokens(["zebra", "quagga"])
    tokenizer.save_pretrained(folder)
    refused(folder, rf"'zebra' is number {known + 1}")


def test_as_many_tokens_as_rows_may_still_have_other_numbers(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_backbone, tmp_path / "gap"))
    file = folder / "tokenizer.json"
    said = json.loads(file.read_text())
    said["model"]["vocab"]["red"] = 500
    file.write_text(json.dumps(said))
    refused(folder, "'red' is number 500")


def test_static_embeddings_know_their_tokens_too(tiny_backbone: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone).backend_tokenizer
    for rows, folder in ((tokenizer.get_vocab_size(), "whole"), (7, "short")):
        table = StaticEmbedding(tokenizer, embedding_weights=np.ones((rows, 4), np.float32))
        SentenceTransformer(modules=[table]).save_pretrained(str(tmp_path / folder))
    assert load_encoder(tmp_path / "whole").max_seq_length == math.inf
    refused(tmp_path / "short", "7 rows$")


def test_an_encoder_without_a_table_of_tokens_is_not_asked_for_one(tmp_path: Path) -> None:
    CanineModel(
        CanineConfig(hidden_size=48, num_hidden_layers=1, num_attention_heads=2)
    ).save_pretrained(tmp_path)
    CanineTokenizer().save_pretrained(tmp_path)
    assert np.isfinite(encode(load_encoder(tmp_path), ["red cup", LONG])).all()


def bert_like(backbone: Path, folder: Path) -> int:
    shutil.copytree(backbone, folder)
    return int(json.loads((folder / "config.json").read_text())["max_position_embeddings"])


def mpnet(backbone: Path, folder: Path) -> int:
    """One whose positions start behind the padding, without RoBERTa in its name."""
    tokenizer = AutoTokenizer.from_pretrained(backbone)
    config = MPNetConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=20,
        pad_token_id=1,
    )
    MPNetModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return 18


def test_relative_positions_have_no_end(tiny_backbone: Path, tmp_path: Path) -> None:
    """What the directory says stays, and may be raised."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone)
    config = DebertaV2Config(
        vocab_size=len(tokenizer),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=20,
        position_biased_input=False,
        relative_attention=True,
    )
    DebertaV2Model(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    longer = load_encoder(tmp_path, max_length=90)
    assert longer.max_seq_length == 90
    assert np.isfinite(encode(longer, [LONG])).all()
    longer.save_pretrained(str(tmp_path / "saved"))
    file = tmp_path / "saved" / "sentence_bert_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "max_seq_length": 90}))
    assert load_encoder(tmp_path / "saved").max_seq_length == 90


@pytest.mark.parametrize("make", [bert_like, mpnet])
@pytest.mark.parametrize("asked", [None, 10_000])
def test_no_input_is_longer_than_the_positions(
    tiny_backbone: Path, tmp_path: Path, make: Callable[[Path, Path], int], asked: int | None
) -> None:
    most = make(tiny_backbone, tmp_path / "model")
    load_encoder(tmp_path / "model", "mean").save_pretrained(str(tmp_path / "saved"))
    file = tmp_path / "saved" / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "model_max_length": 5_000}))
    model = load_encoder(tmp_path / "saved", max_length=asked)
    assert longest(model) == most
    assert model.max_seq_length == most
    assert np.isfinite(encode(model, [LONG])).all()
    assert load_encoder(tmp_path / "saved", max_length=7).max_seq_length == 7


Tensors = dict[str, np.ndarray]


@pytest.fixture(params=["checkpoint", "SentenceTransformer"])
def changed(
    request: pytest.FixtureRequest, tiny_backbone: Path, tmp_path: Path
) -> Callable[[Callable[[Tensors], None]], Path]:
    """A copy of the tiny encoder with other weights, plain or with its modules."""

    def _changed(change: Callable[[Tensors], None]) -> Path:
        folder = tmp_path / "changed"
        if request.param == "checkpoint":
            shutil.copytree(tiny_backbone, folder)
        else:
            load_encoder(tiny_backbone, "mean").save_pretrained(str(folder))
        weights = load_file(folder / "model.safetensors")
        change(weights)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return _changed


@pytest.fixture
def printed() -> Iterator[list[str]]:
    """What transformers tells the user."""
    said: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger("transformers")
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    yield said
    logger.removeHandler(handler)


def without(weights: Tensors, *names: str) -> None:
    for name in names:
        del weights[name]


def renamed(weights: Tensors) -> None:
    for name in list(weights):
        weights[f"other.{name}"] = weights.pop(name)


def narrowed(weights: Tensors) -> None:
    weights[QUERY] = weights[QUERY][:5]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda weights: without(weights, QUERY), rf"{QUERY}$"),
        (renamed, r"\d+ more$"),
        (narrowed, rf"shape.*{QUERY}$"),
    ],
    ids=["one is missing", "all have other names", "one is too small"],
)
def test_an_encoder_without_its_weights_is_one_sentence(
    changed, change, said: str, printed: list[str]
) -> None:
    folder = changed(change)
    # Whatever the user hears of transformers.
    for level in (logging.WARNING, logging.ERROR):
        transformers_logging.set_verbosity(level)
        try:
            refused(folder, said)
            assert transformers_logging.get_verbosity() == level
        finally:
            transformers_logging.set_verbosity(logging.WARNING)
    assert not printed


def test_a_pooler_may_be_missing_and_a_head_left_over_in_silence(
    changed, printed: list[str]
) -> None:
    kept = {}

    def headed(weights: Tensors) -> None:
        kept["query"] = weights[QUERY].copy()
        without(weights, *[name for name in weights if name.startswith("pooler")])
        weights["cls.predictions.bias"] = np.zeros(3, np.float32)

    folder = changed(headed)
    model = load_encoder(folder)
    found = dict(model[0].model.named_parameters())
    assert torch.equal(found[QUERY].detach(), torch.from_numpy(kept["query"]))
    load_encoder(folder, "cls")
    assert not printed
    # A random one would be saved, and taken for the backbone's own by whoever copies it.
    assert not [name for name in found if "pooler" in name]
    assert np.isfinite(encode(model, ["a red cup"])).all()
    model.save_pretrained(str(folder.parent / "saved"))
    assert layer_of(folder.parent / "saved") is None


def test_a_pooler_of_another_shape_is_none(changed, printed: list[str]) -> None:
    def misshapen(weights: Tensors) -> None:
        weights["pooler.dense.weight"] = weights["pooler.dense.weight"][:3]

    model = load_encoder(changed(misshapen))
    assert not [name for name, _ in model.named_parameters() if "pooler" in name]
    assert not printed


@pytest.mark.parametrize("rows", [0, 1], ids=["missing", "too small"])
def test_a_layer_behind_the_transformer_is_whole_too(
    tiny_backbone: Path, tmp_path: Path, rows: int
) -> None:
    model = load_encoder(tiny_backbone, "mean")
    model.append(Dense(in_features=dimension(model), out_features=4))
    model.save_pretrained(str(tmp_path))
    (file,) = tmp_path.glob("*_Dense/model.safetensors")
    weights = load_file(file)
    weight = weights.pop("linear.weight")
    save_file(weights | ({"linear.weight": weight[:rows]} if rows else {}), file, {"format": "pt"})
    refused(tmp_path, "linear.weight")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config.json", '{"model_type": "bert", "hidden_size": "32"}'),
        ("1_Pooling/config.json", "{}"),
        ("modules.json", '["a"]'),
        (
            "modules.json",
            '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.x"}]',
        ),
    ],
)
def test_a_directory_that_is_badly_written_is_one_sentence(
    tiny_backbone: Path, tmp_path: Path, file: str, text: str
) -> None:
    load_encoder(tiny_backbone, "mean").save_pretrained(str(tmp_path))
    (tmp_path / file).write_text(text)
    refused(tmp_path, str(tmp_path))


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(MemoryError), soundness.refused():
        raise MemoryError


def test_what_is_loaded_elsewhere_is_told_by_transformers_as_ever(
    changed, printed: list[str]
) -> None:
    folder = changed(lambda weights: without(weights, QUERY))
    inside, leave = threading.Event(), threading.Event()

    def load_inside() -> None:
        with soundness.refused():
            inside.set()
            leave.wait()

    other = threading.Thread(target=load_inside)
    other.start()
    inside.wait()
    try:
        AutoModel.from_pretrained(folder)
    finally:
        leave.set()
        other.join()
    assert len(printed) == 1
    assert "LOAD REPORT" in printed[0]
