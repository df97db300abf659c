"""Quality of generated paraphrases: VAEGPT-Sim's nine figures and some that it leaves out.

They measure similarity to a human's target, and diversity against the source and among several
generations (section 4.1.2). Either side alone can be near 100: a copy is similar, random words are
diverse.

Two models judge the texts too: a causal model by its losses, and an encoder by its mean word
vectors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models import seeding
from tercet.models.generation import MethodInput
from tercet.models.generators import layout
from tercet.models.measures.metrics import Vectors
from tercet.models.measures.resampling import Counts, Floats, Measure
from tercet.models.measures.rouge import character_rouge, rouge, words
from tercet.models.rules.word_exchange import Synonyms, synonym
from tercet.models.seeding import Ids

Values: TypeAlias = npt.NDArray[np.float64]

SIMILARITIES = ("average_rouge", "word_cosine", "sentence_cosine")
DIVERSITIES = ("source_diversity", "generation_diversity", "type_token_ratio")


@dataclass(frozen=True)
class Cosines:
    """Cosines of each generation, each (rows, generations).

    words: mean word vectors, with the target. sentences: sentence vectors, with the target.
    source: sentence vectors, with the source.
    """

    words: Values
    sentences: Values
    source: Values


def row_values(
    sources: Sequence[str],
    targets: Sequence[str],
    texts: Sequence[Sequence[str]],
    cosines: Cosines,
) -> dict[str, Values]:
    """By metric, one value per row, (rows,), in percent: the mean over the row's generations.

    - rouge1, rouge2, rouge_l, average_rouge: F1 with the target. character_rouge: the average of
      the three over characters, as in the paper.
    - word_cosine, sentence_cosine: with the target. source_cosine: sentence vectors, with the
      source.
    - source_diversity: 1 - the share of distinct words that source and generation have in common.
    - generation_diversity: `source_diversity` between every two generations of a row; 0 for one
    generation.
    - type_token_ratio: distinct words among all words of a generation. cased_type_token_ratio:
      case-sensitive, as in the paper.
    - length: number of words relative to the source (100: as long). empty: share of generations
      without a word.
    """
    figures: dict[str, list[float]] = {}
    for number, (source, target, several) in enumerate(zip(sources, targets, texts, strict=True)):
        copies = [words(text) for text in several]
        row_figures = _of_row(words(source), words(target), copies) | _on_the_papers_scale(
            target, several
        )
        for name, value in row_figures.items():
            figures.setdefault(name, []).append(value)
        for name in ("words", "sentences", "source"):
            column = getattr(cosines, name)
            figures.setdefault(_COSINES[name], []).append(float(column[number].mean()))
    return {name: 100.0 * np.array(values) for name, values in figures.items()}


_COSINES = {"words": "word_cosine", "sentences": "sentence_cosine", "source": "source_cosine"}


def _of_row(
    source: Sequence[str], target: Sequence[str], copies: Sequence[Sequence[str]]
) -> dict[str, float]:
    scores = np.array([[*rouge(text, target), rouge(text, target).average] for text in copies])
    one, two, longest, average = scores.mean(axis=0).tolist()
    among = [unshared(a, b) for a, b in combinations(copies, 2)]
    return {
        "rouge1": one,
        "rouge2": two,
        "rouge_l": longest,
        "average_rouge": average,
        "source_diversity": _mean([unshared(source, text) for text in copies]),
        "generation_diversity": _mean(among),
        "type_token_ratio": _type_token_ratio(copies),
        "length": _mean([len(text) / max(1, len(source)) for text in copies]),
        "empty": _mean([float(not text) for text in copies]),
    }


def _on_the_papers_scale(target: str, several: Sequence[str]) -> dict[str, float]:
    return {
        "character_rouge": _mean([character_rouge(text, target).average for text in several]),
        "cased_type_token_ratio": _type_token_ratio([words(t, cased=True) for t in several]),
    }


def _type_token_ratio(copies: Sequence[Sequence[str]]) -> float:
    return _mean([len(set(text)) / len(text) for text in copies if text])


def unshared(first: Sequence[str], second: Sequence[str]) -> float:
    """Jaccard distance of the texts' sets of words, in [0, 1]; 0 for two empty texts."""
    both = set(first) | set(second)
    return 1 - len(set(first) & set(second)) / len(both) if both else 0.0


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def average_of(values: Mapping[str, Values]) -> Measure:
    """The mean of the six figures, each averaged over rows."""
    columns = np.stack([values[name] for name in (*SIMILARITIES, *DIVERSITIES)])
    return lambda counts: _means(counts, columns).mean(axis=0)


def deficiency_of(values: Mapping[str, Values]) -> Measure:
    """The lower of the mean of the three similarities and the mean of the three diversities."""
    alike = np.stack([values[name] for name in SIMILARITIES])
    unlike = np.stack([values[name] for name in DIVERSITIES])
    return lambda counts: np.minimum(
        _means(counts, alike).mean(axis=0), _means(counts, unlike).mean(axis=0)
    )


