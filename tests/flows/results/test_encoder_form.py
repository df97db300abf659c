"""What is exported is what was measured."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run
from failures import fails
from own_code import own_code
from tiny_models import WORDS

from tercet.flows.commands.export import export
from tercet.flows.results.encoder_form import (
    measured_form,
    needs_trust,
    older_files,
    reformed,
    versions,
)
from tercet.models.encoders.encoder import encode, load_encoder, save_encoder
from tercet.models.encoders.settings import FormSettings, PoolingMode, Prompts
from tercet.storage.artifacts import open_artifact
from tercet.storage.runs import resolve_run
from tercet.storage.store import Store, open_store

TEXTS = ["the old file is open", "read a row of the array"]


def _measured(
    tmp_path: Path, backbone: Path, prompts: Prompts | None = None, **evaluations: dict[str, Any]
) -> Store:
    """A run that trained with cls, and measured the encoder once for each of these configs."""
    folder = save_encoder(load_encoder(backbone, "cls", prompts=prompts), tmp_path / "encoder")
    (folder / "losses").mkdir()
    (folder / "losses" / "head.safetensors").write_bytes(b"weights")
    store = open_store(str(tmp_path / "store"))
    make_artifact(store, "train", "bbbb", {}, model=folder)
    steps: dict[str, Any] = {"train": ("bbbb", "made", {})}
    for number, (name, config) in enumerate(evaluations.items()):
        components = {"stage": "evaluate", "config": config, "models": {"model": "bbbb"}}
        step, version = f"evaluate.{name}", f"eeee{number}"
        make_artifact(store, step, version, {}, {"components": components})
        steps[step] = (version, "made", {})
    # What the run measured of another model does not count.
    other = {"stage": "evaluate", "config": {"pooling": "max"}, "models": {"model": "aaaa"}}
    make_artifact(store, "evaluate.base", "ffff", {}, {"components": other})
    make_run(store, "birds", {**steps, "evaluate.base": ("ffff", "made", {})})
    return store


def test_an_encoder_with_prompts_says_how_its_sides_are_encoded(
    tmp_path: Path, tiny_backbone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = Prompts(query="find: ")
    store = _measured(tmp_path, tiny_backbone, prompts, encoder={"pooling": "mean"})
    export("train", str(tmp_path / "out"), store.location, None)
    card, out = (tmp_path / "out" / "README.md").read_text(), capsys.readouterr().out
    for text in (card, out):
        assert "model.encode_query(" in text
        assert "model.encode_document(" in text
        assert "model.encode(" not in text
    assert load_encoder(tmp_path / "out").prompts == {"query": "find: ", "document": ""}


def _form(store: Store) -> FormSettings:
    return measured_form(store, resolve_run(store, None), open_artifact(store, "train", "bbbb"))


@pytest.mark.parametrize(
    "config",
    [
        {"pooling": "mean"},
        {"pooling": ["cls", "max"], "prompt": None},
        {"pooling": "mask", "prompt": "{mask}: {sentence}"},
    ],
)
def test_an_export_has_the_pooling_that_was_measured_and_the_card_says_so(
    tmp_path: Path,
    tiny_backbone: Path,
    capsys: pytest.CaptureFixture[str],
    config: dict[str, Any],
) -> None:
    store = _measured(tmp_path, tiny_backbone, encoder=config)
    export("train", str(tmp_path / "out"), store.location, None)
    form = _form(store)
    expected = load_encoder(tiny_backbone, form.pooling, prompt=form.prompt)
    found = encode(load_encoder(tmp_path / "out"), TEXTS)
    np.testing.assert_array_equal(found, encode(expected, TEXTS))
    assert not np.array_equal(found, encode(load_encoder(tiny_backbone, "cls"), TEXTS))
    card = (tmp_path / "out" / "README.md").read_text()
    assert "cls" in card
    out = capsys.readouterr().out
    assert (tmp_path / "out" / "losses" / "head.safetensors").read_bytes() == b"weights"
    masked = form.pooling == "mask"
    assert (tmp_path / "out" / "tercet_template_encoder.py").is_file() == masked
    assert ("trust_remote_code=True" in card) == ("trust_remote_code=True" in out) == masked


@pytest.mark.parametrize("pooling", [None, "cls"])
def test_an_export_of_what_was_measured_as_it_was_trained_is_a_copy(
    tmp_path: Path, tiny_backbone: Path, pooling: str | None
) -> None:
    store = _measured(tmp_path, tiny_backbone, encoder={"pooling": pooling})
    assert reformed(tmp_path / "encoder", _form(store)) is None
    export("train", str(tmp_path / "out"), store.location, None)
    for file in (tmp_path / "encoder").rglob("*"):
        if file.is_file():
            copied = tmp_path / "out" / file.relative_to(tmp_path / "encoder")
            assert copied.read_bytes() == file.read_bytes()


def _own_code_store(tmp_path: Path, encoder: Path, measured: PoolingMode) -> Store:
    """A run whose recipe trusts the backbone's code, and measured the encoder in this form."""
    store = open_store(str(tmp_path / "store"))
    texts = {"sentence_id": pa.array(range(9), pa.uint64()), "text": WORDS[:9]}
    tables = {"sentences": pa.table({**texts, "split": ["dev"] * 9})}
    trust = {"components": {"config": {"trust_remote_code": True}}}
    make_artifact(store, "train", "bbbb", tables, trust, encoder)
    evaluated = {"stage": "evaluate", "config": {"pooling": measured}, "models": {"model": "bbbb"}}
    make_artifact(store, "evaluate.encoder", "eeee", {}, {"components": evaluated})
    steps: dict[str, Any] = {
        "train": ("bbbb", "made", {}),
        "evaluate.encoder": ("eeee", "made", {}),
    }
    make_run(store, "birds", steps)
    return store


