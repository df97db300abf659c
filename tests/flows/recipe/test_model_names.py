"""`models:` gives names to models, and each name leads somewhere."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from failures import fails

from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.model import Recipe
from tercet.tasks.stage import BadInput

MASKED = {"pretrain": {"form": "masked"}}
CONTENT = {
    "name": "small",
    "corpora": [
        {"name": "field", "source": "field.txt"},
        {"name": "wiki", "source": "wiki.txt", "role": "pretrain"},
        {"name": "nli", "source": "nli.tsv", "role": "labelled", "kind": "pairs"},
    ],
    "backbone": "small",
    "models": {"small": MASKED, "other": "small"},
    "train": {"phases": [{"name": "first", "rows": "anchors", "loss": "info_nce"}]},
}


def load(tmp_path: Path, changes: dict[str, Any], *overrides: str) -> Recipe:
    path = tmp_path / "small.yaml"
    content = {key: value for key, value in {**CONTENT, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return recipe_file.load(str(path), overrides)


def test_a_string_is_a_model_that_is_taken(tmp_path: Path) -> None:
    models = load(tmp_path, {}).models
    assert (models["other"].maker, models["other"].take) == (None, "small")
    assert models["small"].maker == "pretrain"


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ({"a": "b", "b": "c", "c": "a"}, ["models.a:", "a → b → c → a"]),
        (
            {"a": {"pretrain": {"form": "masked", "init": "b"}}, "b": "a"},
            ["models.a.pretrain.init", "a → b → a"],
        ),
        ({"wiki_masked": MASKED, "b": "wiki_maskd"}, ["'wiki_maskd'", "'wiki_masked'"]),
        ({"previous": "x/y"}, ["models.previous"]),
        ({"first": "x/y"}, ["models.first"]),
        ({"a.b": "x/y"}, ["a.b"]),
        ({"a": {}}, ["models.a", "pretrain"]),
        ({"a": {"take": "x/y", **MASKED}}, ["models.a"]),
        ({"a": {"pretrain": {"form": "masked", "corpora": ["nli"]}}}, ["field, wiki"]),
        ({"a": {"pretrain": {"form": "masked", "init": "x/y", "layers": 2}}}, ["layers"]),
        (
            {"a": {"fit_generator": {"form": "vaegpt", "init": "b"}}, "b": MASKED},
            ["models.a.fit_generator.init", "masked", "causal"],
        ),
        (
            {"a": {"fit_generator": {"form": "vaegpt", "init": "x/y", "judge": "b"}}, "b": MASKED},
            ["models.a.fit_generator.judge", "masked", "causal"],
        ),
        (
            {
                "a": {"pretrain": {"form": "causal", "init": "b"}},
                "b": {"fit_generator": {"form": "vaegpt", "init": "x/y"}},
            },
            ["models.a.pretrain.init", "vaegpt"],
        ),
    ],
)
def test_faults_are_one_sentence_with_the_line(tmp_path: Path, models, words) -> None:
    with pytest.raises(BadInput) as caught:
        load(tmp_path, {"models": models, "backbone": "x/y"})
    told = str(caught.value)
    assert told.startswith(f"{tmp_path}/small.yaml:"), told
    assert all(word in told for word in words), told
    assert "\n" not in told


def test_a_slip_is_told_wherever_a_model_is_named(tmp_path: Path) -> None:
    with fails("unknown_name", "12", "'smal'", "'small'"):
        load(tmp_path, {"backbone": "smal"})
    with fails("unknown_name", "phases.0.backbone", "'small'"):
        load(tmp_path, {}, "train.phases.0.backbone=smal")


def test_a_misspelt_prefix_is_no_name_of_the_hub(tmp_path: Path) -> None:
    with fails("bad_value", "'packge:'"):
        load(tmp_path, {"backbone": "packge:a/b"})
    (tmp_path / "a:b").mkdir()
    for name in ("package:a/b", "tag:best", str(tmp_path / "a:b"), "./none:there"):
        assert load(tmp_path, {"backbone": name}).backbone == name


def test_steps_take_the_place_of_tokens(tmp_path: Path) -> None:
    made = load(tmp_path, {}, "models.small.pretrain.steps=7").models["small"].pretrain
    assert made is not None
    assert (made.steps, made.tokens) == (7, None)
    with pytest.raises(BadInput):
        load(tmp_path, {"models": {"small": {"pretrain": {"form": "t5", "steps": 7, "tokens": 9}}}})


def test_a_recipe_may_only_make_models(tmp_path: Path) -> None:
    recipe = load(tmp_path, {"train": None, "backbone": None})
    assert recipe.train.phases == ()
    for key, gone in (
        ("train", {"train": None, "backbone": None, "models": {"other": "x/y"}}),
        ("backbone", {"train": None}),
        ("backbone", {"backbone": None}),
    ):
        with pytest.raises(BadInput, match=f"{key}: "):
            load(tmp_path, gone)


def test_a_corpus_to_pretrain_on_gives_no_anchors(tmp_path: Path) -> None:
    recipe = load(tmp_path, {})
    assert [corpus.name for corpus in recipe.unlabelled] == ["field"]
    with fails("no_effect", "'wiki'"):
        load(tmp_path, {}, "train.phases.0.rows={from: anchors, corpora: [wiki]}")
    with fails("bad_value", "query"):
        load(tmp_path, {}, "corpora.1.query=a", "corpora.1.answer=b")
