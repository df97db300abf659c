"""Tables about a discriminator: its figures beside controls, and its reliability.

All figures come from the anchors of `Judged.test`, which neither the fit nor the calibration has
seen; intervals come from resampled anchors.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.discriminators import Platt, fitted_platt
from tercet.models.measures import discrimination, resampling
from tercet.models.measures.discrimination import BINS, Pairs, control_logits
from tercet.models.measures.resampling import Floats
from tercet.tasks.stage import Work
from tercet.tasks.training.judged_pairs import Judged, labels_of

DISCRIMINATOR_METRICS = pa.schema(
    [
        ("discriminator", pa.string()),
        ("arm", pa.string()),
        ("subset", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
        ("pairs", pa.int64()),
        ("anchors", pa.int64()),
        ("seed", pa.int64()),
    ]
)
"""Table `discriminator_metrics`. How well a discriminator tells true pairs from false ones, beside
controls fitted to the same pairs. All figures come from held-out anchors, which neither the fit nor
the calibration has seen.

The metrics:

- `auc`: the chance that a true pair gets the higher probability than a false one; ties count half
- `auc_gain`: of a control: the discriminator's area minus the control's, on the same resamples.
  If its interval reaches 0, the control filters as well
- `accuracy`: percent on the right side of 0.5
- `log_loss`: mean −log of the probability that the true answer got
- `perplexity`: a `gense` model's own, by token, of the held-out texts that it should write; without
  an interval
- `calibration_error`: mean gap between a bin's probabilities and its share of true pairs,
  weighted by the bins' pairs

Key: `discriminator`, `arm`, `subset`, `metric`, `seed`.

