"""A discriminator finds its pairs and its evaluator, and a scorer finds the discriminator."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import Made, Weights
from tercet.tasks.stage import BadInput

CONTENT: dict[str, Any] = {
    "name": "judged",
    "backbone": "some/encoder",
    "corpora": [
        {"name": "field", "source": "field.txt"},
        {"name": "nli", "source": "nli.csv", "role": "labelled", "kind": "entailment"},
        {"name": "sts", "source": "sts.csv", "role": "labelled", "kind": "scored"},
    ],
    "models": {"judge": {"fit_pair": {"corpora": ["nli"]}}, "same": "judge"},
    "evaluator": {"model": "some/encoder"},
    "synthesise": {"cutoff": None, "negation": None},
    "score": {"pair": {"model": "judge"}},
    "select": {"p_min": 0.9},
    "train": {},
}


def load(tmp_path: Path, **changes: Any) -> Recipe:
    path = tmp_path / "judged.yaml"
    content = {key: value for key, value in {**CONTENT, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return recipe_file.load(str(path))


def steps(recipe: Recipe) -> dict[str, Step]:
    return {step.name: step for step in compile_steps(resolve(recipe))}


def test_it_reads_the_evaluators_vectors_and_the_scorer_those_that_are_stored(
    tmp_path: Path,
) -> None:
    found = steps(load(tmp_path, embed={"max_length": 64}))
    fit, score = found["fit_pair.judge"], found["score.pair"]
    assert fit.inputs == {"labelled": ("labelled",)}
    assert fit.models == {"evaluator": Weights("some/encoder")}
    assert (fit.config.corpora, fit.config.max_length) == (("nli",), 64)  # type: ignore[attr-defined]
    assert score.models == {"discriminator": Made("fit_pair.judge")}
    assert set(score.inputs) == {"candidates", "embeddings"}
    assert found["select"].inputs["scores"] == ("score.evaluator", "score.pair")
    order = list(found)
    assert order.index("fit_pair.judge") < order.index("score.pair") < order.index("select")


def test_a_bare_key_means_all_labelled_corpora(tmp_path: Path) -> None:
    corpora = [one for one in CONTENT["corpora"] if one["name"] != "sts"]
    models = {"judge": {"fit_pair": None}}
    found = steps(load(tmp_path, corpora=corpora, models=models))
    assert found["fit_pair.judge"].config.corpora == ("nli",)  # type: ignore[attr-defined]


def test_a_recipe_may_make_the_discriminator_alone(tmp_path: Path) -> None:
    gone = dict.fromkeys(("synthesise", "score", "select", "backbone", "train"))
    assert list(steps(load(tmp_path, **gone))) == ["ingest", "sample", "labelled", "fit_pair.judge"]


def test_selection_reads_the_probability_where_something_asks_for_it(tmp_path: Path) -> None:
    for select in (
        {"prefer": "p_true"},
        {"relations": {"keeps": {"p_min": 0.5}}},
        {"methods": {"cutoff": {"p_min": 0.5}}},
    ):
        found = steps(load(tmp_path, select=select))
        assert "score.pair" in found["select"].inputs["scores"]
    assert steps(load(tmp_path, select=None))["select"].inputs["scores"] == ("score.evaluator",)


def test_the_name_of_the_discriminator_is_no_part_of_a_score(tmp_path: Path) -> None:
    found = steps(load(tmp_path, score={"pair": {"model": "same"}}))["score.pair"]
    assert found.models == {"discriminator": Made("fit_pair.judge")}
    assert found.stage.locations == ("model",)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"evaluator": None, "synthesise": None, "score": None, "select": None},
            ["evaluator"],
        ),
        (
            {"models": {"judge": {"fit_pair": {"corpora": ["field"]}}}},
            ["models.judge.fit_pair.corpora", "'field'", "nli, sts"],
        ),
        (
            {"models": {"judge": {"fit_pair": None}}},
            ["models.judge.fit_pair", "'sts'", "scored", "entailment"],
        ),
        (
            {"corpora": CONTENT["corpora"][:1], "models": {"judge": {"fit_pair": {}}}},
            ["models.judge.fit_pair", "role labelled"],
        ),
        ({"score": {"pair": {"model": "jugde"}}}, ["score.pair.model", "'judge'"]),
        (
            {"score": {"pair": {"model": "some/encoder"}}},
            ["score.pair.model", "'some/encoder'", "fit_pair"],
        ),
        ({"backbone": "judge"}, ["backbone", "'judge'"]),
        ({"evaluator": {"model": "same"}}, ["evaluator.model", "'same'"]),
        (
            {"models": CONTENT["models"] | {"own": {"pretrain": {"form": "t5", "init": "judge"}}}},
            ["models.own.pretrain.init"],
        ),
    ],
)
def test_what_cannot_work_is_one_sentence(
    tmp_path: Path, changes: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(BadInput) as caught:
        load(tmp_path, **changes)
    message = str(caught.value)
    assert all(word in message for word in words), message


DEV = {"name": "dev", "source": "dev.csv", "role": "labelled", "kind": "entailment"}
BOTH = [one for one in CONTENT["corpora"] if one["name"] != "sts"] + [DEV]


def test_a_dev_corpus_is_held_out_and_never_learnt_from_by_default(tmp_path: Path) -> None:
    models = {"judge": {"fit_pair": {"dev": ["dev"]}}}
    config: Any = steps(load(tmp_path, corpora=BOTH, models=models))["fit_pair.judge"].config
    assert (config.corpora, config.dev) == (("nli",), ("dev",))


@pytest.mark.parametrize(
    ("fit", "said"),
    [
        ({"dev": ["nobody"]}, "'nobody'"),
        ({"corpora": ["nli", "dev"], "dev": ["dev"]}, "'dev'"),
        ({"dev": ["nli", "dev"]}, "labelled"),
    ],
)
def test_a_dev_corpus_that_cannot_be(tmp_path: Path, fit: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        load(tmp_path, corpora=BOTH, models={"judge": {"fit_pair": fit}})
