"""Keys of a recipe that do not fit each other are refused before anything runs."""

from typing import Any

import pytest
from pydantic import ValidationError

from tercet.flows.recipe.model import Recipe

STS = {"name": "sts", "source": "sts.csv", "role": "labelled", "kind": "scored"}


def recipe(corpora: list[dict[str, str]], train: dict[str, Any]) -> Recipe:
    field = {"name": "field", "source": "field.txt"}
    content = {"name": "c", "backbone": "a/b", "corpora": [field, *corpora], "train": train}
    return Recipe.model_validate(content)


@pytest.mark.parametrize("loss", ["in_batch", "nt_xent"])
def test_no_phase_takes_every_scored_pair_for_a_positive(loss: str) -> None:
    phase: dict[str, Any] = {"name": "pairs", "rows": "sts", "loss": loss}
    with pytest.raises(ValidationError, match=f"'sts' is scored, and {loss} would take its pairs"):
        recipe([STS], {"phases": [phase]})
    assert recipe([{**STS, "kind": "pairs"}], {"phases": [phase]})
    # A text that is its own positive needs no label.
    rows = {"from": "sts", "positive": "anchor"}
    assert recipe([STS], {"phases": [{**phase, "rows": rows}]})


def test_no_step_is_chosen_by_other_weights_than_are_left() -> None:
    pairs = {**STS, "name": "nli", "kind": "pairs"}
    phase = {"name": "pairs", "rows": "nli", "loss": "in_batch", "start_share": 0.3}
    train = {"phases": [phase], "choose": {"by": "STS-B"}}
    with pytest.raises(ValidationError, match=r"before the starting ones are blended in"):
        recipe([pairs], train)
    assert recipe([pairs], {"phases": [phase]})
