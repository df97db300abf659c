"""An encoder is whole, or refused: nothing in it is drawn at random without a word."""

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from sentence_transformers.base.modules import Dense
from transformers import AutoModel
from transformers.utils import logging as transformers_logging

from tercet.models.encoders import missing_weights
from tercet.models.encoders.encoder import dimension, encode, load_encoder
from tercet.models.losses.definition import layer_of

Tensors = dict[str, np.ndarray]
QUERY = "encoder.layer.1.attention.self.query.weight"


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
        (lambda weights: without(weights, QUERY), rf": its weights lack {QUERY}$"),
        (renamed, r": its weights lack \S.* and \d+ more$"),
        (narrowed, rf": its weights have another shape than its config\.json says: {QUERY}$"),
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
            with pytest.raises(
                ValueError, match=r"^No sentence encoder can be loaded from"
            ) as found:
                load_encoder(folder)
            assert transformers_logging.get_verbosity() == level
        finally:
            transformers_logging.set_verbosity(logging.WARNING)
        assert found.match(said)
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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda weights: weights.pop("linear.weight"), 'Missing key.* "linear.weight"'),
        (
            lambda weights: weights.update({"linear.weight": weights["linear.weight"][:1]}),
            "size mismatch for linear.weight",
        ),
    ],
    ids=["missing", "too small"],
)
def test_a_layer_behind_the_transformer_is_whole_too(
    tiny_backbone: Path, tmp_path: Path, change, said: str
) -> None:
    model = load_encoder(tiny_backbone, "mean")
    model.append(Dense(in_features=dimension(model), out_features=4))
    model.save_pretrained(str(tmp_path))
    (file,) = tmp_path.glob("*_Dense/model.safetensors")
    weights = load_file(file)
    change(weights)
    save_file(weights, file, metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"^No sentence encoder can be loaded from") as found:
        load_encoder(tmp_path)
    assert found.match(said)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("config.json", '{"model_type": "bert", "hidden_size": "32"}'),
        ("1_Pooling/config.json", "{}"),
        ("modules.json", '["a"]'),
        (
            "modules.json",
            '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Nothing"}]',
        ),
    ],
)
def test_a_directory_that_is_badly_written_is_one_sentence(
    tiny_backbone: Path, tmp_path: Path, file: str, text: str
) -> None:
    load_encoder(tiny_backbone, "mean").save_pretrained(str(tmp_path))
    (tmp_path / file).write_text(text)
    with pytest.raises(ValueError, match=r"^No sentence encoder can be loaded from") as found:
        load_encoder(tmp_path)
    assert "\n" not in str(found.value)


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^out of memory$"), missing_weights.refused():
        raise RuntimeError("out of memory")


def test_what_is_loaded_elsewhere_is_told_by_transformers_as_ever(
    changed, printed: list[str]
) -> None:
    folder = changed(lambda weights: without(weights, QUERY))
    inside, leave = threading.Event(), threading.Event()

    def load_inside() -> None:
        with missing_weights.refused():
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