Columns:
    discriminator: its name under `models`
    arm: `discriminator`; or a control: `hypothesis` (words of the second text alone),
        `pair_words` (words of both texts, of only the first, of only the second), `cosine` (the
        evaluator's)
    subset: `all`, or a corpus if there are several
    metric: as above
    value: NULL if the subset has no true or no false pair
    ci_low: lower end of the 95 % bootstrap interval, over anchors
    ci_high: its upper end
    pairs: held-out pairs
    anchors: their distinct first texts, which are resampled
    seed: the recipe's, by which anchors are held out and resampled
"""
RELIABILITY = pa.schema(
    [
        ("discriminator", pa.string()),
        ("p_low", pa.float64()),
        ("p_high", pa.float64()),
        ("pairs", pa.int64()),
        ("mean_p", pa.float64()),
        ("share_true", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
        ("seed", pa.int64()),
    ]
)
"""Table `reliability`. Whether a discriminator's probabilities are calibrated: the held-out pairs
in bins of 0.05 of P(true).

Key: `discriminator`, `p_low`, `seed`.

Columns:
    discriminator: its name under `models`
    p_low: lower end of the bin, included
    p_high: its upper end
    pairs: held-out pairs; a bin without any has no row
    mean_p: mean of their probabilities
    share_true: share of them that are true; calibrated, it is `mean_p`
    ci_low: lower end of the 95 % bootstrap interval over anchors; NULL if more than 5 % of the
        resamples have no such pair
    ci_high: its upper end
    seed: the recipe's
"""
# The discriminator's arm.
OWN = "discriminator"
RESAMPLES = 2_000
# Most pairs to which controls are fitted.
_CONTROL_ROWS = 50_000


def emit_figures(
    work: Work,
    name: str,
    judged: Judged,
    logits: Floats,
    platt: Platt,
    cosines: Mapping[str, Floats] | None = None,
) -> None:
    """Emits `discriminator_metrics` and `reliability`.

    name: the discriminator's, in the recipe. logits: of `judged.test`, before calibration. cosines:
    the evaluator's, by part, for the control `cosine`.
    """
    arms = {OWN: platt.logits(logits), **_controls(judged, cosines)}
    test = judged.test
    labels = labels_of(test)
    anchors = seeding.text_ids(test["anchor"].to_pylist())
    rows = []
    for subset, inside in _subsets(test):
        kept = {arm: values[inside] for arm, values in arms.items()}
        for row in _metrics(kept, labels[inside], anchors[inside], work.seed):
            rows.append({"discriminator": name, "subset": subset, "seed": work.seed, **row})
    metrics = pa.Table.from_pylist(rows, schema=DISCRIMINATOR_METRICS)
    work.emit("discriminator_metrics", metrics)
    _emit_reliability(work, name, labels, _probabilities(arms[OWN]), anchors)


def _controls(judged: Judged, cosines: Mapping[str, Floats] | None) -> dict[str, Floats]:
    """Each control's logits of the test pairs, calibrated on the validation pairs."""
    pairs = {}
    for part, table in judged._asdict().items():
        # Rows are sorted by a digest, so the first rows are a random sample.
        most = _CONTROL_ROWS if part == "fit" else table.num_rows
        table = table.slice(0, most)
        pairs[part] = Pairs(
            table["anchor"].to_pylist(),
            table["text"].to_pylist(),
            labels_of(table),
            None if cosines is None else cosines[part][:most],
        )
    logits = control_logits(pairs["fit"], [pairs["validation"], pairs["test"]])
    return {
        control: fitted_platt(validation, pairs["validation"].labels).logits(test)
        for control, (validation, test) in logits.items()
    }


def _subsets(test: pa.Table) -> Iterator[tuple[str, Any]]:
    """`all`, and each of several corpora, with a mask of its pairs."""
    yield "all", np.ones(test.num_rows, dtype=bool)
    corpora = sorted(pc.unique(test["corpus"]).to_pylist())
    for corpus in corpora if len(corpora) > 1 else []:
        yield corpus, pc.equal(test["corpus"], corpus).to_numpy(zero_copy_only=False)


def _metrics(
    arms: Mapping[str, Floats], labels: Any, anchors: seeding.Ids, seed: int
) -> Iterator[dict[str, Any]]:
    """Rows without discriminator, subset and seed; undefined values are None."""
    count = len(np.unique(anchors))
    shared = {"pairs": len(labels), "anchors": count}
    auc: resampling.Sampled | None = None
    for arm, logits in arms.items():
        p = _probabilities(logits)
        measures = {
            "auc": (discrimination.auc_of, logits),
            "accuracy": (discrimination.accuracy_of, p),
            "log_loss": (discrimination.log_loss_of, p),
            "calibration_error": (discrimination.calibration_error_of, p),
        }
        for metric, (measure, values) in measures.items():
            sampled = None
            # A corpus may have only true or only false held-out pairs.
            with suppress(ValueError):
                of_arm = measure(labels, values, anchors)
                sampled = resampling.sampled(of_arm, count, RESAMPLES, seed)
            yield {"arm": arm, "metric": metric, **_ends(sampled), **shared}
            if metric == "auc":
                if arm == OWN:
                    auc = sampled
                elif auc is not None and sampled is not None:
                    gain = resampling.Sampled(auc.value - sampled.value, auc.draws - sampled.draws)
                    yield {"arm": arm, "metric": "auc_gain", **_ends(gain), **shared}


def _ends(sampled: resampling.Sampled | None) -> dict[str, float | None]:
    if sampled is None:
        return {"value": None, "ci_low": None, "ci_high": None}
    ends = resampling.interval(sampled)
    return {"value": ends.value, "ci_low": ends.low, "ci_high": ends.high}


def _probabilities(logits: Floats) -> Floats:
    return Platt(1.0, 0.0).probabilities(logits)


def _emit_reliability(work: Work, name: str, labels: Any, p: Floats, anchors: seeding.Ids) -> None:
    count = len(np.unique(anchors))
    rows = []
    for number, (pairs, mean, share) in discrimination.reliability(labels, p, anchors).items():
        ends = resampling.interval(resampling.sampled(share, count, RESAMPLES, work.seed))
        rows.append(
            {
                "discriminator": name,
                "p_low": number / BINS,
                "p_high": (number + 1) / BINS,
                "pairs": pairs,
                "mean_p": mean,
                "share_true": ends.value,
                "ci_low": ends.low,
                "ci_high": ends.high,
                "seed": work.seed,
            }
        )
    work.emit("reliability", pa.Table.from_pylist(rows, schema=RELIABILITY))