def gain_at_equal_diversity(
    values: Mapping[str, Values], controls: Sequence[Mapping[str, Values]]
) -> Measure:
    """Gain in sentence_cosine over a control that changes equally many words.

    The control has several strengths; its sentence_cosine is interpolated at the generator's
    source_diversity, on the same resamples of rows. NaN if that lies outside the control's range.
    """
    axes = np.stack([values["source_diversity"], values["sentence_cosine"]])
    others = [np.stack([c["source_diversity"], c["sentence_cosine"]]) for c in controls]

    def measure(counts: Counts) -> Floats:
        changed, alike = _means(counts, axes)
        points = np.stack([_means(counts, other) for other in others])
        gains = np.full(len(changed), np.nan)
        for draw, x in enumerate(changed):
            order = np.argsort(points[:, 0, draw])
            across, up = points[order, 0, draw], points[order, 1, draw]
            if across[0] <= x <= across[-1]:
                gains[draw] = alike[draw] - np.interp(x, across, up)
        return gains

    return measure


def perplexity_of(losses: Values, tokens: Values) -> Measure:
    """exp of the mean loss of all tokens. losses, tokens: (rows,), summed over a row's texts."""
    return lambda counts: np.exp((counts @ losses) / np.maximum(counts @ tokens, 1))


def _means(counts: Counts, columns: Values) -> Floats:
    """The mean of each column, (columns, resamples)."""
    return np.asarray((counts @ columns.T).T / counts.sum(axis=1))


# Controls are trivial generators, which a generator must beat on the same pairs.
#
# Every draw is a function of (seed, row id, copy), so it does not depend on which rows there are;
# but replaced words and random sentences are taken from the sources of all rows.

# Shares of the words that are replaced or deleted.
SHARES = {"10": 0.1, "20": 0.2, "33": 1 / 3, "50": 0.5}
REPLACED = tuple(f"replaced_{name}" for name in SHARES)
DELETED = tuple(f"deleted_{name}" for name in SHARES)
_COPY = 1 << 32


def controls(
    ids: Ids, sources: Sequence[str], targets: Sequence[str], copies: int, seed: int
) -> Mapping[str, list[list[str]]]:
    """Texts by control, (rows, copies) each; human and copy have one text per row.

    human: the target. copy: the source. replaced_N, deleted_N: N % of the source's words, at least
    one, replaced by words of all sources or deleted. random_sentence: another row's source.
    shuffle: the source's words in random order.
    """
    split = [text.split() for text in sources]
    pool = [word for words in split for word in words]
    texts: dict[str, list[list[str]]] = {
        "human": [[text] for text in targets],
        "copy": [[text] for text in sources],
    }
    drawn = {
        **{f"replaced_{name}": (_replaced, share) for name, share in SHARES.items()},
        **{f"deleted_{name}": (_deleted, share) for name, share in SHARES.items()},
        "shuffle": (_shuffled, 1.0),
    }
    for name, (change, share) in drawn.items():
        texts[name] = [
            [
                " ".join(change(words, share, pool, _Draws(seed, name, row, c)))
                for c in range(copies)
            ]
            for row, words in zip(ids.tolist(), split, strict=True)
        ]
    texts["random_sentence"] = [
        [sources[place] for place in _others(row, number, len(sources), copies, seed)]
        for number, row in enumerate(ids.tolist())
    ]
    return texts


class _Draws:
    """Draws about one copy of one row."""

    def __init__(self, seed: int, name: str, row: int, copy: int) -> None:
        self._seed, self._name, self._row, self._copy = seed, f"control {name}", row, copy

    def order(self, count: int) -> list[int]:
        """The places 0 to count - 1 in random order."""
        drawn = seeding.draws(self._seed, self._name, self._rows(count), self._counter(count))
        return [int(place) for place in np.argsort(drawn, kind="stable")]

    def below(self, limit: int, count: int) -> list[int]:
        purpose = f"{self._name} word"
        counter = self._counter(count)
        drawn = seeding.below(self._seed, purpose, self._rows(count), limit, counter)
        return [int(value) for value in drawn]

    def _rows(self, count: int) -> Ids:
        return np.full(count, self._row, dtype=np.uint64)

    def _counter(self, count: int) -> Ids:
        return np.arange(count, dtype=np.uint64) + np.uint64(self._copy * _COPY)


def _count(words: Sequence[str], share: float) -> int:
    return min(len(words), max(1, round(share * len(words))))


def _replaced(words: list[str], share: float, pool: list[str], draws: _Draws) -> list[str]:
    places = draws.order(len(words))[: _count(words, share)]
    new = draws.below(len(pool), len(places))
    changed = dict(zip(places, (pool[place] for place in new), strict=True))
    return [changed.get(place, word) for place, word in enumerate(words)]


