"""Controls that a judge of pairs must beat: logits of simple classifiers on the same pairs.

hypothesis: words of the second text alone, so whatever they give away of its label (annotators
    negate where they contradict; Gururangan et al. 2018).
pair_words: words that both texts have, that only the first has, and that only the second has, with
    the shares of words in common.
cosine: of the evaluator's vectors, with a threshold.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tercet.models.measures.resampling import Floats

CONTROLS = ("hypothesis", "pair_words", "cosine")
# Words of any script, and parts of them such as n't.
_WORD = re.compile(r"\w+|'\w+")
_FEATURES = 2**18


@dataclass(frozen=True)
class Pairs:
    """Pairs of texts with their labels, 1 true and 0 false, and their cosines if known. (n,)."""

    anchors: Sequence[str]
    texts: Sequence[str]
    labels: npt.NDArray[np.int64]
    cosines: Floats | None = None


def control_logits(
    fit: Pairs, others: Sequence[Pairs], c: float = 1.0
) -> Mapping[str, list[Floats]]:
    """Each control's logits of the other pairs, from a logistic regression on `fit`."""
    from sklearn.linear_model import LogisticRegression

    found = {}
    for name in CONTROLS:
        if name == "cosine" and any(pairs.cosines is None for pairs in (fit, *others)):
            continue
        train, *rest = (_features(name, pairs) for pairs in (fit, *others))
        model = LogisticRegression(C=c, max_iter=1_000, tol=1e-4).fit(train, fit.labels)
        found[name] = [np.asarray(model.decision_function(x), dtype=np.float64) for x in rest]
    return found


def _features(name: str, pairs: Pairs) -> Any:
    if name == "cosine":
        return np.asarray(pairs.cosines, dtype=np.float64)[:, None]
    from sklearn.feature_extraction import FeatureHasher

    rows = _hypothesis(pairs) if name == "hypothesis" else _pair_words(pairs)
    return FeatureHasher(_FEATURES, input_type="pair", alternate_sign=False).transform(rows)


def words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation."""
    return _WORD.findall(text.lower())


def _hypothesis(pairs: Pairs) -> Iterator[list[tuple[str, float]]]:
    """Words and pairs of neighbours."""
    for text in pairs.texts:
        own = words(text)
        both = {*own, *(" ".join(two) for two in pairwise(own))}
        yield [(word, 1.0) for word in sorted(both)]


def _pair_words(pairs: Pairs) -> Iterator[list[tuple[str, float]]]:
    for anchor, text in zip(pairs.anchors, pairs.texts, strict=True):
        first, second = set(words(anchor)), set(words(text))
        both = first & second
        row = [(f"both {word}", 1.0) for word in sorted(both)]
        row += [(f"gone {word}", 1.0) for word in sorted(first - second)]
        row += [(f"new {word}", 1.0) for word in sorted(second - first)]
        row.append(("share of the first", len(both) / max(len(first), 1)))
        row.append(("share of the second", len(both) / max(len(second), 1)))
        yield row
