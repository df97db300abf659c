"""A checkpoint's form is seen in its config, before anything is loaded."""

import json
from pathlib import Path

import pytest

from tercet.models.pretraining.forms import form_fault, transformer_folder


def checkpoint(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


BERT = {"model_type": "bert", "architectures": ["BertModel"]}
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}
QWEN = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
T5 = {"model_type": "t5", "is_encoder_decoder": True, "architectures": ["T5Model"]}
LLAMA = {"model_type": "llama", "architectures": ["LlamaModel"]}
BART = {"model_type": "bart", "is_encoder_decoder": True, "architectures": ["BartModel"]}


@pytest.mark.parametrize(
    ("config", "form"),
    [(BERT, "masked"), (GPT2, "causal"), (QWEN, "causal"), (LLAMA, "causal"), (T5, "t5")],
)
def test_each_form_is_known_by_its_config(tmp_path: Path, config, form) -> None:
    folder = checkpoint(tmp_path, **config)
    assert [f for f in ("masked", "causal", "t5") if form_fault(folder, f) is None] == [form]


def test_another_form_is_told(tmp_path: Path) -> None:
    gpt2 = checkpoint(tmp_path / "gpt2", **GPT2)
    said = form_fault(gpt2, "masked")
    assert said == "it is a decoder like GPT-2, but form: masked needs an encoder like BERT"
    bart = checkpoint(tmp_path / "bart", **BART)
    assert form_fault(bart, "t5") == "it is a BartModel, but form: t5 needs a T5"
    vit = checkpoint(tmp_path / "vit", model_type="vit", architectures=["ViTModel"])
    assert (
        form_fault(vit, "masked") == "it is a ViTModel, but form: masked needs an encoder like BERT"
    )
    assert "no config.json" in (form_fault(tmp_path, "t5") or "")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "mt5", "is_encoder_decoder": True}, "it is a mt5, but"),
        ({**T5, "architectures": ["T5EncoderModel"]}, "it is a T5EncoderModel, but"),
    ],
)
def test_what_is_nearly_a_t5_is_none(tmp_path: Path, config, said) -> None:
    assert (form_fault(checkpoint(tmp_path, **config), "t5") or "").startswith(said)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("config.json", "[1]", "config.json holds no object"),
        ("config.json", "null", "config.json holds no object"),
        ("modules.json", "[]", "modules.json lists no modules"),
        ("modules.json", '{"a": 1}', "modules.json lists no modules"),
    ],
)
def test_files_of_another_shape_are_one_sentence(tmp_path: Path, name, text, said) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert form_fault(tmp_path, "masked") == f"a file that describes it cannot be read: {said}"


def test_code_of_its_own_is_refused(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, **BERT, auto_map={"AutoModel": "code.M"})
    assert "Python code of its own (auto_map)" in (form_fault(folder, "masked") or "")


def test_the_transformer_in_a_folder_of_an_encoder_is_found(tmp_path: Path) -> None:
    inner = checkpoint(tmp_path / "0_Transformer", **BERT)
    modules = [{"idx": 0, "path": "0_Transformer"}, {"idx": 1, "path": "1_Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    assert transformer_folder(tmp_path) == inner
    assert form_fault(tmp_path, "masked") is None
