"""A recipe that cannot run is refused by the key at fault, before anything runs."""

import json
import shutil
from pathlib import Path

import pytest
from failures import fails
from spoilt_models import spoilt
from tiny_generators import tiny_causal
from tiny_run import Tiny

from tercet.errors import ErrorKind
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare

# What the rows below abbreviate; FOLDER, BACKBONE and LLM are paths.
SHORT = {
    "ASKED": "synthesise={rewrite: }",
    "WITH_LLM": "synthesise={rewrite: } & llm={model: LLM}",
    "SMALL": "generators={small: {model: FOLDER/writer}}",
    "COUNTS": "models={counts: {count_tokens: {tokenizer: BACKBONE}}}",
    "REBUILT": "{rows: anchors, loss: token_reconstruction, models: {frequencies: counts}}",
    "PRETRAINED": "{pretrain: {form: masked, steps: 4}}",
    "CNN": "{name: token_cnn, channels: 8, filters: 2}",
}
# Overrides of the tiny recipe; the kind of the failure and what it names.
REFUSED: list[tuple[str, ErrorKind, str]] = [
    ("ASKED", "missing_key", "synthesise.rewrite: "),
    ("ASKED & llm={name: x}", "missing_key", "run.llm.endpoints"),
    ("ASKED & llm={model: LLM, name: x}", "conflict", "llm: "),
    ("ASKED & llm={model: FOLDER/nowhere}", "missing_file", "nowhere"),
    ("ASKED & llm={model: FOLDER/bare}", "unreadable", "safetensors"),
    ("WITH_LLM & extract_generate={types: [place, Place]}", "bad_value", "'Place'"),
    ("WITH_LLM & extract={lexicon: x} & extract_generate={}", "conflict", "extract"),
    ("WITH_LLM & run.llm={max_cost: 3}", "missing_key", "price_in"),
    ("WITH_LLM & run.llm={endpoints: ['127.0.0.1:8000']}", "bad_value", "endpoint"),
    (
        "llm={model: LLM} & synthesise={rewrite: {per_unit: 3, temperature: 0}}",
        "conflict",
        "synthesise.rewrite.per_unit: ",
    ),
    (
        "ASKED & llm={name: x, dtype: bfloat16} & run.llm.endpoints=[http://127.0.0.1:9/v1]",
        "no_effect",
        "`dtype`",
    ),
    (
        "ASKED & llm={model: LLM, api: completions, template_kwargs: {thinking: false}}",
        "no_effect",
        "`template_kwargs`",
    ),
    ("SMALL & synthesise={paraphrase: {generator: big}}", "unknown_name", "llm, small"),
    ("SMALL & synthesise={rewrite: {generator: small}}", "unfit_model", "'small'"),
    ("generators={llm: {model: x}}", "conflict", "generators.llm: "),
    (
        "generators={small: {model: ./nowhere}} & synthesise={paraphrase: {generator: small}}",
        "missing_file",
        "generators.small: ",
    ),
    (
        "generators={small: {model: BACKBONE}} & synthesise={paraphrase: {generator: small}}",
        "unfit_model",
        "generator.json",
    ),
    (
        "models={writer: {fit_generator: {form: causal, init: FOLDER/writer, "
        "pairs: {corpora: [prose]}}}} & generators={small: {model: writer}} & "
        "synthesise={rewrite: {generator: small}}",
        "unfit_model",
        "'small'",
    ),
    (
        "generators={t5: {model: FOLDER/writer}} & synthesise={entailment: {generator: t5}}",
        "unfit_model",
        "entailment",
    ),
    ("train.phases=[{rows: anchors, loss: token_reconstruction}]", "missing_key", "frequencies"),
    ("COUNTS & backbone=counts", "unfit_model", "backbone: 'counts'"),
    (
        "models={counts: {count_tokens: {tokenizer: x}}, "
        "again: {count_tokens: {tokenizer: counts}}}",
        "unfit_model",
        "models.again.count_tokens.tokenizer: ",
    ),
    (
        "models={counts: {count_tokens: {tokenizer: x, corpora: [nowhere]}}}",
        "unknown_name",
        "models.counts.count_tokens.corpora: ",
    ),
    (
        "models={counts: PRETRAINED} & train.phases=[REBUILT]",
        "unfit_model",
        "train.phases.0.models.frequencies: ",
    ),
    (
        "COUNTS & train={pooling: CNN, phases: [REBUILT]} & evaluate.pooling=token_cnn",
        "conflict",
        "evaluate.pooling: ",
    ),
    ("COUNTS & train={pooling: mean, phases: [REBUILT]}", "conflict", "train.pooling: "),
    ("evaluate.pooling={name: token_cnn, chanels: 3}", "bad_value", "evaluate.pooling: chanels"),
    ("awareness={teacher: BACKBONE}", "conflict", "awareness.teacher: "),
    ("seeds=2 & seed=4294967295", "bad_value", "seeds: "),
    ("models={bad: {pretrain: {form: causal, init: BACKBONE}}}", "unfit_model", "pretrain.bad: "),
    ("models={bad: {pretrain: {form: masked, init: FOLDER/custom}}}", "unfit_model", "auto_map"),
    (
        "models={small: PRETRAINED, bad: {pretrain: {form: t5, init: small}}}",
        "unfit_model",
        "models.bad.pretrain.init: ",
    ),
    (
        "corpora=[{name: lines, source: FOLDER/terms.jsonl, text: gloss}, {name: terms, "
        "source: FOLDER/terms.jsonl, role: labelled, kind: definitions}] & "
        "train.phases=[{rows: terms, loss: {name: definition, entries: cls}, "
        "models: {entry_matrix: base}}]",
        "missing_column",
        "'headword', 'gloss'",
    ),
]


@pytest.fixture(scope="module")
def folder(tiny_backbone: Path, tiny_llm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the recipes name."""
    made = tmp_path_factory.mktemp("refused")
    (made / "terms.jsonl").write_text(json.dumps({"headword": "a", "gloss": "a letter"}) + "\n")
    (made / "bare").mkdir()
    shutil.copy(tiny_llm / "config.json", made / "bare")
    tiny_causal(made / "writer", ["a", "b"])
    spoilt(tiny_backbone, "custom", made).rename(made / "custom")
    return made


@pytest.mark.parametrize(("overrides", "kind", "name"), REFUSED)
def test_a_recipe_that_cannot_run_names_what_is_at_fault(
    overrides: str,
    kind: ErrorKind,
    name: str,
    tiny: Tiny,
    tiny_llm: Path,
    folder: Path,
    tmp_path: Path,
) -> None:
    paths = {"FOLDER": folder, "BACKBONE": tiny.backbone, "LLM": tiny_llm}
    for short, text in {**SHORT, **paths}.items():
        overrides = overrides.replace(short, str(text))
    # The tiny recipe's bounds of a method that most of these do without.
    typed = ("select.methods={}", *overrides.split(" & "))
    store = tmp_path / "store"
    with fails(kind, name) as error:
        prepare(RunArguments(str(tiny.recipe), str(store), typed))
    assert "\n" not in str(error.value)
    assert not store.exists()
    assert not list(folder.rglob("ran"))
