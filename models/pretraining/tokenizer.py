"""Tokenizers of language models: trained on a corpus, or loaded from a checkpoint."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from tercet.models.pretrained import whole_tokenizer
from tercet.models.pretraining.forms import Form

_BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_T5 = {"pad": "<pad>", "eos": "</s>", "unk": "<unk>"}
_GPT2_END = "<|endoftext|>"
# Replaces a space in Unigram's pieces.
_SPACE = "▁"
# The number of sentinels that T5 has.
_SENTINELS = 100
# One in this many entries may be a single character; rarer characters become unknown.
_ALPHABET = 16
_LEAST_ALPHABET = 40

# Returns an iterator over the same batches of texts on each call.
Source: TypeAlias = Callable[[], Iterator[list[str]]]


def trained(form: Form, vocabulary: int, max_length: int, texts: Source) -> Any:
    """Trains a tokenizer of the form's usual kind, with its special tokens.

    masked: lower-cased WordPiece. causal: byte-level BPE. t5: Unigram with sentinels. The same
    texts give the same tokenizer, which the library's trainers do not guarantee.
    Raises ValueError if the texts yield fewer entries than `vocabulary`, or if it is too small for
    the characters and special tokens.
    """
    if form == "masked":
        tokenizer, special = _wordpiece(vocabulary, texts), _BERT
    elif form == "causal":
        tokenizer, special = _bytes(vocabulary, texts), {"bos": _GPT2_END, "eos": _GPT2_END}
        special |= {"pad": _GPT2_END, "unk": _GPT2_END}
    else:
        tokenizer, special = _unigram(vocabulary, texts), _T5
    entries = tokenizer.get_vocab_size()
    _room(vocabulary, entries)
    if entries < vocabulary:
        raise ValueError(
            f"the corpora yield a vocabulary of only {entries:,} entries, not {vocabulary:,}: set "
            f"vocabulary to {entries} or less, or add text"
        )
    names = {f"{name}_token": token for name, token in special.items()}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_length, **names)


def loaded(folder: Path, form: Form, entries: int) -> Any:
    """The tokenizer of a checkpoint. entries: rows of the model's embedding.

    Raises ValueError if it is missing, or does not fit the model or the form.
    """
    tokenizer = whole_tokenizer(folder, entries)
    lacking = None
    if form == "masked" and tokenizer.mask_token_id is None:
        lacking = "mask token"
    elif form == "causal" and tokenizer.eos_token_id is None:
        lacking = "token that ends a text"
    elif form == "t5" and not sentinels(tokenizer):
        lacking = "sentinels (<extra_id_0> and so on)"
    if lacking is not None:
        raise ValueError(f"its tokenizer does not fit form: {form}, since it has no {lacking}")
    return tokenizer


def sentinels(tokenizer: Any) -> list[int]:
    """The ids of T5's sentinels, <extra_id_0> first; empty if there are none."""
    entries = tokenizer.get_vocab()
    names = (f"<extra_id_{number}>" for number in range(_SENTINELS))
    return [entries[name] for name in names if name in entries]


def _wordpiece(vocabulary: int, texts: Source) -> Tokenizer:
    normalizer = normalizers.BertNormalizer(lowercase=True)
    counts = Counter[str]()
    for batch in texts():
        counts.update(normalizer.normalize_str(" ".join(batch)))
    counts = Counter({c: n for c, n in counts.items() if not c.isspace()})
    most = max(vocabulary // _ALPHABET, _LEAST_ALPHABET)
    alphabet = sorted(sorted(counts, key=lambda c: (-counts[c], c))[:most])
    # The trainer breaks ties by ids, which it assigns in the order of a hash table. Registered as
    # special tokens, the characters get the first ids, in this order.
    inner = [f"##{character}" for character in alphabet]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=[*_BERT.values(), *inner],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    learner = _with_words(models.WordPiece(unk_token=_BERT["unk"]), normalizer)
    learner.train_from_iterator(texts(), trainer)
    # A new model, in which the characters are not special.
    entries = models.WordPiece(learner.get_vocab(), unk_token=_BERT["unk"])
    tokenizer = _with_words(entries, normalizer)
    tokenizer.add_special_tokens(list(_BERT.values()))
    tokenizer.decoder = decoders.WordPiece()
    ends = [(token, tokenizer.token_to_id(token)) for token in (_BERT["cls"], _BERT["sep"])]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    return tokenizer


def _with_words(model: models.WordPiece, normalizer: normalizers.Normalizer) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _bytes(vocabulary: int, texts: Source) -> Tokenizer:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    _room(vocabulary, len(alphabet) + 1)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[_GPT2_END],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    return tokenizer


def _unigram(vocabulary: int, texts: Source) -> Tokenizer:
    learner = _with_spaces(models.Unigram())
    alphabet = set[str]()
    for batch in texts():
        alphabet |= set(learner.normalizer.normalize_str(" ".join(batch)))
    alphabet = alphabet - {" "} | {_SPACE}
    # The trainer adds every character, and fails if there is no room.
    _room(vocabulary, _SENTINELS + len(_T5) + len(alphabet))
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary - _SENTINELS,
        special_tokens=list(_T5.values()),
        unk_token=_T5["unk"],
        show_progress=False,
    )
    learner.train_from_iterator(texts(), trainer)
    scores = dict(json.loads(learner.to_str())["model"]["vocab"])
    special = [(token, 0.0) for token in _T5.values()]
    scores = {p: score for p, score in scores.items() if p not in _T5.values()}
    # The trainer's scores of rare characters, and its order of equal scores, depend on the order of
    # a hash table.
    least = min((score for p, score in scores.items() if len(p) > 1), default=0.0)
    pieces = [(p, round(max(score, least), 6)) for p, score in scores.items()]
    pieces.sort(key=lambda piece: (-piece[1], piece[0]))
    tokenizer = _with_spaces(models.Unigram([*special, *pieces], unk_id=len(special) - 1))
    tokenizer.add_special_tokens(list(_T5.values()))
    end = (_T5["eos"], tokenizer.token_to_id(_T5["eos"]))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[end]
    )
    # The first sentinel has the highest id, like in T5.
    names = [f"<extra_id_{number}>" for number in reversed(range(_SENTINELS))]
    tokenizer.add_special_tokens(names)
    return tokenizer


def _with_spaces(model: models.Unigram) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


def _room(vocabulary: int, least: int) -> None:
    if vocabulary < least:
        raise ValueError(
            f"a vocabulary of {vocabulary} has no room for the characters and special tokens of "
            f"this form: raise it to {least} or more"
        )
