"""Models with random weights, small enough to be made on the spot, and their vocabulary."""

from pathlib import Path

import pytest

_VOCABULARY = """
the a of in on and is was not array value function returns index row column sum mean new old
small large first last list text name file open close read write red blue green one two three
"""
WORDS = _VOCABULARY.split()


def write_backbone(path: Path, hidden_size: int = 32) -> Path:
    """A plain checkpoint, not yet an encoder: two layers of random BERT with its tokenizer."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {word: i for i, word in enumerate([*specials, *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=64,
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden_size,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * hidden_size,
        max_position_embeddings=64,
    )
    BertModel(config).save_pretrained(path)
    fast.save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The backbone of most tests."""
    return write_backbone(tmp_path_factory.mktemp("backbone") / "tiny")


@pytest.fixture(scope="session")
def tiny_texts() -> list[str]:
    """Two hundred distinct texts of 3 to 14 words of the tiny vocabulary."""
    import numpy as np

    draw = np.random.default_rng(5)
    texts = [" ".join(draw.choice(WORDS, size=draw.integers(3, 15))) for _ in range(260)]
    return list(dict.fromkeys(texts))[:200]


@pytest.fixture(scope="session")
def tiny_llm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model that vLLM serves: two layers of random Qwen2, a tokenizer of bytes and words."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<end>", "<user>", "<assistant>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(WORDS)] * 2, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>", model_max_length=4096
    )
    fast.chat_template = (
        "{% for message in messages %}<user>{{ message.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    torch.manual_seed(0)
    # vLLM's attention on a CPU takes heads of 32 dimensions and more.
    config = Qwen2Config(
        vocab_size=len(fast),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=128,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    path = tmp_path_factory.mktemp("llm") / "tiny"
    Qwen2ForCausalLM(config).save_pretrained(path)
    fast.save_pretrained(path)
    return path
