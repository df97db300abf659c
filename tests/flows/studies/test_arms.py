"""Studies: arms of a recipe in one store, what they share, and the table that compares them."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from failures import fails
from study_arms import BETA, REPEATED

from tercet.errors import ErrorKind
from tercet.flows.running.arguments import RunArguments
from tercet.flows.studies import arms as studies
from tercet.flows.studies.arms import Arm, arms_of


def test_a_grid_is_every_combination() -> None:
    arms = arms_of(
        "quickstart", [f"{BETA}=[0.6, 0.75]", f"{REPEATED}=[few, null]"], None, ["seed=3"]
    )
    assert [arm.name for arm in arms] == [
        "negative_max=0.6, word_repetition=few",
        "negative_max=0.6, word_repetition=null",
        "negative_max=0.75, word_repetition=few",
        "negative_max=0.75, word_repetition=null",
    ]
    assert arms[2].overrides == (
        "seed=3",
        "select.negative_max=0.75",
        "train.phases.0.word_repetition=few",
    )
    assert arms[2].values == {BETA: 0.75, REPEATED: "few"}


def test_values_are_said_as_they_were_typed(tmp_path: Path) -> None:
    arms = arms_of("quickstart", ["train.phases.0.learning_rate=[2.0e-5, 1.0e-05, 0.001]"])
    rates = [prepared(arm, tmp_path).train.phases[0].learning_rate for arm in arms]
    assert rates == [2e-5, 1e-5, 1e-3]
    arms = arms_of("quickstart", ["select.negative_max=[{quantile: 0.5}, null]"])
    bounds = [prepared(arm, tmp_path).select.negative_max for arm in arms]
    assert bounds[0].quantile == 0.5
    assert bounds[1] is None


def prepared(arm: Arm, folder: Path) -> Any:
    return studies.prepare(RunArguments(arm.recipe, str(folder), arm.overrides)).recipe


def test_named_arms_have_any_keys_and_another_recipe(tmp_path: Path) -> None:
    file = tmp_path / "arms.yaml"
    named = {"recipe": {}, "other": {"recipe": "simcse", "sample.rows": 9}, "empty": None}
    file.write_text(yaml.safe_dump(named, sort_keys=False))
    arms = arms_of("quickstart", [], str(file), ["seeds=2"])
    assert [(arm.name, arm.recipe) for arm in arms] == [
        ("recipe", "quickstart"),
        ("other", "simcse"),
        ("empty", "quickstart"),
    ]
    assert arms[1].overrides == ("seeds=2", "sample.rows=9")
    crossed = arms_of("quickstart", ["seed=[1, 2]"], str(file))
    assert [arm.name for arm in crossed][:2] == ["recipe, seed=1", "recipe, seed=2"]
    assert len(crossed) == 6


@pytest.mark.parametrize(
    ("vary", "arms", "kind", "name"),
    [
        (["select.negative_max=0.6"], None, "bad_value", "select.negative_max"),
        (["seed=[1, 2]", "seed=[3]"], None, "conflict", "--vary seed"),
        (["seed=[1, 1]"], None, "conflict", "'seed=1'"),
        (["seed=[1]"], None, "missing_key", "two arms"),
        ([], "a: {}\na: {}\n", "unreadable", "'a'"),
        ([], "- a\n", "no_rows", "arms.yaml"),
        ([], "a: 3\n", "bad_value", "'a'"),
        ([], "a: [\n", "unreadable", "YAML"),
    ],
)
def test_bad_arms_are_refused(
    tmp_path: Path, vary: list[str], arms: str | None, kind: ErrorKind, name: str
) -> None:
    file = tmp_path / "arms.yaml"
    file.write_text(arms or "")
    with fails(kind, name):
        arms_of("quickstart", vary, str(file) if arms else None)
