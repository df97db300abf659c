"""A small model that learns one task from scratch: a sentence with one of its entities swapped.

The sentences are made up from shapes of ours and the nouns of our lexicon. Names are drawn anew for
each sentence, so that the model has to copy what it reads: it cannot know it by heart.
"""

import json
import math
import random
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from tercet.models.knowledge.lexicon import load_lexicon
from tercet.models.llm.wire import ANSWER

PROMPT = "{{ new }} for {{ old }} in: {{ sentence }}"
END = "<end>"
LONGEST = 128

TYPES = ("person", "animal", "food", "tool", "vehicle", "building", "furniture", "clothing")
OTHER = {
    "adjective": "old new small large red blue green quiet broken heavy empty pretty cheap dusty",
    "verb": "opened closed lifted painted wanted followed carried washed repaired found forgot",
    "unit": "metres litres miles kilograms",
    "when": "yesterday today again once slowly quickly later twice",
}
SHAPES = (
    "The {person} {verb} the {adjective} {tool} near the {building}.",
    "Every {animal} in the {building} was {verb} by a {person}.",
    "A {person} {verb} {number} {unit} of {food} {when}.",
    "After {number} {unit} the {person} {verb} a {adjective} {vehicle}.",
    "The {clothing} under the {furniture} is {adjective} and the {tool} is not.",
    "Nobody {verb} the {animal} or the {food} {when}.",
    "In the {building} a {adjective} {furniture} was {verb} {when}.",
    "The {vehicle} that the {person} {verb} is {adjective}.",
    "With a {tool} and a {clothing} the {person} {verb} the {animal}.",
    "It took {number} {unit} until the {vehicle} was {verb}.",
    "Their {food} is as {adjective} as the {clothing} of a {person}.",
    "About {number} {unit} from the {building} a {animal} was {verb}.",
)


@dataclass(frozen=True)
class Words:
    """What sentences are made of: nouns by type, the words beside them, and the shapes."""

    nouns: dict[str, list[str]]
    other: dict[str, list[str]]
    shapes: tuple[str, ...]

    def listed(self) -> list[str]:
        """Every word that a sentence may hold, but for its numbers."""
        shaped = " ".join(self.shapes).replace(".", "").split()
        fixed = {word for word in shaped if "{" not in word}
        filling = [word for words in (*self.nouns.values(), *self.other.values()) for word in words]
        return [*filling, *sorted(fixed)]

    def beginning(self, share: float) -> "Words":
        """Eight nouns a type and four shapes, and that share (0 to 1) of the others."""
        nouns = {kind: n[: 8 + round(share * (len(n) - 8))] for kind, n in self.nouns.items()}
        shapes = self.shapes[: 4 + round(share * (len(self.shapes) - 4))]
        return Words(nouns, self.other, shapes)


@dataclass(frozen=True)
class Swap:
    """One example: the sentence, the entity to go, the one to come, and the sentence wanted."""

    sentence: str
    old: str
    new: str
    wanted: str

    def asked(self) -> str:
        """What a base model reads."""
        values = {"new": self.new, "old": self.old, "sentence": self.sentence}
        return re.sub(r"\{\{ (\w+) \}\}", lambda found: values[found[1]], PROMPT) + ANSWER


@dataclass(frozen=True)
class Shape:
    """How large a model is: weights a token, layers, heads of 32 (the fewest that vLLM takes)."""

    hidden: int = 192
    layers: int = 3


def words(each: int = 60, shapes: int = len(SHAPES)) -> Words:
    """The vocabulary: up to `each` nouns a type, and the first `shapes` sentence shapes."""
    lexicon = load_lexicon()
    plain = [noun for noun in lexicon.nouns if noun.isalpha()]
    nouns = {kind: [n for n in plain if lexicon.types_of(n) == (kind,)][:each] for kind in TYPES}
    other = {kind: listed.split() for kind, listed in OTHER.items()}
    return Words(nouns, other, SHAPES[:shapes])


def said(draw: random.Random, vocabulary: Words) -> tuple[str, list[tuple[str, str]]]:
    """A sentence, and its entities with their types."""
    shape = draw.choice(vocabulary.shapes)
    nouns = {kind: draw.choice(listed) for kind, listed in vocabulary.nouns.items()}
    other = {kind: draw.choice(listed) for kind, listed in vocabulary.other.items()}
    sentence = shape.format(**nouns, **other, number=draw.randint(2, 99))
    return sentence, [(noun, kind) for kind, noun in nouns.items() if f"{{{kind}}}" in shape]


def swap(draw: random.Random, vocabulary: Words, without: Collection[str] = ()) -> Swap:
    """A sentence that is not in `without`, one of its entities swapped for another of its type."""
    sentence, named = said(draw, vocabulary)
    while sentence in without:
        sentence, named = said(draw, vocabulary)
    old, kind = draw.choice(named)
    new = draw.choice([noun for noun in vocabulary.nouns[kind] if noun != old])
    return Swap(sentence, old, new, re.sub(rf"\b{old}\b", new, sentence))


