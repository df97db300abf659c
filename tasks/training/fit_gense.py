"""Stage `fit_generator`, form `gense`: fits one T5 to write and judge, from labelled pairs."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pydantic import Field

from tercet.errors import kind_of
from tercet.models.discriminators import Platt, fitted_platt
from tercet.models.generators import layout as layouts
from tercet.models.pretraining.forms import form_fault
from tercet.models.prompted import templates
from tercet.models.t5 import wording
from tercet.models.t5.wording import Question, Words
from tercet.tasks.stage import BadInput, Config, Stage, Work
from tercet.tasks.training.discriminator_figures import (
    DISCRIMINATOR_METRICS,
    OWN,
    RELIABILITY,
    emit_figures,
)
from tercet.tasks.training.fitting import (
    TRAINING_LOG,
    WEIGHT_DECAY,
    FittedGenerator,
    hyperparameters_of,
    log_table,
    setting_of,
)
from tercet.tasks.training.judged_pairs import Judged, JudgedConfig, labels_of, read_judged

if TYPE_CHECKING:
    from tercet.models.t5.fitting import Gense

# The methods for which a model of this form writes.
METHODS = tuple(wording.builtin_templates())


class GensePairs(JudgedConfig):
    """The pairs from which the model learns."""

    max_validation: int = Field(
        default=1024, ge=10, description="Held-out pairs by which a step is chosen, by seed."
    )


class GensePrompts(Config):
    """The model's prompts for writing, each a prompt file of words around `{{ sentence }}`."""

    entailment: str | None = Field(
        default=None, min_length=1, description="To write what follows; null: ours."
    )
    contradiction: str | None = Field(
        default=None, min_length=1, description="To write what contradicts; null: ours."
    )

    def path(self, method: str) -> Path:
        """The method's prompt file."""
        prompt = getattr(self, method)
        return wording.prompt_path(method) if prompt is None else Path(prompt)


class FitGenseConfig(FittedGenerator):
    """The model to start from, and how it is fitted.

    Rate, batch, epochs and `choose_every` are the paper's (GenSE, section 3.1), which names no
    optimizer, warm-up or length. The public code has Adafactor, whose rate is constant and then
    falls, and cuts each sentence at 96 tokens and each written text at 48.
    """

    form: Literal["gense"] = Field(
        description="A GPT-2 with fading latent noise and a frozen judge; a causal language "
        "model; an encoder and a decoder. These two learn by cross-entropy alone. "
        "`gense`: a T5 that writes what follows from a sentence and what contradicts "
        "it, and judges pairs"
    )
    pairs: GensePairs = Field(
        GensePairs(),
        description="What becomes a pair of source and target; for `gense`, of a sentence and "
        "what follows or contradicts",
    )
    prompts: GensePrompts = Field(
        GensePrompts(), description="The words in which it learns to write"
    )
    question: Words = Field(default=Words(), description="Its words for judging.")
    max_length: int = Field(
        default=96, ge=8, le=8192, description="Tokens of a prompt, and of an answer."
    )
    batch_size: int = Field(
        default=256, ge=4, le=65_536, description="Examples; half of them write, half judge."
    )
    learning_rate: float = Field(
        default=5e-5,
        gt=0.0,
        le=1.0,
        description="For the small models that are made here; a larger checkpoint wants less, and "
        "the paper's 5e-7 changes next to nothing",
    )
    choose_every: int = Field(
        default=500, ge=1, description="Steps between two measurements on held-out pairs."
    )


def check_model(config: FitGenseConfig, slot: str, folder: Path) -> None:
    """Raises BadInput if the model in this directory is not a T5."""
    if fault := form_fault(folder, "t5"):
        fault = fault.replace("form: t5", "form: gense")
        raise BadInput(
            "unfit_model",
            f"fit_generator.{config.name}: the model at {folder} cannot be its {slot}: {fault}.",
        )


