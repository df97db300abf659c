"""Random generators of a few words, made on the spot, with their layout beside them."""

from pathlib import Path

from tiny_t5 import tiny_t5

from tercet.models.generators import layout
from tercet.models.generators.layout import Layout

SEPARATOR, END = "<sep>", "<end>"


def tiny_causal(path: Path, words: list[str], seed: int = 0, sharpness: float = 0.3) -> Path:
    """Two layers of random GPT-2 with a tokenizer of bytes and these words.

    sharpness: the spread of the weights: the larger, the more the model prefers some tokens.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=800,
        special_tokens=[END, SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(words)] * 2, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=END, model_max_length=128
    )
    torch.manual_seed(seed)
    # vLLM's attention on a CPU takes heads of 32 dimensions and more.
    config = GPT2Config(
        vocab_size=len(fast),
        n_positions=128,
        n_embd=64,
        n_layer=2,
        n_head=2,
        initializer_range=sharpness,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        # Its logit varies more than the others', so that some texts end.
        model.transformer.wte.weight[0] *= 2
    model.save_pretrained(path)
    fast.save_pretrained(path)
    layout.write(path, Layout(form="causal", separator=SEPARATOR, max_length=96))
    return path


def tiny_seq2seq(path: Path, words: list[str]) -> Path:
    """A random T5 that reads `in other words: SOURCE`, and prefers some words."""
    import torch
    from transformers import T5ForConditionalGeneration

    tiny_t5(path, list(dict.fromkeys([*words, "in", "other", "words", ":"])))
    model = T5ForConditionalGeneration.from_pretrained(path)
    torch.manual_seed(5)
    with torch.no_grad():
        for weight in model.parameters():
            weight += torch.randn_like(weight) * 0.15
        # So that some texts end.
        model.get_output_embeddings().weight[1] *= 2
    model.save_pretrained(path)
    layout.write(path, Layout(form="t5", before="in other words: ", max_length=32))
    return path
