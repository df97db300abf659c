"""Rows of the tables that `evaluate` makes, from vectors to figures.

Dev splits of STS are of STS-B and SICK-R (SICK's trial set). Alignment and uniformity (GenSE, eqs.
4 and 5 mended) and isotropy (Mu and Viswanath) are measured on the document pairs and on STS-B,
alignment there with the pairs scored above 4.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.encoders.settings import Side, Sided
from tercet.models.measures import metrics, resampling
from tercet.models.measures.resampling import Interval
from tercet.models.retrieval.rankings import search_vectors
from tercet.storage.rows import Rows
from tercet.tasks.evaluation.document_pairs import pairs_of_split, questions_of_split
from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.suites.fact_order import OrderTask
from tercet.tasks.evaluation.suites.layout import Split, text_form
from tercet.tasks.evaluation.suites.sts import ScoredTask
from tercet.tasks.evaluation.suites.task import Data, Task, cosines
from tercet.tasks.stage import BadInput

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
"""Table `evaluations`. One row per figure of a model. The untouched backbone has its own rows; the
trained encoder has, beside each figure, a second one with `_gain`, the difference from the
backbone.

An interval covers other pairs of the same kind for this very encoder. It does not cover other
training seeds: for that, set `seeds`. Each resample draws as many pairs, queries or examples as
there are, with replacement, and computes ranks again. With fewer than 30 questions an interval
says nothing: this table has it, but summaries, reports, cards, studies and `tercet eval` leave it
out and call no such figure better or worse. Cases of `fact_order` that share an anchor are drawn
together. For `mean` and `wmean` each file is resampled separately, for an average each task. A
gain compares both models on the same resamples. With `choose`, a gain on questions that chose is
that of choosing, where each question is judged by what the others chose (`choices`). Isotropy is
Mu and Viswanath's (2018): the smallest value of the partition function divided by the largest, over
the eigenvectors of the vectors' second moments.

Key: `model_version`, `suite`, `task`, `subset`, `metric`, `seed`.

