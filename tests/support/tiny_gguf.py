"""A language model of two layers as a GGUF file, written as llama.cpp writes it."""

from pathlib import Path

import gguf
import numpy as np
from transformers import LlamaConfig, LlamaForCausalLM

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
