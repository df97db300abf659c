"""How good generated paraphrases are: VAEGPT-Sim's nine figures and what they leave out.

Similarity to a human's target, and diversity against the source and among several generations
(section 4.1.2). A figure near 100 on one side alone is easy to get: by a copy, or by random words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.measures.resampling import Counts, Floats, Measure
from tercet.models.measures.rouge import character_rouge, rouge, words

Values: TypeAlias = npt.NDArray[np.float64]

SIMILARITIES = ("average_rouge", "word_cosine", "sentence_cosine")
DIVERSITIES = ("source_diversity", "generation_diversity", "type_token_ratio")


@dataclass(frozen=True)
class Cosines:
    """Of each generation, (rows, generations): by the mean of word vectors and by the sentence
    vectors with the target, and by the sentence vectors with the source."""

    words: Values
    sentences: Values
    source: Values


def row_values(
    sources: Sequence[str],
    targets: Sequence[str],
    texts: Sequence[Sequence[str]],
    cosines: Cosines,
) -> dict[str, Values]:
    """One value a row, (rows,), by metric, in percent; the mean over the row's generations.

    - rouge1, rouge2, rouge_l, average_rouge: F1 with the target. character_rouge: the average of
      the three over characters, as the paper has it.
    - word_cosine, sentence_cosine: with the target. source_cosine: the sentences', with the source.
    - source_diversity: 1 - the share of the distinct words of source and generation that both have.
    - generation_diversity: the same between each two generations of a row; 0 where there is one.
    - type_token_ratio: distinct words among all words of a generation. cased_type_token_ratio: with
      words that differ in their letters' case alone counted apart, as the paper has it.
    - length: words, of the source's (100: as long). empty: generations without a word.
    """
    found: dict[str, list[float]] = {}
    for number, (source, target, several) in enumerate(zip(sources, targets, texts, strict=True)):
        said = [words(text) for text in several]
        of_row = _of_row(words(source), words(target), said) | _on_the_papers_scale(target, several)
        for name, value in of_row.items():
            found.setdefault(name, []).append(value)
        for name in ("words", "sentences", "source"):
            column = getattr(cosines, name)
            found.setdefault(_COSINES[name], []).append(float(column[number].mean()))
    return {name: 100.0 * np.array(values) for name, values in found.items()}


_COSINES = {"words": "word_cosine", "sentences": "sentence_cosine", "source": "source_cosine"}


def _of_row(
    source: Sequence[str], target: Sequence[str], said: Sequence[Sequence[str]]
) -> dict[str, float]:
    scores = np.array([[*rouge(text, target), rouge(text, target).average] for text in said])
    one, two, longest, average = scores.mean(axis=0).tolist()
    among = [unshared(a, b) for a, b in combinations(said, 2)]
    return {
        "rouge1": one,
        "rouge2": two,
        "rouge_l": longest,
        "average_rouge": average,
        "source_diversity": _mean([unshared(source, text) for text in said]),
        "generation_diversity": _mean(among),
        "type_token_ratio": _type_token_ratio(said),
        "length": _mean([len(text) / max(1, len(source)) for text in said]),
        "empty": _mean([float(not text) for text in said]),
    }


def _on_the_papers_scale(target: str, several: Sequence[str]) -> dict[str, float]:
    return {
        "character_rouge": _mean([character_rouge(text, target).average for text in several]),
        "cased_type_token_ratio": _type_token_ratio([words(t, cased=True) for t in several]),
    }


def _type_token_ratio(said: Sequence[Sequence[str]]) -> float:
    return _mean([len(set(text)) / len(text) for text in said if text])


def unshared(first: Sequence[str], second: Sequence[str]) -> float:
    """1 - the share of distinct words of both texts that both have; 0 for two empty texts."""
    both = set(first) | set(second)
    return 1 - len(set(first) & set(second)) / len(both) if both else 0.0


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def average_of(values: Mapping[str, Values]) -> Measure:
    """The mean of the six figures, each the mean over rows."""
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
    """How much nearer to the target than a control that changes as many words.

    The difference in sentence_cosine between a generator and a control of several strengths, whose
    cosine is interpolated at the generator's source_diversity, on the same resamples of rows. NaN
    where the generator changes more or fewer words than any strength of the control does.
    """
    own = np.stack([values["source_diversity"], values["sentence_cosine"]])
    others = [np.stack([c["source_diversity"], c["sentence_cosine"]]) for c in controls]

    def measure(counts: Counts) -> Floats:
        changed, alike = _means(counts, own)
        points = np.stack([_means(counts, other) for other in others])
        found = np.full(len(changed), np.nan)
        for draw, x in enumerate(changed):
            order = np.argsort(points[:, 0, draw])
            across, up = points[order, 0, draw], points[order, 1, draw]
            if across[0] <= x <= across[-1]:
                found[draw] = alike[draw] - np.interp(x, across, up)
        return found

    return measure


def perplexity_of(losses: Values, tokens: Values) -> Measure:
    """exp of the mean loss of all tokens. losses, tokens: (rows,), summed over a row's texts."""
    return lambda counts: np.exp((counts @ losses) / np.maximum(counts @ tokens, 1))


def _means(counts: Counts, columns: Values) -> Floats:
    """(columns, resamples): each column's mean."""
    return np.asarray((counts @ columns.T).T / counts.sum(axis=1))
