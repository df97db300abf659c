"""Rows of the tables `evaluations` and `retrieval_ranks`, from vectors to figures.

Rows of `evaluations`, by suite:

- `retrieval`, task `document_pairs`, subset = the split: `recall@1`, `recall@10` and `mrr`, and
  with a baseline `recall@1_gain`, `recall@10_gain` and `mrr_gain` over it, each with a 95 %
  bootstrap interval over the queries (paired for the gains).
- `sts`, tasks STS12 to STS16, STS-B and SICK-R: `spearman`. Subset `all` is one correlation over
  the concatenated pairs, `mean` and `wmean` are the plain and the pair-weighted mean of the files'
  correlations, and every other subset is one file. Dev splits are the tasks `STS-B dev` and
  `SICK-R dev` (SICK's trial set). Task `STS` is the average of all seven.
- `alignment` and `uniformity` (GenSE, eqs. 4 and 5 mended) on the document pairs and on STS-B,
  there with the pairs scored above 4.

Spearman, recall, MRR and their gains are in percent, 0 to 100 (gains −100 to 100). `n` counts the
queries or pairs behind a value, of `uniformity` the texts.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models import metrics, seeding
from tercet.models.metrics import Interval
from tercet.tasks import suites
from tercet.tasks.stage import BadInput
from tercet.tasks.suites import STS_TASKS, ScoredTask, Split

EVALUATIONS = pa.schema(
    [
        ("model_version", pa.string()),
        ("phase", pa.string()),
        ("suite", pa.string()),
        ("task", pa.string()),
        ("subset", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
        ("n", pa.int64()),
        ("seed", pa.int64()),
        ("pooling", pa.string()),
        ("text_form", pa.string()),
        ("data_digest", pa.string()),
    ]
)
RETRIEVAL_RANKS = pa.schema(
    [
        ("model_version", pa.string()),
        ("pair_id", pa.uint64()),
        ("split", pa.string()),
        ("rank", pa.int32()),
    ]
)

RETRIEVAL_METRICS = ("recall@1", "recall@10", "mrr")

# Uniformity compares all texts with all others: it takes at most this many of them.
UNIFORMITY_TEXTS = 5_000

# GenSE takes the pairs of STS-B scored above this as positives for alignment.
_POSITIVE_SCORE = 4.0


@dataclass(frozen=True)
class Subject:
    """What the rows of one evaluation have in common."""

    model_version: str
    phase: str
    seed: int
    pooling: str


@dataclass(frozen=True)
class Data:
    """Where a figure comes from: what is written beside it."""

    suite: str
    task: str
    text_form: str
    digest: str


@dataclass(frozen=True)
class Encoded:
    """The vectors of distinct texts, of length one."""

    vectors: npt.NDArray[np.float32]
    rows: Mapping[str, int]

    def of(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of these texts, in their order, of shape (texts, d)."""
        return self.vectors[[self.rows[text] for text in texts]]


@dataclass(frozen=True)
class Pairs:
    """Document pairs of one split, ordered by id."""

    split: Split
    ids: npt.NDArray[np.uint64]
    queries: list[str]
    answers: list[str]

    def data(self) -> Data:
        """Form and digest of the texts."""
        digest = hashlib.sha256(self.ids.astype("<u8").tobytes())
        for query, answer in zip(self.queries, self.answers, strict=True):
            digest.update(f"{query}\x1f{answer}\x1e".encode("utf-8", "surrogatepass"))
        form = suites.text_form([*self.queries, *self.answers])
        return Data("retrieval", "document_pairs", form, digest.hexdigest()[:16])


def rank_table(subject: Subject, pairs: Pairs, ranks: npt.NDArray[np.int32]) -> pa.Table:
    """Rows of `retrieval_ranks`."""
    columns = {
        "model_version": pa.array([subject.model_version] * len(ranks), pa.string()),
        "pair_id": pairs.ids,
        "split": pa.array([pairs.split] * len(ranks), pa.string()),
        "rank": ranks,
    }
    return pa.table(columns, schema=RETRIEVAL_RANKS)


def _per_query(ranks: npt.NDArray[np.int32]) -> metrics.Floats:
    """What each query adds to the `RETRIEVAL_METRICS`, in percent, (queries, 3)."""
    columns = (
        metrics.recall_at(ranks, 1),
        metrics.recall_at(ranks, 10),
        metrics.reciprocal_ranks(ranks),
    )
    return 100.0 * np.column_stack(columns)


def retrieval_rows(
    subject: Subject,
    pairs: Pairs,
    ranks: npt.NDArray[np.int32],
    baseline: npt.NDArray[np.int32] | None,
    resamples: int,
) -> list[dict[str, Any]]:
    """Recall and MRR of one split with their intervals; the gains over the baseline's ranks.

    ranks, baseline: (pairs,), in the pairs' order, 1 the best.
    """
    data, n = pairs.data(), len(ranks)
    after = _per_query(ranks)
    found = dict(
        zip(RETRIEVAL_METRICS, metrics.bootstrap(after, resamples, subject.seed), strict=True)
    )
    if baseline is not None:
        gains = metrics.paired_bootstrap(after, _per_query(baseline), resamples, subject.seed)
        found |= {f"{name}_gain": gain for name, gain in zip(RETRIEVAL_METRICS, gains, strict=True)}
    return [_row(subject, data, pairs.split, metric, value, n) for metric, value in found.items()]


