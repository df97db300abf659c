"""Arms as their runs would have left them."""

from typing import Any

from tercet.flows.results.figures import Value
from tercet.flows.results.metric_names import parse_metric
from tercet.flows.studies.arms import Arm
from tercet.flows.studies.results import ArmFigures

BETA, REPEATED = "select.negative_max", "train.phases.0.word_repetition"
TEST = parse_metric("retrieval document_pairs test recall@1")
DEV = parse_metric("retrieval document_pairs dev recall@1")


def arm_with(name: str, test: dict[int, float], dev: dict[int, float], **values: Any) -> ArmFigures:
    """An arm as its runs would have left it."""
    found = ArmFigures(Arm(name, "r", (), values), f"run-{name}", None, 1, 200)
    for metric, by_seed in ((TEST, test), (DEV, dev)):
        if by_seed:
            found.figures[metric] = {
                seed: Value(value, value - 1, value + 1, 50, "m") for seed, value in by_seed.items()
            }
    found.untouched[TEST] = 40.0
    return found