def write_corpus(path: Path, vocabulary: Words, documents: int, seed: int = 1) -> set[str]:
    """Writes documents of six sentences each as `.jsonl`; all their sentences."""
    draw = random.Random(seed)
    texts = [[said(draw, vocabulary)[0] for _ in range(6)] for _ in range(documents)]
    path.write_text("".join(json.dumps({"text": " ".join(text)}) + "\n" for text in texts))
    return {sentence for text in texts for sentence in text}


def tokenizer_of(vocabulary: Words) -> PreTrainedTokenizerFast:
    """Byte-level BPE in which every word of the vocabulary is one token, its space included."""
    tokenizer = Tokenizer(models.BPE())
    # Digits stand alone: whoever loads a Qwen2 cuts numbers so, whatever the tokenizer's file says.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=20_000,
        min_frequency=1,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    listed = vocabulary.listed()
    # A prompt begins with a noun that no space is before.
    nouns = [noun for kind in vocabulary.nouns.values() for noun in kind]
    pieces = [*(f" {word}" for word in listed), *nouns, " for", " in", ":", ".", ANSWER]
    tokenizer.train_from_iterator(pieces, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=END, model_max_length=LONGEST
    )


def model_of(tokenizer: PreTrainedTokenizerFast, shape: Shape, seed: int = 0) -> Qwen2ForCausalLM:
    """A decoder with random weights."""
    torch.manual_seed(seed)
    end = tokenizer.eos_token_id
    config = Qwen2Config(
        vocab_size=math.ceil(len(tokenizer) / 64) * 64,
        hidden_size=shape.hidden,
        intermediate_size=3 * shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.hidden // 32,
        num_key_value_heads=shape.hidden // 32,
        max_position_embeddings=LONGEST,
        tie_word_embeddings=True,
        # With the usual 0.02, layers this narrow say nothing at first, and take several times as
        # many steps to find out that words can be looked up and copied.
        initializer_range=shape.hidden**-0.5,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
    )
    return Qwen2ForCausalLM(config)


def rows_of(
    swaps: Sequence[Swap], tokenizer: PreTrainedTokenizerFast
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels (-100 beside the answer), each (swaps, tokens), padded on the right."""
    asked = tokenizer([one.asked() for one in swaps])["input_ids"]
    wanted = tokenizer([f" {one.wanted}{END}" for one in swaps])["input_ids"]
    width = max(len(a) + len(w) for a, w in zip(asked, wanted, strict=True))
    ids = torch.full((len(swaps), width), tokenizer.pad_token_id)
    labels = torch.full((len(swaps), width), -100)
    for row, (a, w) in enumerate(zip(asked, wanted, strict=True)):
        ids[row, : len(a) + len(w)] = torch.tensor(a + w)
        labels[row, len(a) : len(a) + len(w)] = torch.tensor(w)
    return ids, labels


def train(
    model: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    vocabulary: Words,
    steps: int,
    without: Collection[str] = (),
    batch: int = 16,
    rate: float = 2e-3,
) -> list[tuple[int, float]]:
    """Teaches the model swaps in sentences that are not in `without`, each drawn once.

    Looking up and copying is learnt on few words, in some two hundred steps; then words and shapes
    are added until half of the steps are made. The rate rises over 50 steps and falls to nothing
    over the last 40 %. Returns (step, mean loss of the last fifty steps or so), a row every hundred
    steps.
    """
    draw = random.Random(2)
    # Matrices this small are no work for two threads, which wait for each other.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.98))
    mean, log = 0.0, []
    model.train()
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = rate * min(step / 50, (1 - (step - 1) / steps) / 0.4, 1)
        known = vocabulary.beginning(min(max(step - 200, 0) / max(steps / 2 - 200, 1), 1))
        ids, labels = rows_of([swap(draw, known, without) for _ in range(batch)], tokenizer)
        answered = labels[:, 1:] != -100
        logits = model.lm_head(model.model(ids).last_hidden_state[:, :-1][answered])
        loss = cross_entropy(logits, labels[:, 1:][answered])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.item() if step == 1 else 0.98 * mean + 0.02 * loss.item()
        if step % 100 == 0:
            log.append((step, round(mean, 4)))
            print(f"{step:6} steps, loss {mean:.3f}", flush=True)
    torch.set_num_threads(threads)
    return log


def exact(
    model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, swaps: Sequence[Swap]
) -> float:
    """The share of the swaps that the model writes word for word, by transformers, greedily."""
    model.eval()
    right = 0
    for one in swaps:
        asked = torch.tensor([tokenizer(one.asked())["input_ids"]])
        everything = torch.ones_like(asked)
        with torch.inference_mode():
            ids = model.generate(
                asked, attention_mask=everything, max_new_tokens=40, do_sample=False
            )
        text = tokenizer.decode(ids[0, asked.shape[1] :], skip_special_tokens=True)
        right += text.strip() == one.wanted
    return right / len(swaps)


def save(model: Qwen2ForCausalLM, tokenizer: PreTrainedTokenizerFast, path: Path) -> Path:
    """Writes a directory that vLLM serves."""
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
