"""The table `training_log`, of every stage that trains."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

TRAINING_LOG = pa.schema(
    [
        ("phase", pa.string()),
        ("step", pa.int32()),
        ("epoch", pa.float64()),
        ("loss", pa.float64()),
        ("terms", pa.map_(pa.string(), pa.float64())),
        ("learning_rate", pa.float64()),
        ("rows_per_second", pa.float64()),
        ("seed", pa.int64()),
        ("dev_metric", pa.string()),
        ("dev_value", pa.float64()),
        ("chosen", pa.bool_()),
    ],
    # Columns of the table's view: what the losses gaussian_decay and pairwise_logistic report; of
    # several parts, the first that does.
    {
        name: "(list_filter(map_entries(terms), lambda e: "
        f"e.key = '{name}' OR ends_with(e.key, '.{name}')))[1].value"
        for name in (
            *("gate_opening", "gradient_share", "student_negative", "teacher_negative"),
            "in_order",
        )
    },
)
"""Table `training_log`. One row every `log_steps` steps, and one at the end of each phase. Values
are means since the previous row. `fit_evaluator` writes it too, as phase `fit_evaluator`, and
`pretrain` as a phase with the model's name; its dev measure is the loss on held-out text, and its
terms are `tokens` (of a step, without padding) and `tokens_per_second`. So does `fit_generator`:
its dev measure is the average ROUGE of held-out pairs, and its terms are `cross_entropy` and, for
VAEGPT, `kl` and `target`. For form `gense` the measure is accuracy − 10 · perplexity, and the
terms are `written` and `judged`. With `train.choose` the encoder is measured on dev: a measured
step between two logged ones has its own row, in which everything about the loss is NULL.

Columns:
    phase: the phase's name
    step: optimiser steps of the phase so far
    epoch: passes over the phase's rows so far
    loss: the loss
    terms: what the loss reports, by name (of a generator `cross_entropy`, of VAEGPT also `kl` and
        `target`); in a phase of several parts `PART.TERM`, and each part's own loss as
        `PART.loss`
    learning_rate: at that step
    rows_per_second: rows trained a second, without the time that measuring took
    seed: the seed of this training, one of several over the same rows
    dev_metric: what was measured on dev after this step, named as in `evaluations`; else NULL
    dev_value: its value, in percent (a `loss` in nats a token); NULL also if the encoder cannot
        tell texts apart
    chosen: the phase ended with the weights of this step
    gate_opening: mean opening of the Gaussian decay's gate, the factor on the logit of a row's
        own hard negative, 0 to 1; NULL without that loss. It is not the share of the gradient:
        the logit stands in an exponential
    gradient_share: share of the gradient on the rows' own hard negatives (their logits) that the
        decay let through: 1 without decay, 0 while none counts; the mean of the batches', each a
        ratio of sums over its rows; NULL without that loss
    student_negative: cosine of anchor and hard negative by the encoder in training; else NULL
    teacher_negative: the same cosine by the evaluator, or by the part's teacher; NULL if no row
        has one
    in_order: share of the rows whose positive is nearer than their negative, 0 to 1; NULL without
        the loss `pairwise_logistic`
"""


def log_table(rows: Sequence[dict[str, Any]], phase: str, seed: int) -> pa.Table:
    """Rows of the loop's log as the table has them."""
    full = [
        # As a map column takes them.
        {**row, "phase": phase, "seed": seed, "terms": sorted((row["terms"] or {}).items())}
        for row in rows
    ]
    return pa.Table.from_pylist(full, schema=TRAINING_LOG)
