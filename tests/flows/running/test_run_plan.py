"""A recipe that cannot run is refused by the key at fault, before anything runs."""

import json
import shutil
from pathlib import Path

import pytest
from spoilt_models import spoilt
from tiny_generators import tiny_causal
from tiny_run import Tiny

from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.models.errors import Unusable
from tercet.tasks.stage import BadInput

REWRITE = "synthesise={rewrite: }"
ENDPOINT = "run.llm.endpoints=[http://127.0.0.1:9/v1]"
SMALL = "generators={small: {model: FOLDER/writer}}"
COUNTS = "models={counts: {count_tokens: {tokenizer: BACKBONE}}}"
CNN = "{name: token_cnn, channels: 8, filters: 2}"
REBUILT = "{rows: anchors, loss: token_reconstruction, models: {frequencies: counts}}"
PRETRAINED = "{pretrain: {form: masked, steps: 4}}"

# Overrides of the tiny recipe, in which FOLDER, BACKBONE and LLM stand for paths; words of what is
# said.
REFUSED: dict[str, tuple[list[str], str]] = {
    "no language model": ([REWRITE], "name it under `llm`"),
    "a name without endpoint": ([REWRITE, "llm={name: x}"], r"run\.llm\.endpoints"),
    "model and name": ([REWRITE, "llm={model: LLM, name: x}"], "either `model` or `name`"),
    "no model there": ([REWRITE, "llm={model: FOLDER/nowhere}"], "nowhere"),
    "no weights": ([REWRITE, "llm={model: FOLDER/bare}"], "safetensors"),
    "no types": ([REWRITE, "llm={model: LLM}", "extract_generate={types: []}"], "types"),
    "a type twice": (
        [REWRITE, "llm={model: LLM}", "extract_generate={types: [place, Place]}"],
        "twice",
    ),
    "two extractions": (
        [REWRITE, "llm={model: LLM}", "extract={names: false}", "extract_generate={}"],
        "either rules extract",
    ),
    "cost without price": ([REWRITE, "llm={model: LLM}", "run.llm={max_cost: 3}"], "price_in"),
    "no address": (
        [REWRITE, "llm={model: LLM}", "run.llm={endpoints: ['127.0.0.1:8000']}"],
        "not an http",
    ),
    "one answer thrice": (
        ["llm={model: LLM}", "synthesise={rewrite: {per_unit: 3, temperature: 0}}"],
        "same answer 3 times",
    ),
    "dtype of an endpoint": (
        [REWRITE, "llm={name: x, dtype: bfloat16}", ENDPOINT],
        "belongs to `model`",
    ),
    "template of a base model": (
        [REWRITE, "llm={model: LLM, api: completions, template_kwargs: {thinking: false}}"],
        "belongs to `api: chat`",
    ),
    "no such generator": (
        [SMALL, "synthesise={paraphrase: {generator: big}}"],
        "choose one of llm, small",
    ),
    "instructions for a generator": (
        [SMALL, "synthesise={rewrite: {generator: small}}"],
        "rewrite needs instructions",
    ),
    "a prompt for a generator": (
        [SMALL, "synthesise={paraphrase: {generator: small, prompt: own.jinja}}"],
        "would not be read",
    ),
    "a generator called llm": (["generators={llm: {model: x}}"], "give the generator"),
    "no generator there": (
        ["generators={small: {model: ./nowhere}}", "synthesise={paraphrase: {generator: small}}"],
        r"generators\.small: There is no model",
    ),
    "an encoder as a generator": (
        ["generators={small: {model: BACKBONE}}", "synthesise={paraphrase: {generator: small}}"],
        r"has no generator\.json",
    ),
    "instructions for a made generator": (
        [
            "models={writer: {fit_generator: "
            "{form: causal, init: FOLDER/writer, pairs: {corpora: [prose]}}}}",
            "generators={small: {model: writer}}",
            "synthesise={rewrite: {generator: small}}",
        ],
        "rewrite needs instructions",
    ),
    "a generator without wording": (
        ["generators={t5: {model: FOLDER/writer}}", "synthesise={entailment: {generator: t5}}"],
        "entailment",
    ),
    "frequencies of nothing": (
        ["train.phases=[{rows: anchors, loss: token_reconstruction}]"],
        "reads the model frequencies: name it",
    ),
    "a count as the backbone": ([COUNTS, "backbone=counts"], "'counts' counts tokens"),
    "a count as a tokenizer": (
        [
            "models={counts: {count_tokens: {tokenizer: x}}, "
            "again: {count_tokens: {tokenizer: counts}}}"
        ],
        r"models\.again\.count_tokens\.tokenizer: 'counts' counts tokens",
    ),
    "a count of no corpus": (
        ["models={counts: {count_tokens: {tokenizer: x, corpora: [nowhere]}}}"],
        "no corpus 'nowhere'",
    ),
    "a model as frequencies": (
        [f"models={{counts: {PRETRAINED}}}", f"train.phases=[{REBUILT}]"],
        "is a model, but the loss reads",
    ),
    "a count without tokenizer": (["models={counts: {count_tokens: {}}}"], "tokenizer' is missing"),
    "two numbers of a pooling": (
        [COUNTS, f"train={{pooling: {CNN}, phases: [{REBUILT}]}}", "evaluate.pooling=token_cnn"],
        r"evaluate\.pooling: token_cnn has other numbers",
    ),
    "a loss of another pooling": (
        [COUNTS, f"train={{pooling: mean, phases: [{REBUILT}]}}"],
        r"train\.pooling: the loss token_reconstruction",
    ),
    "a slip in a pooling": (["evaluate.pooling={name: token_cnn, chanels: 3}"], "chanels"),
    "a pooling out of range": (
        ["train.pooling={name: token_cnn, channels: 1}"],
        r"train\.pooling: channels",
    ),
    "no teacher": (["awareness={}"], r"awareness\.teacher"),
    "no rows of awareness": (["awareness={teacher: x, rows: 0}"], r"awareness\.rows"),
    "awareness without dev": (
        ["awareness={teacher: x}", "ingest.dev=0"],
        "needs dev sentences",
    ),
    "awareness of oneself": (["awareness={teacher: BACKBONE}"], "they always agree"),
    "no seeds": (["seeds=0"], "seeds is 0"),
    "half a seed": (["seeds=2.5"], r"seeds is 2\.5"),
    "seeds beyond the last": (["seeds=2", f"seed={2**32 - 1}"], "must be at most 2"),
    "an init of another form": (
        ["models={bad: {pretrain: {form: causal, init: BACKBONE}}}"],
        "form: causal needs a decoder",
    ),
    "an init with code": (
        ["models={bad: {pretrain: {form: masked, init: FOLDER/custom}}}"],
        "auto_map",
    ),
    "an init still to be made": (
        [f"models={{small: {PRETRAINED}, bad: {{pretrain: {{form: t5, init: small}}}}}}"],
        r"models\.bad\.pretrain\.init: the model 'small'",
    ),
    "a dictionary in no known form": (
        [
            "corpora=[{name: lines, source: FOLDER/terms.jsonl, text: gloss}, "
            "{name: terms, source: FOLDER/terms.jsonl, role: labelled, kind: definitions}]",
            "train.phases=[{rows: terms, loss: {name: definition, entries: cls}, "
            "models: {entry_matrix: base}}]",
        ],
        "'headword', 'gloss'",
    ),
}


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


@pytest.mark.parametrize("case", REFUSED)
def test_a_recipe_that_cannot_run_names_what_is_at_fault(
    case: str, tiny: Tiny, tiny_llm: Path, folder: Path, tmp_path: Path
) -> None:
    overrides, words = REFUSED[case]
    for name, path in {"FOLDER": folder, "BACKBONE": tiny.backbone, "LLM": tiny_llm}.items():
        overrides = [override.replace(name, str(path)) for override in overrides]
    # The tiny recipe's bounds of a method that most of these do without.
    overrides = ["select.methods={}", *overrides]
    store = tmp_path / "store"
    with pytest.raises((BadInput, Unusable), match=words) as error:
        prepare(RunArguments(str(tiny.recipe), str(store), tuple(overrides)))
    assert "\n" not in str(error.value)
    assert not store.exists()
    assert not list(folder.rglob("ran"))
