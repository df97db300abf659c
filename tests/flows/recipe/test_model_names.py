"""`models:` gives names to models, and each name leads somewhere."""

from pathlib import Path
from typing import Any

import pytest
import yaml

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
        ({"a": "a"}, ["models.a:", "a → a"]),
        (
            {"a": {"pretrain": {"form": "masked", "init": "b"}}, "b": "a"},
            ["models.a.pretrain.init", "a → b → a"],
        ),
        (
            {"wiki_masked": MASKED, "b": "wiki_maskd"},
            ["'wiki_maskd'", "the nearest is 'wiki_masked'"],
        ),
        ({"previous": "x/y"}, ["models.previous", "choose another"]),
        ({"first": "x/y"}, ["models.first", "a phase has the name"]),
        ({"a.b": "x/y"}, ["no name for a model"]),
        ({"a": {}}, ["models.a", "the one stage that makes it, which is one of: pretrain"]),
        ({"a": {"take": "x/y", **MASKED}}, ["models.a", "name a model to take, or the one stage"]),
        ({"a": {"pretrain": {"form": "bert"}}}, ["models.a.pretrain.form", "'bert'"]),
        ({"a": {"pretrain": {"form": "masked", "corpora": ["nli"]}}}, ["only: field, wiki"]),
        (
            {"a": {"pretrain": {"form": "masked", "init": "x/y", "layers": 2}}},
            ["leave layers out"],
        ),
        ({"a": {"pretrain": {"form": "masked", "width": 100, "heads": 3}}}, ["heads 3"]),
        (
            {"a": {"fit_generator": {"form": "vaegpt", "init": "b"}}, "b": MASKED},
            ["models.a.fit_generator.init", "the form masked", "starts from one of form causal"],
        ),
        (
            {"a": {"fit_generator": {"form": "vaegpt", "init": "x/y", "judge": "b"}}, "b": MASKED},
            ["models.a.fit_generator.judge", "the form masked", "is judged by one of form causal"],
        ),
        (
            {
                "a": {"pretrain": {"form": "causal", "init": "b"}},
                "b": {"fit_generator": {"form": "vaegpt", "init": "x/y"}},
            },
            ["models.a.pretrain.init", "the form vaegpt"],
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
    with pytest.raises(BadInput, match=r"yaml:12: backbone: .*'smal'.*nearest is 'small'"):
        load(tmp_path, {"backbone": "smal"})
    with pytest.raises(BadInput, match=r"phases.0.backbone: .*nearest is 'small'"):
        load(tmp_path, {}, "train.phases.0.backbone=smal")


def test_a_misspelt_prefix_is_no_name_of_the_hub(tmp_path: Path) -> None:
    told = "backbone: 'packge:a/b' has the unknown prefix 'packge:': .* begin with package: or tag:"
    with pytest.raises(BadInput, match=told):
        load(tmp_path, {"backbone": "packge:a/b"})
    (tmp_path / "a:b").mkdir()
    for name in ("package:a/b", "tag:best", str(tmp_path / "a:b"), "./none:there"):
        assert load(tmp_path, {"backbone": name}).backbone == name


def test_steps_take_the_place_of_tokens(tmp_path: Path) -> None:
    made = load(tmp_path, {}, "models.small.pretrain.steps=7").models["small"].pretrain
    assert made is not None
    assert (made.steps, made.tokens) == (7, None)
    with pytest.raises(BadInput, match="either tokens or steps"):
        load(tmp_path, {"models": {"small": {"pretrain": {"form": "t5", "steps": 7, "tokens": 9}}}})


def test_a_recipe_may_only_make_models(tmp_path: Path) -> None:
    recipe = load(tmp_path, {"train": None, "backbone": None})
    assert recipe.train.phases == ()
    with pytest.raises(BadInput, match="train: the key is missing, and nothing under `models`"):
        load(tmp_path, {"train": None, "backbone": None, "models": {"other": "x/y"}})
    with pytest.raises(BadInput, match="backbone: without `train` nothing uses this key"):
        load(tmp_path, {"train": None})
    with pytest.raises(BadInput, match="backbone: the key is missing"):
        load(tmp_path, {"backbone": None})


def test_a_corpus_to_pretrain_on_gives_no_anchors(tmp_path: Path) -> None:
    recipe = load(tmp_path, {})
    assert [corpus.name for corpus in recipe.unlabelled] == ["field"]
    with pytest.raises(BadInput, match="'wiki' has role pretrain and gives no anchors"):
        load(tmp_path, {}, "train.phases.0.rows={from: anchors, corpora: [wiki]}")
    with pytest.raises(BadInput, match="query is not for pretrain corpora"):
        load(tmp_path, {}, "corpora.1.query=a", "corpora.1.answer=b")
