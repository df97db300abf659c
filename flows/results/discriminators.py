"""Figures of discriminators, as the summary and the report show them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from tercet.flows.results.metric_names import FEW, is_few

ARMS = {
    "discriminator": "the discriminator",
    "pair_words": "words of both texts",
    "cosine": "the evaluator's cosine",
    "hypothesis": "words of the second text alone",
}


@dataclass(frozen=True)
class Arm:
    """A figure of each kind, with the area's interval; None where there is none.

    gain: the discriminator's area over this one's, with its interval. Of too few anchors there is
    neither an interval nor a gain.
    """

    auc: float | None
    low: float | None
    high: float | None
    accuracy: float | None
    calibration_error: float | None
    gain: tuple[float, float, float] | None


@dataclass(frozen=True)
class Judged:
    """One discriminator on its held-out pairs, by arm, itself first."""

    name: str
    pairs: int
    anchors: int
    arms: Mapping[str, Arm]


def judged(connection: duckdb.DuckDBPyConnection) -> list[Judged]:
    """The discriminators of the connection's run, by name."""
    found = connection.execute(
        """SELECT discriminator, arm, metric, value, ci_low, ci_high, pairs, anchors
            FROM discriminator_metrics WHERE subset = 'all' ORDER BY discriminator"""
    ).fetchall()
    names = dict.fromkeys(row[0] for row in found)
    return [_judged(name, [row[1:] for row in found if row[0] == name]) for name in names]


def _judged(name: str, rows: list[tuple[Any, ...]]) -> Judged:
    *_, pairs, anchors = rows[0]
    few = is_few(anchors)
    values = {
        (arm, metric): (value, None, None) if few else (value, low, high)
        for arm, metric, value, low, high, *_ in rows
    }
    arms: dict[str, Arm] = {}
    for arm in ARMS:
        if (arm, "auc") not in values:
            continue
        auc, low, high = values[arm, "auc"]
        gain, least, most = values.get((arm, "auc_gain"), (None, None, None))
        arms[arm] = Arm(
            auc,
            low,
            high,
            values[arm, "accuracy"][0],
            values[arm, "calibration_error"][0],
            None if gain is None or least is None or most is None else (gain, least, most),
        )
    return Judged(name, pairs, anchors, arms)


def in_words(one: Judged) -> str:
    """Whether it filters better than what anyone could, in a sentence."""
    if is_few(one.anchors):
        return (
            f"Whether {one.name} filters better than these is not known: fewer than {FEW} anchors "
            "were held out."
        )
    gains = {ARMS[arm]: found.gain for arm, found in one.arms.items() if arm != "discriminator"}
    as_good = [name for name, gain in gains.items() if gain is None or gain[1] <= 0]
    if not as_good:
        least = min(gain[1] for gain in gains.values() if gain is not None)
        return (
            f"{one.name} tells true pairs from false ones better than each of these, by an AUC "
            f"difference of at least {least:.3f}."
        )
    return (
        f"{one.name} is not surely better than {' and '.join(as_good)}: as a filter it is worth "
        "no more."
    )
