"""What tests of several folders share."""

import signal
from pathlib import Path

import pytest

# A suite that is started in the background ignores SIGINT, and its children would too: then
# nothing could be interrupted by the tests of that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_VOCABULARY = """
the a of in on and is was not array value function returns index row column sum mean new old
small large first last list text name file open close read write red blue green one two three
"""
WORDS = _VOCABULARY.split()


@pytest.fixture(scope="session")
def tiny_backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    path = tmp_path_factory.mktemp("backbone") / "tiny"
    BertModel(config).save_pretrained(path)
    fast.save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def tiny_texts() -> list[str]:
    """Two hundred distinct texts of 3 to 14 words of the tiny vocabulary."""
    import numpy as np

    draw = np.random.default_rng(5)
    texts = [" ".join(draw.choice(WORDS, size=draw.integers(3, 15))) for _ in range(260)]
    return list(dict.fromkeys(texts))[:200]
