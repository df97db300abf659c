"""`models:` gives names to models: each name leads somewhere, and what makes one has its step."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from failures import fails

from tercet.errors import ErrorKind
from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import Made, Weights
from tercet.models.t5 import wording
from tercet.tasks.training import fit_gense

FIELD = {"name": "field", "source": "field.txt"}
NLI = {"name": "nli", "source": "nli.csv", "role": "labelled", "kind": "entailment"}
STS = {"name": "sts", "source": "sts.csv", "role": "labelled", "kind": "scored"}
DEV = {**NLI, "name": "dev", "source": "dev.csv"}
MASKED = {"pretrain": {"form": "masked"}}
SMALL: dict[str, Any] = {
    "name": "small",
    "corpora": [FIELD, {"name": "wiki", "source": "wiki.txt", "role": "pretrain"}, NLI],
    "backbone": "small",
    "models": {"small": MASKED, "other": "small"},
    "train": {"phases": [{"name": "first", "rows": "anchors", "loss": "info_nce"}]},
}
ASKED = {"generator": "t5", "per_unit": 4}
FIT: dict[str, Any] = {"form": "gense", "init": "some/t5", "pairs": {"corpora": ["nli"]}}
GENSE: dict[str, Any] = {
    "name": "gense",
    "backbone": "some/encoder",
    "corpora": [FIELD, {**NLI, "kind": "triplets"}, STS],
    "models": {"writer": {"fit_generator": FIT}},
    "generators": {"t5": {"model": "writer", "top_p": 0.9, "beams": 1}},
    "synthesise": {"entailment": ASKED, "contradiction": ASKED},
    "evaluator": {"model": "some/encoder"},
    "score": {"gense": {"model": "writer"}},
    "select": {"p_min": 0.9},
    "train": {},
}
JUDGED: dict[str, Any] = {
    "name": "judged",
    "backbone": "some/encoder",
    "corpora": [FIELD, NLI, STS],
    "models": {"judge": {"fit_pair": {"corpora": ["nli"]}}, "same": "judge"},
    "evaluator": {"model": "some/encoder"},
    "synthesise": {"cutoff": None, "negation": None},
    "score": {"pair": {"model": "judge"}},
    "select": {"p_min": 0.9},
    "train": {},
}


def load(folder: Path, content: dict[str, Any], *overrides: str, **changes: Any) -> Recipe:
    path = folder / "r.yaml"
    content = {key: value for key, value in {**content, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return recipe_file.load(str(path), overrides)


def steps(folder: Path, content: dict[str, Any], **changes: Any) -> dict[str, Step]:
    recipe = load(folder, content, **changes)
    return {step.name: step for step in compile_steps(resolve(recipe))}


def fitted(**changes: Any) -> dict[str, Any]:
    return {"models": {"writer": {"fit_generator": {**FIT, **changes}}}}


def judge(**settings: Any) -> dict[str, Any]:
    return {"models": {"judge": {"fit_pair": settings}}}


NEW = "backbone: x/y, models: "
VAE = "fit_generator: {form: vaegpt, init"
OF_SMALL: list[tuple[str, ErrorKind, str]] = [
    (NEW + "{a: b, b: c, c: a}", "conflict", "models.a: a → b → c → a"),
    (NEW + "{a: {pretrain: {form: masked, init: b}}, b: a}", "conflict", "init: a → b → a"),
    (NEW + "{masked: {pretrain: {form: t5}}, b: maskd}", "unknown_name", "'maskd' 'masked'"),
    (NEW + "{previous: x/y}", "conflict", "models.previous:"),
    (NEW + "{first: x/y}", "conflict", "models.first:"),
    (NEW + "{a.b: x/y}", "bad_value", "'a.b'"),
    (NEW + "{a: {}}", "conflict", "models.a: pretrain"),
    (NEW + "{a: {take: x/y, pretrain: {form: masked}}}", "conflict", "models.a:"),
    (NEW + "{a: {pretrain: {form: t5, corpora: [nli]}}}", "unknown_name", "corpora: field"),
    (NEW + "{a: {pretrain: {form: t5, init: x/y, layers: 2}}}", "no_effect", "layers"),
    (
        NEW + f"{{a: {{{VAE}: b}}}}, b: {{pretrain: {{form: masked}}}}}}",
        "unfit_model",
        "models.a.fit_generator.init: masked causal",
    ),
    (
        NEW + f"{{a: {{{VAE}: x/y, judge: b}}}}, b: {{pretrain: {{form: masked}}}}}}",
        "unfit_model",
        "models.a.fit_generator.judge: masked causal",
    ),
    (
        NEW + f"{{a: {{pretrain: {{form: causal, init: b}}}}, b: {{{VAE}: x/y}}}}}}",
        "unfit_model",
        "models.a.pretrain.init: vaegpt",
    ),
    ("backbone: smal", "unknown_name", "'smal' 'small'"),
    ("backbone: 'packge:a/b'", "bad_value", "'packge:'"),
    # A recipe may make models alone, and then nothing else stands there.
    ("train: null, backbone: null, models: {other: x/y}", "missing_key", "train:"),
    ("backbone: null", "missing_key", "backbone:"),
]
FIT_WRITER = "models: {writer: {fit_generator: {form: gense, "
OF_GENSE: list[tuple[str, ErrorKind, str]] = [
    (FIT_WRITER + "init: x, batch_size: 2}}}", "bad_value", "fit_generator.batch_size"),
    (FIT_WRITER + "init: x, pairs: {corpora: [sts]}}}}", "conflict", "pairs.corpora: 'sts'"),
    (FIT_WRITER + "init: x, pairs: {corpora: [nl]}}}}", "unknown_name", "'nl' nli, sts"),
    (
        FIT_WRITER + "init: gpt}}, gpt: {pretrain: {form: causal}}}",
        "unfit_model",
        "models.writer.fit_generator.init: causal t5",
    ),
    ("models: {writer: {fit_generator: {init: x}}}", "missing_key", "fit_generator.form'"),
    (
        "models: {writer: {fit_generator: {form: t5, init: x, pairs: {corpora: [nli]}}}}, "
        "synthesise: {paraphrase: {generator: t5}}",
        "unfit_model",
        "score.gense.model: 'writer'",
    ),
    ("synthesise: {paraphrase: {generator: t5}}", "unfit_model", "paraphrase.generator: 't5'"),
    (
        "synthesise: {entailment: {generator: t5, prompt: own.jinja}}",
        "conflict",
        "synthesise.entailment.prompt: prompts.entailment",
    ),
    (
        "score: {gense: {model: writer, question: {before: 'If '}}}",
        "no_effect",
        "score.gense.question: fit_generator.question",
    ),
    ("generators: {t5: {model: writer, temperature: 0}}", "conflict", "per_unit: 4"),
    ("measure_generators: {encoder: some/encoder}", "no_effect", "measure_generators:"),
]
HELD_OUT = (
    "corpora: [{name: nli, source: n, role: labelled, kind: entailment}, "
    "{name: dev, source: d, role: labelled, kind: entailment}, {name: field, source: f}], "
    "models: {judge: {fit_pair: "
)
OF_JUDGED: list[tuple[str, ErrorKind, str]] = [
    ("evaluator: null, synthesise: null, score: null, select: null", "missing_key", "evaluator:"),
    (
        "models: {judge: {fit_pair: {corpora: [field]}}}",
        "unknown_name",
        "fit_pair.corpora: nli, sts",
    ),
    ("models: {judge: {fit_pair: {}}}", "conflict", "models.judge.fit_pair: 'sts' entailment"),
    (
        "corpora: [{name: field, source: f}], models: {judge: {fit_pair: {}}}",
        "missing_key",
        "models.judge.fit_pair:",
    ),
    ("score: {pair: {model: some/encoder}}", "unfit_model", "score.pair.model: 'some/encoder'"),
    ("backbone: judge", "unfit_model", "backbone: 'judge'"),
    ("evaluator: {model: same}", "unfit_model", "evaluator.model: 'same'"),
    (
        "models: {judge: {fit_pair: {corpora: [nli]}}, own: {pretrain: {form: t5, init: judge}}}",
        "unfit_model",
        "models.own.pretrain.init:",
    ),
    (HELD_OUT + "{dev: [nobody]}}}", "unknown_name", "'nobody'"),
    (HELD_OUT + "{corpora: [nli, dev], dev: [dev]}}}", "conflict", "fit_pair.dev: 'dev'"),
    (HELD_OUT + "{dev: [nli, dev]}}}", "no_rows", "fit_pair.dev:"),
]
FAULTS = [
    (content, *row)
    for content, rows in ((SMALL, OF_SMALL), (GENSE, OF_GENSE), (JUDGED, OF_JUDGED))
    for row in rows
]


@pytest.mark.parametrize(("content", "changes", "kind", "names"), FAULTS)
def test_a_fault_names_its_line_and_key(
    tmp_path: Path, content: dict[str, Any], changes: str, kind: ErrorKind, names: str
) -> None:
    with fails(kind, f"{tmp_path}/r.yaml:", *names.split()):
        load(tmp_path, content, **yaml.safe_load(f"{{{changes}}}"))


def test_a_string_is_a_model_that_is_taken(tmp_path: Path) -> None:
    found = load(tmp_path, SMALL).models
    assert (found["other"].maker, found["other"].take) == (None, "small")
    assert found["small"].maker == "pretrain"
    with fails("unknown_name", "phases.0.backbone", "'small'"):
        load(tmp_path, SMALL, "train.phases.0.backbone=smal")


def test_prefixes_and_paths_are_no_names_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    for name in ("package:a/b", "tag:best", str(tmp_path / "a:b"), "./none:there"):
        assert load(tmp_path, SMALL, backbone=name).backbone == name


def test_steps_take_the_place_of_tokens(tmp_path: Path) -> None:
    made = load(tmp_path, SMALL, "models.small.pretrain.steps=7").models["small"].pretrain
    assert made is not None
    assert (made.steps, made.tokens) == (7, None)
    recipe = load(tmp_path, SMALL, train=None, backbone=None)
    assert recipe.train.phases == ()


def test_a_corpus_to_pretrain_on_gives_no_anchors(tmp_path: Path) -> None:
    assert [corpus.name for corpus in load(tmp_path, SMALL).unlabelled] == ["field"]
    with fails("no_effect", "'wiki'"):
        load(tmp_path, SMALL, "train.phases.0.rows={from: anchors, corpora: [wiki]}")
    with fails("bad_value", "query"):
        load(tmp_path, SMALL, "corpora.1.query=a", "corpora.1.answer=b")


def test_one_model_writes_and_judges(tmp_path: Path) -> None:
    found = steps(tmp_path, GENSE, evaluate={"suite": "suite"})
    fit = found["fit_generator.writer"]
    assert fit.stage is fit_gense.STAGE
    assert fit.inputs == {"labelled": ("labelled",), "guarded_labelled": ("guard.labelled",)}
    assert fit.config.pairs.corpora == ("nli",)
    for method in ("entailment", "contradiction"):
        config: Any = found[f"synthesise.{method}"].config
        assert found[f"synthesise.{method}"].models == {"generator": Made("fit_generator.writer")}
        # It is asked in its own few words, not in those for a language model.
        assert config.params["prompt"] == str(wording.prompt_path(method))
        assert (config.decoding.top_p, config.decoding.beams) == (0.9, 1)
    score = found["score.gense"]
    assert score.models == {"model": Made("fit_generator.writer")}
    assert set(score.inputs) == {"candidates", "sentences"}
    assert found["select"].inputs["scores"] == ("score.evaluator", "score.gense")


def test_a_model_fitted_to_words_of_the_recipe_is_asked_in_them(tmp_path: Path) -> None:
    found = steps(tmp_path, GENSE, **fitted(prompts={"entailment": "own.jinja"}))
    prompts = [found[f"synthesise.{method}"].config for method in ("entailment", "contradiction")]
    asked = [config.params["prompt"] for config in prompts]
    assert asked == ["own.jinja", str(wording.prompt_path("contradiction"))]


def test_vllm_is_refused_before_anything_is_fitted(tmp_path: Path) -> None:
    served = {"t5": {"model": "writer", "backend": "vllm"}}
    with fails("unfit_model", "'t5'"):
        steps(tmp_path, GENSE, generators=served)


def test_a_language_model_is_asked_at_length(tmp_path: Path) -> None:
    llm = {"model": str(tmp_path)}
    found = steps(tmp_path, GENSE, llm=llm, synthesise={"entailment": None, "contradiction": None})
    config: Any = found["synthesise.entailment"].config
    assert config.params["prompt"] is None


def test_it_reads_the_evaluators_vectors_and_the_scorer_those_that_are_stored(
    tmp_path: Path,
) -> None:
    found = steps(tmp_path, JUDGED, embed={"max_length": 64})
    fit, score = found["fit_pair.judge"], found["score.pair"]
    assert fit.inputs == {"labelled": ("labelled",)}
    assert fit.models == {"evaluator": Weights("some/encoder")}
    assert (fit.config.corpora, fit.config.max_length) == (("nli",), 64)
    assert score.models == {"discriminator": Made("fit_pair.judge")}
    assert set(score.inputs) == {"candidates", "embeddings"}
    assert found["select"].inputs["scores"] == ("score.evaluator", "score.pair")
    order = list(found)
    assert order.index("fit_pair.judge") < order.index("score.pair") < order.index("select")


def test_a_bare_key_means_all_labelled_corpora(tmp_path: Path) -> None:
    found = steps(tmp_path, JUDGED, corpora=[FIELD, NLI], models={"judge": {"fit_pair": None}})
    assert found["fit_pair.judge"].config.corpora == ("nli",)


def test_a_recipe_may_make_the_discriminator_alone(tmp_path: Path) -> None:
    gone = dict.fromkeys(("synthesise", "score", "select", "backbone", "train"))
    made = list(steps(tmp_path, JUDGED, **gone))
    assert made == ["ingest", "sample", "labelled", "fit_pair.judge"]


def test_selection_reads_the_probability_where_something_asks_for_it(tmp_path: Path) -> None:
    for select in (
        {"prefer": "p_true"},
        {"relations": {"keeps": {"p_min": 0.5}}},
        {"methods": {"cutoff": {"p_min": 0.5}}},
    ):
        found = steps(tmp_path, JUDGED, select=select)
        assert "score.pair" in found["select"].inputs["scores"]
    plain = steps(tmp_path, JUDGED, select=None)["select"]
    assert plain.inputs["scores"] == ("score.evaluator",)


def test_the_name_of_the_discriminator_is_no_part_of_a_score(tmp_path: Path) -> None:
    found = steps(tmp_path, JUDGED, score={"pair": {"model": "same"}})["score.pair"]
    assert found.models == {"discriminator": Made("fit_pair.judge")}
    assert found.stage.locations == ("model",)


def test_a_dev_corpus_is_held_out_and_never_learnt_from_by_default(tmp_path: Path) -> None:
    found = steps(tmp_path, JUDGED, corpora=[FIELD, NLI, DEV], **judge(dev=["dev"]))
    config: Any = found["fit_pair.judge"].config
    assert (config.corpora, config.dev) == (("nli",), ("dev",))