Columns:
    model_version: version of the `train` artifact, or a digest of the weights
    phase: `base`, the untouched backbone; `encoder`, the last phase's; with `evaluate.phases:
        all` also the names of the earlier phases
    suite: `retrieval`, `retrieval_sets`, `labels`, `sts_sets`, `sts`, `fact_order`, `transfer`,
        `reranking`, `pairs` or `awareness`
    task: `document_pairs`, or a question of `questions`; `CORPUS.COLUMN probe`, a logistic
        regression on the vectors of training texts, and `CORPUS.COLUMN nearest`, the commonest
        label among the ten nearest training texts; `STS12` to `STS16`, `STS-B`, `SICK-R`, with `
        dev` appended for a dev split; `MR`, `CR`, `SUBJ`, `MPQA`, `SST-2`, `TREC`, `MRPC`; a
        reranking set or a file of pairs; a file of `evaluate.sts_sets` or `evaluate.fact_order`,
        also with ` dev`; a set of `evaluate.retrieval_sets` (by the encoder's vectors), the same
        with ` bm25` (by words) or ` hybrid` (by both), also with ` dev`; `entity`, `quantity` or
        `all` of `awareness`. `STS`, `transfer` and `reranking` are the averages of the seven, the
        seven and the four, if all of them were measured
    subset: for `retrieval` the split; else `all`, for `sts` one correlation over a year's
        concatenated pairs; there also `mean` and `wmean` (plain and pair-weighted mean of its
        files), or one file; for `fact_order` also each kind of change, if there are several
    metric: `recall@1`, `recall@10`, `mrr`; for `retrieval_sets` `ndcg@10`, `recall@10`,
        `recall@100`, `map`, `mrr@10`; `spearman` (for `awareness` with the teacher's
        cosines); `accuracy` (also of `labels`), for MRPC also `f1`, for `fact_order` the share of
        cases in which the rewording is nearer than the changed text; `map`, mean over queries of
        average precision; `ap`, average precision; the same with `_gain`; `alignment`,
        `uniformity`, `isotropy`
    value: in percent, gains in points; unitless for `alignment` (0 to 4) and `uniformity` (at
        most 0), where lower is better, and `isotropy` (0 to 1, where 1 is even)
    ci_low: lower end of the 95 % bootstrap interval over queries, pairs, examples or (for
        `fact_order`) anchors, paired for gains; NULL for geometry, and if more than 5 % of the
        resamples of a tiny set leave the figure undefined
    ci_high: its upper end
    n: queries, pairs, cases or examples behind the value; for `uniformity` and `isotropy` texts
    seed: the seed of the training that made the model, for the backbone the recipe's; pairs and
        resamples are always drawn by the recipe's
    pooling: `mean`, `cls+mean`, `mask` or another, as used; `model` if the model has no pooling
        module
    text_form: how the texts were preprocessed: `raw`, `lower`, `tokenised` or `tokenised lower`;
        it moves scores by tenths
    data_digest: digest of the texts (and scores): equal digests mean the same data
"""
RETRIEVAL_RANKS = pa.schema(
    [
        ("model_version", pa.string()),
        ("pair_id", pa.uint64()),
        ("split", pa.string()),
        ("rank", pa.int32()),
        ("task", pa.string()),
        ("nearest_id", pa.uint64()),
        ("nearest_similarity", pa.float32()),
    ]
)
"""Table `retrieval_ranks`.

Key: `model_version`, `task`, `split`, `pair_id`.

Columns:
    model_version: as in `evaluations`
    pair_id: → `document_pairs.pair_id`, or `questions.pair_id`
    split: the split in which it was ranked
    rank: place of the query's answer among the distinct answers of the split, from 1; ties count
        against it
    task: `document_pairs`, or the question
    nearest_id: the pair whose answer is the nearest, the query's own or another
    nearest_similarity: its cosine with the query
"""
FACT_ORDER_CASES = pa.schema(
    [
        ("model_version", pa.string()),
        ("task", pa.string()),
        ("kind", pa.string()),
        ("item", pa.int32()),
        ("anchor", pa.string()),
        ("rewording", pa.string()),
        ("changed", pa.string()),
        ("rewording_similarity", pa.float32()),
        ("changed_similarity", pa.float32()),
    ]
)
"""Table `fact_order_cases`. The cases of `evaluate.fact_order` in the measured splits, with each
model's cosines.

Key: `model_version`, `task`, `kind`, `item`.

Columns:
    model_version: as in `evaluations`
    task: as in `evaluations`
    kind: the kind of change: `evaluation_items.subset`
    item: place among the cases of that kind: `evaluation_items.item`
    anchor: the sentence
    rewording: another way to say it
    changed: the sentence with a fact changed
    rewording_similarity: cosine of sentence and rewording
    changed_similarity: cosine of sentence and changed text
"""
# The task of the natural pairs; every other question has its own name.
DOCUMENT_PAIRS = "document_pairs"
HALVES = "halves"

# Metrics as functions from ranks to one value per query.
_OF_RANKS: Mapping[str, Callable[[npt.NDArray[np.int32]], npt.NDArray[np.float64]]] = {
    "recall@1": lambda ranks: metrics.recall_at(ranks, 1),
    "recall@10": lambda ranks: metrics.recall_at(ranks, 10),
    "mrr": metrics.reciprocal_ranks,
}

# GenSE's alignment takes the pairs of STS-B that are scored above this as positives.
_POSITIVE_SCORE = 4.0
# Uniformity compares every two texts, so it takes at most this many.
UNIFORMITY_TEXTS = 5_000

_SPREADS: Mapping[str, Callable[[metrics.Vectors], float]] = {
    "uniformity": metrics.uniformity,
    "isotropy": metrics.isotropy,
}


@dataclass(frozen=True)
class Subject:
    """The values that all rows of one evaluation share."""

    model_version: str
    phase: str
    seed: int
    pooling: str


@dataclass(frozen=True)
class Pairs:
    """Pairs of one split, ordered by id. task: `document_pairs`, or a question of `questions`."""

    split: Split
    ids: npt.NDArray[np.uint64]
    queries: list[str]
    answers: list[str]
    task: str = DOCUMENT_PAIRS

    @property
    def sides(self) -> tuple[Side | None, Side | None]:
        """The sides of queries and of answers; halves have none, since neither is a query."""
        return (None, None) if self.task == HALVES else ("query", "document")

    def texts(self) -> list[Sided]:
        """The queries, then the answers, each on its side."""
        of_queries, of_answers = self.sides
        queries: list[Sided] = [(text, of_queries) for text in self.queries]
        return queries + [(text, of_answers) for text in self.answers]

    def data(self) -> Data:
        """Form and digest of the texts."""
        digest = hashlib.sha256(self.ids.astype("<u8").tobytes())
        for query, answer in zip(self.queries, self.answers, strict=True):
            digest.update(f"{query}\x1f{answer}\x1e".encode("utf-8", "surrogatepass"))
        form = text_form([*self.queries, *self.answers])
        return Data("retrieval", self.task, form, digest.hexdigest()[:16])


def rank_table(
    subject: Subject, pairs: Pairs, encoded: Encoded, ranks: npt.NDArray[np.int32]
) -> pa.Table:
    """Rows of `retrieval_ranks`. ranks: (pairs,), of each query's own answer."""
    # The first of several pairs with the same answer stands for all of them.
    first: dict[str, int] = {}
    for place, text in enumerate(pairs.answers):
        first.setdefault(text, place)
    of_queries, of_answers = pairs.sides
    places, similarities = search_vectors(
        encoded.of(pairs.queries, of_queries), [encoded.of(list(first), of_answers)], 1
    )
    columns = {
        "model_version": pa.array([subject.model_version] * len(ranks), pa.string()),
        "pair_id": pairs.ids,
        "split": pa.array([pairs.split] * len(ranks), pa.string()),
        "rank": ranks,
        "task": pa.array([pairs.task] * len(ranks), pa.string()),
        "nearest_id": pairs.ids[np.fromiter(first.values(), dtype=np.int64)[places[:, 0]]],
        "nearest_similarity": similarities[:, 0],
    }
    return pa.table(columns, schema=RETRIEVAL_RANKS)


def retrieval_rows(
    subject: Subject,
    pairs: Pairs,
    ranks: npt.NDArray[np.int32],
    baseline: npt.NDArray[np.int32] | None,
    resamples: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Recall and MRR of one split with their intervals; the gains over the baseline's, with p.

    ranks, baseline: (pairs,), in the pairs' order, 1 the best.
    """
    figures: dict[str, Interval] = {}
    gains: dict[str, Interval] = {}
    for name, value_of in _OF_RANKS.items():
        after, *before = (
            resampling.sampled(resampling.mean_of(100.0 * value_of(one)), len(one), resamples, seed)
            for one in ((ranks,) if baseline is None else (ranks, baseline))
        )
        figures[name] = resampling.interval(after)
        if before:
            gains[f"{name}_gain"] = resampling.paired_test(after, before[0])
    return [
        row(subject, pairs.data(), pairs.split, metric, value, len(ranks))
        for metric, value in {**figures, **gains}.items()
    ]


def geometry_rows(
    subject: Subject,
    data: Data,
    subset: str,
    encoded: Encoded,
    first: Sequence[Sided],
    second: Sequence[Sided],
    texts: Sequence[Sided],
    seed: int,
) -> list[dict[str, Any]]:
    """Alignment of the pairs, uniformity and isotropy of the distinct texts, if there are enough.

    seed: draws the texts where there are more than `UNIFORMITY_TEXTS`.
    """
    rows = []
    if first:
        value = metrics.alignment(encoded.at(first), encoded.at(second))
        rows.append(row(subject, data, subset, "alignment", value, len(first)))
    # A text has one vector for both sides if the encoder does not tell them apart.
    by_row: dict[int, Sided] = {}
    for sided in texts:
        by_row.setdefault(encoded.rows[sided], sided)
    distinct = list(by_row.values())
    if len(distinct) > UNIFORMITY_TEXTS:
        ids = seeding.text_ids([text for text, _ in distinct])
        draws = seeding.draws(seed, "uniformity", ids)
        chosen = np.argsort(draws, kind="stable")[:UNIFORMITY_TEXTS]
        distinct = [distinct[i] for i in np.sort(chosen)]
    if len(distinct) > 1:
        vectors = encoded.at(distinct)
        for name, measure in _SPREADS.items():
            rows.append(row(subject, data, subset, name, measure(vectors), len(distinct)))
    return rows


def case_table(subject: Subject, task: OrderTask, encoded: Encoded) -> pa.Table:
    """Rows of `fact_order_cases`."""
    n = len(task.kinds)
    places = {kind: count(0) for kind in dict.fromkeys(task.kinds)}
    columns = {
        "model_version": pa.array([subject.model_version] * n, pa.string()),
        "task": pa.array([task.title] * n, pa.string()),
        "kind": pa.array(task.kinds, pa.string()),
        "item": [next(places[kind]) for kind in task.kinds],
        "anchor": pa.array(task.anchors, pa.string()),
        "rewording": pa.array(task.rewordings, pa.string()),
        "changed": pa.array(task.changed, pa.string()),
        "rewording_similarity": cosines(encoded, task.anchors, task.rewordings),
        "changed_similarity": cosines(encoded, task.anchors, task.changed),
    }
    return pa.table(columns, schema=FACT_ORDER_CASES)


def stsb_geometry(
    subject: Subject, tasks: Sequence[Task], encoded: Encoded, seed: int
) -> list[dict[str, Any]]:
    """Alignment, uniformity and isotropy on STS-B, in each split that is measured."""
    rows: list[dict[str, Any]] = []
    for task in tasks:
        if isinstance(task, ScoredTask) and (task.suite, task.name) == ("sts", "STS-B"):
            part = task.parts[0]
            near = np.flatnonzero(part.scores > _POSITIVE_SCORE)
            first, second, texts = (
                [(text, None) for text in some]
                for some in (
                    [part.first[i] for i in near],
                    [part.second[i] for i in near],
                    task.texts(),
                )
            )
            of = (encoded, first, second, texts)
            rows += geometry_rows(subject, task.data(), "all", *of, seed)
    return rows


def row(
    subject: Subject,
    data: Data,
    subset: str,
    metric: str,
    value: float | Interval,
    n: int,
) -> dict[str, Any]:
    """One row of `evaluations`, and the p of a gain."""
    interval = Interval(value, None, None) if isinstance(value, float) else value
    ends = {
        "value": interval.value,
        "ci_low": interval.low,
        "ci_high": interval.high,
        "p": interval.p,
    }
    return {**asdict(subject), **asdict(data), "subset": subset, "metric": metric, "n": n, **ends}


# A question with fewer pairs in a split is not measured there.
LEAST = 30
# Two halves are the least that can be ranked. A single document pair is measured too: only a split
# without any is reported.
_LEAST_OF = {DOCUMENT_PAIRS: 1, HALVES: 2}


def draw_pairs(rows: Rows, splits: Sequence[Split], max_pairs: int, seed: int) -> list[Pairs]:
    """The pairs of each split that has any, and the pairs of its other questions.

    At most `max_pairs` of each, drawn by their ids.
    """
    drawn = []
    for split in splits:
        tables: list[tuple[str, pa.Table]] = []
        if DOCUMENT_PAIRS in rows.tables:
            tables.append((DOCUMENT_PAIRS, pairs_of_split(rows, split, max_pairs, seed)))
        tables += questions_of_split(rows, split, max_pairs, seed)
        for task, part in tables:
            ids = part["pair_id"].to_numpy().astype(np.uint64)
            queries, answers = (part[side].to_pylist() for side in ("query", "answer"))
            if len(ids) >= _LEAST_OF.get(task, LEAST):
                drawn.append(Pairs(split, ids, queries, answers, task))
    return drawn


def ranks_of(encoded: Encoded, pairs: Pairs) -> npt.NDArray[np.int32]:
    """Rank of each query's answer among the distinct answers of the split."""
    places = {text: place for place, text in enumerate(dict.fromkeys(pairs.answers))}
    relevant = np.array([places[text] for text in pairs.answers], dtype=np.int64)
    of_queries, of_answers = pairs.sides
    queries, answers = encoded.of(pairs.queries, of_queries), encoded.of(list(places), of_answers)
    return metrics.answer_ranks(queries, answers, relevant)


def baseline_ranks(rows: Rows, pairs: Pairs) -> npt.NDArray[np.int32]:
    """The untouched model's ranks of these pairs. Raises BadInput if one is missing."""
    table = rows.table("retrieval_ranks", ["pair_id", "split", "rank", "task"])
    of_pairs = pc.and_(pc.equal(table["split"], pairs.split), pc.equal(table["task"], pairs.task))
    table = table.filter(of_pairs).sort_by("pair_id")
    ids = table["pair_id"].to_numpy().astype(np.uint64)
    absent = int((~np.isin(pairs.ids, ids)).sum())
    if absent:
        raise BadInput(
            "no_rows",
            f"The baseline lacks {absent} of {len(pairs.ids)} pairs, so nothing can be "
            "compared: evaluate it on the same pairs (same seed and max_pairs).",
        )
    ranks: npt.NDArray[np.int32] = table["rank"].to_numpy().astype(np.int32)
    return np.take(ranks, np.searchsorted(ids, pairs.ids))