def geometry_rows(
    subject: Subject,
    data: Data,
    subset: str,
    encoded: Encoded,
    first: Sequence[str],
    second: Sequence[str],
    texts: Sequence[str],
) -> list[dict[str, Any]]:
    """Alignment of the pairs and uniformity of the distinct texts, where there are enough."""
    rows = []
    if first:
        value = metrics.alignment(encoded.of(first), encoded.of(second))
        rows.append(_row(subject, data, subset, "alignment", value, len(first)))
    distinct = list(dict.fromkeys(texts))
    if len(distinct) > UNIFORMITY_TEXTS:
        draws = seeding.draws(subject.seed, "uniformity", seeding.text_ids(distinct))
        chosen = np.argsort(draws, kind="stable")[:UNIFORMITY_TEXTS]
        distinct = [distinct[i] for i in np.sort(chosen)]
    if len(distinct) > 1:
        value = metrics.uniformity(encoded.of(distinct))
        rows.append(_row(subject, data, subset, "uniformity", value, len(distinct)))
    return rows


def suite_rows(
    subject: Subject, tasks: Sequence[ScoredTask], encoded: Encoded
) -> list[dict[str, Any]]:
    """Spearman of each task, the average of the seven where all are there, geometry of STS-B.

    Raises: BadInput, naming the set, where a correlation is undefined.
    """
    rows: list[dict[str, Any]] = []
    seven: dict[str, dict[str, float]] = {}
    sources: list[Data] = []
    for task in tasks:
        name = task.name if task.split == "test" else f"{task.name} {task.split}"
        data = Data("sts", name, suites.text_form(task.texts()), task.digest())
        settings, counts = _spearmans(task, encoded)
        rows += [_row(subject, data, s, "spearman", v, counts[s]) for s, v in settings.items()]
        if task.split == "test":
            seven[task.name] = settings
            sources.append(data)
        if task.name == "STS-B":
            part = task.parts[0]
            near = np.flatnonzero(part.scores > _POSITIVE_SCORE)
            first, second = [part.first[i] for i in near], [part.second[i] for i in near]
            rows += geometry_rows(subject, data, "all", encoded, first, second, task.texts())
    if len(seven) == len(STS_TASKS):
        forms = dict.fromkeys(data.text_form for data in sources)
        digest = hashlib.sha256(" ".join(data.digest for data in sources).encode()).hexdigest()[:16]
        data = Data("sts", "STS", ", ".join(forms), digest)
        pairs = sum(task.pairs for task in tasks if task.split == "test")
        for setting in ("all", "mean", "wmean"):
            value = float(np.mean([found[setting] for found in seven.values()]))
            rows.append(_row(subject, data, setting, "spearman", value, pairs))
    return rows


def _spearmans(task: ScoredTask, encoded: Encoded) -> tuple[dict[str, float], dict[str, int]]:
    """Spearman in percent by subset (all, mean, wmean, then each file of a year), and the pairs."""
    cosines = [
        np.einsum("nd,nd->n", encoded.of(part.first), encoded.of(part.second))
        for part in task.parts
    ]
    gold = [part.scores for part in task.parts]
    single = [
        _spearman(c, g, f"{task.name} ({part.name})")
        for c, g, part in zip(cosines, gold, task.parts, strict=True)
    ]
    sizes = [len(scores) for scores in gold]
    found = {
        "all": _spearman(np.concatenate(cosines), np.concatenate(gold), task.name),
        "mean": float(np.mean(single)),
        "wmean": float(np.average(single, weights=sizes)),
    }
    counts = dict.fromkeys(found, sum(sizes))
    if len(task.parts) > 1:
        names = [part.name for part in task.parts]
        found |= dict(zip(names, single, strict=True))
        counts |= dict(zip(names, sizes, strict=True))
    return found, counts


def _spearman(cosines: npt.NDArray[np.float32], gold: metrics.Floats, where: str) -> float:
    if len(cosines) > 1 and float(np.ptp(cosines)) <= metrics.TIE:
        raise BadInput(
            f"Spearman on {where} is undefined: the encoder gives all {len(cosines)} pairs one "
            "similarity, so its vectors do not tell texts apart (collapsed training?)."
        )
    try:
        return 100.0 * metrics.spearman(cosines, gold)
    except ValueError as error:
        raise BadInput(f"{where} cannot be evaluated: {error}.") from None


def _row(
    subject: Subject, data: Data, subset: str, metric: str, value: float | Interval, n: int
) -> dict[str, Any]:
    interval = value if isinstance(value, Interval) else None
    return {
        "model_version": subject.model_version,
        "phase": subject.phase,
        "suite": data.suite,
        "task": data.task,
        "subset": subset,
        "metric": metric,
        "value": interval.value if interval else value,
        "ci_low": interval.low if interval else None,
        "ci_high": interval.high if interval else None,
        "n": n,
        "seed": subject.seed,
        "pooling": subject.pooling,
        "text_form": data.text_form,
        "data_digest": data.digest,
    }
