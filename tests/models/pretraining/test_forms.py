"""A checkpoint's form is seen in its config, before anything is loaded."""

import json
from pathlib import Path

import pytest

from tercet.models.pretraining.forms import Form, form_fault, transformer_folder


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


@pytest.mark.parametrize(
    ("config", "form", "name"),
    [
        (GPT2, "masked", "GPT-2"),
        (BART, "t5", "BartModel"),
        ({"model_type": "vit", "architectures": ["ViTModel"]}, "masked", "ViTModel"),
        ({"model_type": "mt5", "is_encoder_decoder": True}, "t5", "mt5"),
        ({**T5, "architectures": ["T5EncoderModel"]}, "t5", "T5EncoderModel"),
        ({**BERT, "auto_map": {"AutoModel": "code.M"}}, "masked", "auto_map"),
    ],
)
def test_another_form_is_told(tmp_path: Path, config, form: Form, name: str) -> None:
    assert "config.json" in (form_fault(tmp_path, form) or "")
    assert name in (form_fault(checkpoint(tmp_path, **config), form) or "")


@pytest.mark.parametrize("name", ["config.json", "modules.json"])
@pytest.mark.parametrize("text", ["[]", "null", '{"a": 1}'])
def test_files_of_another_shape_are_told(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert form_fault(tmp_path, "masked") is not None


def test_the_transformer_in_a_folder_of_an_encoder_is_found(tmp_path: Path) -> None:
    inner = checkpoint(tmp_path / "0_Transformer", **BERT)
    modules = [{"idx": 0, "path": "0_Transformer"}, {"idx": 1, "path": "1_Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    assert transformer_folder(tmp_path) == inner
    assert form_fault(tmp_path, "masked") is None