@pytest.mark.parametrize(("trained", "measured"), [("cls", "mean"), ("token_cnn", "cls")])
def test_a_backbone_with_code_of_its_own_is_exported_and_its_trust_is_told(
    tmp_path: Path,
    tiny_backbone: Path,
    capsys: pytest.CaptureFixture[str],
    trained: PoolingMode,
    measured: PoolingMode,
) -> None:
    backbone = own_code(tiny_backbone, tmp_path / "backbone")
    model = load_encoder(backbone, trained, trust_remote_code=True, cnn_seed=0)
    store = _own_code_store(tmp_path, save_encoder(model, tmp_path / "encoder"), measured)
    export("train", str(tmp_path / "out"), store.location, None)
    found = encode(load_encoder(tmp_path / "out", trust_remote_code=True), TEXTS)
    expected = load_encoder(backbone, measured, trust_remote_code=True)
    np.testing.assert_array_equal(found, encode(expected, TEXTS))
    for text in (capsys.readouterr().out, (tmp_path / "out" / "README.md").read_text()):
        assert "trust_remote_code=True)" in text


@pytest.mark.slow
@pytest.mark.usefixtures("onnx")
def test_nor_do_its_onnx_files_lack_that_trust(tmp_path: Path, tiny_backbone: Path) -> None:
    backbone = own_code(tiny_backbone, tmp_path / "backbone")
    model = load_encoder(backbone, "cls", trust_remote_code=True)
    store = _own_code_store(tmp_path, save_encoder(model, tmp_path / "encoder"), "cls")
    export("train", str(tmp_path / "out"), store.location, None, onnx=True)
    assert (tmp_path / "out" / "onnx" / "model.onnx").is_file()


def test_an_auto_map_without_its_code_needs_no_trust(tmp_path: Path, tiny_backbone: Path) -> None:
    """transformers has the class, and so the recipe need not trust the model's own."""
    backbone = own_code(tiny_backbone, tmp_path / "backbone")
    config = json.loads((backbone / "config.json").read_text())
    (backbone / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    folder = save_encoder(load_encoder(backbone), tmp_path / "encoder")
    assert "auto_map" in (folder / "config.json").read_text()
    assert not needs_trust(folder)
    load_encoder(folder)


def test_evaluations_that_disagree_are_one_sentence(tmp_path: Path, tiny_backbone: Path) -> None:
    store = _measured(tmp_path, tiny_backbone, one={"pooling": "mean"}, two={"pooling": "max"})
    with fails("bad_value", "pooling"):
        export("train", str(tmp_path / "out"), store.location, None)
    assert not (tmp_path / "out").exists()


POOLING = {"embedding_dimension": 8, "pooling_mode": "cls", "include_prompt": True}
TYPES = {
    "": "sentence_transformers.base.modules.transformer.Transformer",
    "1_Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "2_Normalize": "sentence_transformers.base.modules.normalize.Normalize",
}


def encoder(folder: Path, types: dict[str, str] = TYPES, **files: Any) -> Path:
    modules = [{"path": path, "type": kind} for path, kind in types.items()]
    content = {"modules": modules, "1_Pooling/config": POOLING} | files
    for name, held in content.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(held))
    return folder


def test_modules_and_pooling_are_named_as_before(tmp_path: Path) -> None:
    folder = encoder(tmp_path, sentence_bert_config={"transformer_task": "feature-extraction"})
    files = older_files(folder)
    assert files is not None
    read = {name: json.loads(content) for name, content in files.items()}
    assert [module["type"] for module in read["modules.json"]] == [
        f"sentence_transformers.models.{kind}" for kind in ("Transformer", "Pooling", "Normalize")
    ]
    assert read["sentence_bert_config.json"] == {"do_lower_case": False}
    pooling = read["1_Pooling/config.json"]
    assert (pooling["word_embedding_dimension"], pooling["include_prompt"]) == (8, True)
    flags = {name: on for name, on in pooling.items() if name.startswith("pooling_mode_")}
    assert [name for name, on in flags.items() if on] == ["pooling_mode_cls_token"]
    assert len(flags) == 6
    for name, content in files.items():
        (folder / name).write_text(content)
    assert versions(folder) == "5 or 6"


@pytest.mark.parametrize(
    "files",
    [
        {"types": TYPES | {"1_Pooling": "tercet_token_cnn.TokenCnn"}},
        {"1_Pooling/config": POOLING | {"pooling_mode": ["mean", "cls"]}},
        {"tokenizer_config": {"tokenizer_class": "TokenizersBackend"}},
        {"sentence_bert_config": {"modality_config": {"image": {}}}},
    ],
)
def test_what_only_version_6_reads_stays_as_it_is(files: Any, tmp_path: Path) -> None:
    assert older_files(encoder(tmp_path, **files)) is None
    assert versions(tmp_path) == "6"