def externals(config: FitGenseConfig) -> dict[str, Path]:
    """The recipe's prompt files. Raises Unusable, or BadInput for a prompt of more than words."""
    methods = [method for method in METHODS if getattr(config.prompts, method) is not None]
    for method in methods:
        templates.load(config.prompts.path(method), ("sentence",))
        _template(config, method)
    return {f"prompts.{method}": config.prompts.path(method) for method in methods}


def _template(config: FitGenseConfig, method: str) -> str:
    try:
        return wording.template_in(config.prompts.path(method))
    except ValueError as error:
        raise BadInput(
            kind_of(error, "unfit_model"), f"fit_generator.{config.name}.prompts.{method}: {error}."
        ) from None


def run(work: Work) -> Path:
    """Fits the model; returns the directory of a generator and judge.

    Emits `training_log`, and `discriminator_metrics` and `reliability` of its judgement on held-out
    anchors. Slots: labelled, guarded_labelled; the model init.
    """
    config: FitGenseConfig = work.config
    stage = f"fit_generator: {config.name}"
    pairs = read_judged(work, config.pairs, stage)
    check_model(config, "init", work.models["init"])
    from tercet.models.t5 import fitting
    from tercet.models.training import loop

    # Rows are sorted by a digest, so the first rows are a random sample.
    chosen_by = pairs.validation.slice(0, config.pairs.max_validation)
    prompts = {method: _template(config, method) for method in METHODS}
    question = Question(
        max_length=config.max_length, templates=prompts, **config.question.model_dump()
    )
    try:
        gense = fitting.opened(work.models["init"], question)
        choice = fitting.choice(gense, chosen_by, config.choose_every, config.batch_size)
        hyper = hyperparameters_of(config, weight_decay=WEIGHT_DECAY)
        setting = setting_of(work, config, choice)
        log = fitting.fit(gense, pairs.fit, hyper, setting, config.optimizer)
    except (ValueError, loop.NothingToChoose) as error:
        raise BadInput(kind_of(error, "unfit_model"), f"{stage}: {error}") from error
    work.emit("training_log", log_table(log, config.name, work.seed))
    platt = _measured(work, gense, pairs)
    question = gense.question.model_copy(update={"slope": platt.slope, "shift": platt.shift})
    directory = work.scratch / "model"
    layouts.save(directory, gense.model, gense.tokenizer, gense.layout)
    wording.write(directory, question)
    return directory


def _measured(work: Work, gense: "Gense", pairs: Judged) -> Platt:
    """Calibrates the judgement on the validation pairs, and emits its figures on the test pairs."""
    from tercet.models.t5 import fitting

    config: FitGenseConfig = work.config
    validation = fitting.judged(gense, pairs.validation, config.batch_size)
    platt = fitted_platt(validation, labels_of(pairs.validation))
    logits = fitting.judged(gense, pairs.test, config.batch_size)
    emit_figures(work, config.name, pairs, logits, platt)
    _emit_perplexity(work, gense, pairs.test)
    return platt


def _emit_perplexity(work: Work, gense: "Gense", test: pa.Table) -> None:
    """Emits the perplexity of the texts that it should write for the test anchors."""
    from tercet.models.t5 import fitting

    config: FitGenseConfig = work.config
    row = {
        "discriminator": config.name,
        "arm": OWN,
        "subset": "all",
        "metric": "perplexity",
        "value": fitting.perplexity(gense, test, config.batch_size),
        "pairs": test.num_rows,
        "anchors": len(test["anchor"].unique()),
        "seed": work.seed,
    }
    work.emit("discriminator_metrics", pa.Table.from_pylist([row], schema=DISCRIMINATOR_METRICS))


STAGE = Stage(
    name="fit_generator",
    config=FitGenseConfig,
    tables={
        "training_log": TRAINING_LOG,
        "discriminator_metrics": DISCRIMINATOR_METRICS,
        "reliability": RELIABILITY,
    },
    run=run,
    model=True,
    libraries=("torch", "transformers"),
    externals=externals,
    locations=("init", *(f"prompts.{method}" for method in METHODS)),
    check_model=check_model,
)