def _deleted(words: list[str], share: float, pool: list[str], draws: _Draws) -> list[str]:
    # A text of one word stays as it is.
    gone = set(draws.order(len(words))[: min(_count(words, share), len(words) - 1)])
    return [word for place, word in enumerate(words) if place not in gone]


def _shuffled(words: list[str], share: float, pool: list[str], draws: _Draws) -> list[str]:
    return [words[place] for place in draws.order(len(words))]


def _others(row: int, number: int, count: int, copies: int, seed: int) -> list[int]:
    """Numbers of other rows; the row's own number if there is no other."""
    if count == 1:
        return [number] * copies
    drawn = _Draws(seed, "random_sentence", row, 0).below(count - 1, copies)
    return [place + (place >= number) for place in drawn]


# The rule `synonym` as a control, and the most words of a sentence that it exchanges.
WORDS = {"synonym_1": 1, "synonym_2": 2, "synonym_4": 4}
SYNONYMS = tuple(WORDS)
# `Several.per_sentence` allows no more texts of one sentence.
_MOST = 16

_NO_MENTIONS = pa.schema(
    [
        ("sentence_id", pa.uint64()),
        ("kind", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
    ]
)


def synonyms(
    ids: Ids, sources: Sequence[str], copies: int, seed: int
) -> Mapping[str, list[list[str]]]:
    """Texts of the rule `synonym` by control, (rows, copies); repeated if the rule writes fewer.

    A source without a word that has a synonym is copied. No word is spared as a term.
    """
    inputs = MethodInput(
        pa.table({"sentence_id": pa.array(ids, pa.uint64()), "text": pa.array(sources)}),
        np.arange(len(sources)),
        _NO_MENTIONS.empty_table(),
    )
    written: dict[str, list[list[str]]] = {}
    for name, most in WORDS.items():
        params = Synonyms(per_sentence=min(copies, _MOST), words=most)
        rewritten: dict[int, list[str]] = {}
        table = synonym(inputs, params, seed).select(["sentence_id", "raw"])
        for row_id, text in zip(*(column.to_pylist() for column in table.columns), strict=True):
            rewritten.setdefault(row_id, []).append(text)
        several = [
            rewritten.get(row, [text]) for row, text in zip(ids.tolist(), sources, strict=True)
        ]
        written[name] = [[texts[copy % len(texts)] for copy in range(copies)] for texts in several]
    return written


_IGNORED = -100


def text_losses(
    model: Any, tokenizer: Any, texts: Sequence[str], batch_size: int = 32
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Summed cross-entropy and number of tokens of each text, (texts,), with the end-of-text token.

    Each text is preceded by an end-of-text token. Texts longer than the model's input are cut.
    Raises ValueError if the tokenizer has no end-of-text token.
    """
    import torch
    from torch import nn

    end = layout.end_token(tokenizer)
    most = int(model.config.max_position_embeddings) - 1
    rows = [[end, *ids[: most - 1], end] for ids in layout.tokens(tokenizer, texts)]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    losses, counts = np.zeros(len(rows)), np.array([len(row) - 1.0 for row in rows])
    model.eval()
    with torch.no_grad():
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            longest = len(rows[chosen[-1]])
            ids = torch.tensor([rows[row] + [end] * (longest - len(rows[row])) for row in chosen])
            lengths = torch.tensor([len(rows[row]) for row in chosen])
            mask = torch.arange(longest) < lengths[:, None]
            labels = ids.masked_fill(~mask, _IGNORED)[:, 1:].to(model.device)
            batch = {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}
            logits = model(**batch, use_cache=False).logits[:, :-1].float()
            each = nn.functional.cross_entropy(
                logits.transpose(1, 2), labels, ignore_index=_IGNORED, reduction="none"
            )
            losses[chosen] = each.sum(1).cpu().double().numpy()
    return losses, counts


def mean_word_vectors(model: Any, texts: Sequence[str]) -> Vectors:
    """Normalised mean of each text's input embeddings in the encoder, (texts, width).

    They replace GloVe's vectors, which no dependency ships. Special tokens do not count; the vector
    of a text without tokens is 0. Raises ValueError if the encoder has no table of embeddings.
    """
    import torch

    inner = getattr(model[0], "auto_model", None)
    if inner is None or not hasattr(model, "tokenizer"):
        raise ValueError("this encoder has no table of word vectors: name one of transformers")
    table = inner.get_input_embeddings().weight.detach().float().cpu()
    vectors = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
    encoded = model.tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]
    for row, ids in enumerate(encoded):
        if ids:
            mean = table[torch.tensor(ids)].mean(0).numpy()
            vectors[row] = mean / max(float(np.linalg.norm(mean)), 1e-12)
    return vectors
