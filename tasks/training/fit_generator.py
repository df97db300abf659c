"""Stage `fit_generator`: a model that rewrites sentences, fitted to pairs of source and target."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from tercet.errors import InvalidSetting, kind_of
from tercet.models.generators import layout as layouts
from tercet.models.generators.layout import Layout
from tercet.models.machine import computed_in
from tercet.models.pretraining import forms as pretraining
from tercet.models.vaegpt.settings import VaeGptHyperparameters
from tercet.tasks.stage import BadInput, Stage, Work
from tercet.tasks.training.fitting import (
    TRAINING_LOG,
    WEIGHT_DECAY,
    FittedGenerator,
    hyperparameters_of,
    log_table,
    setting_of,
)
from tercet.tasks.training.generator_pairs import PairsConfig, read_pairs

if TYPE_CHECKING:
    from tercet.models.training.fit_generator import Fitted, Objective

Form: TypeAlias = Literal["vaegpt", "causal", "t5"]
_VAEGPT = "tercet.models.vaegpt.fitting"


class FitGeneratorConfig(FittedGenerator):
    """The model to start from, how it is fitted, and in which words it is asked."""

    form: Form = Field(
        description="vaegpt: a GPT-2 with latent noise and a frozen judge; causal: a language "
        "model by cross-entropy; t5: the same with an encoder and a decoder."
    )
    judge: str | None = Field(
        default=None,
        min_length=1,
        description="A GPT-2 of the same vocabulary that judges for the form vaegpt; null: init.",
    )
    pairs: PairsConfig = Field(
        PairsConfig(),
        description="What becomes a pair of source and target; for `gense`, of a sentence and "
        "what follows or contradicts",
    )
    vaegpt: VaeGptHyperparameters = Field(
        default=VaeGptHyperparameters(), description="Noise and losses of the form vaegpt."
    )
    max_length: int = Field(
        default=128, ge=8, le=8192, description="Tokens of source and target; of t5, of each."
    )
    batch_size: int = Field(
        default=32,
        ge=2,
        le=65_536,
        description="Pairs a step; of `gense` examples, half of which judge",
    )
    learning_rate: float = Field(
        default=1e-3,
        gt=0.0,
        le=1.0,
        description="For the small models that are made here; a larger checkpoint wants less, and "
        "the paper's 5e-7 changes next to nothing",
    )
    choose_every: int = Field(
        default=100, ge=1, description="Steps between two measurements of the held-out ROUGE."
    )

    @model_validator(mode="after")
    def _of_the_form(self) -> "FitGeneratorConfig":
        if self.form != "vaegpt" and self.vaegpt != VaeGptHyperparameters():
            raise InvalidSetting(
                "no_effect", f"the key vaegpt is not for the form {self.form}: leave it out"
            )
        if self.judge is not None and self.form != "vaegpt":
            raise InvalidSetting(
                "no_effect", f"a model of form {self.form} has no judge: leave judge out"
            )
        return self

    @property
    def writes_with_noise(self) -> bool:
        """Whether the fitted model writes another text each time, even without drawing tokens."""
        return self.form == "vaegpt" and self.vaegpt.noise_weight > 0

    def models(self) -> dict[str, str]:
        """The models that are read, by slot."""
        return super().models() | ({} if self.judge is None else {"judge": self.judge})


def check_model(config: FitGeneratorConfig, slot: str, folder: Path) -> None:
    """Raises BadInput if the model in this directory cannot be the init or the judge."""
    form: pretraining.Form = "t5" if config.form == "t5" else "causal"
    if fault := pretraining.form_fault(folder, form) or _unfit(folder, config):
        fault = fault.replace(f"form: {form}", f"form: {config.form}")
        raise BadInput(
            "unfit_model",
            f"fit_generator.{config.name}: the model at {folder} cannot be its {slot}: {fault}.",
        )


def _unfit(folder: Path, config: FitGeneratorConfig) -> str | None:
    model_config = pretraining.described(folder)
    kind, places = model_config.get("model_type"), model_config.get("n_positions")
    if config.form == "vaegpt" and kind != "gpt2":
        return f"it is a {kind}, but form: vaegpt needs a GPT-2"
    if kind == "gpt2" and isinstance(places, int) and config.max_length > places:
        return f"it has {places} positions, and max_length is {config.max_length}"
    return None


def run(work: Work) -> Path:
    """Fits the generator; returns its directory, emits `training_log`."""
    config: FitGeneratorConfig = work.config
    rows, held_out = read_pairs(work, config.pairs, f"fit_generator: {config.name}")
    from tercet.models.training import fit_generator, loop

    try:
        fitted = _opened(work, config)
        choice = fit_generator.choice_by_rouge(
            fitted, held_out, config.choose_every, config.batch_size
        )
        hyper = hyperparameters_of(config, weight_decay=WEIGHT_DECAY)
        setting = setting_of(work, config, choice)
        log = fit_generator.fit(fitted, rows, hyper, setting, config.optimizer)
    except (ValueError, loop.NothingToChoose) as error:
        raise BadInput(
            kind_of(error, "unfit_model"), f"fit_generator: {config.name}: {error}"
        ) from error
    work.emit("training_log", log_table(log, config.name, work.seed))
    return layouts.save(work.scratch / "model", fitted.model, fitted.tokenizer, fitted.layout)


def _opened(work: Work, config: FitGeneratorConfig) -> "Fitted":
    """The model with its objective, tokenizer and layout. Raises ValueError."""
    import torch

    from tercet.models import pretrained
    from tercet.models.training import fit_generator
    from tercet.models.training.fit_generator import Fitted
    from tercet.models.training.loop import phase_seed

    init = work.models["init"]
    tokenizer = pretrained.load_tokenizer(init)
    # For the initial weights of latent heads.
    torch.manual_seed(phase_seed(work.seed, config.name))
    model: Any
    objective: Objective
    if config.form == "vaegpt":
        from tercet.models.vaegpt import fitting

        device, judge = work.resources.device, work.models.get("judge")
        bf16 = computed_in(config.precision, device) == "bf16"
        model, objective = fitting.load_vaegpt(init, config.vaegpt, device, bf16, judge)
    elif config.form == "causal":
        model, objective = fit_generator.load_causal(init)
    else:
        model, objective = fit_generator.load_t5(init)
    positions = getattr(model.config, "max_position_embeddings", None)
    if config.form != "t5" and positions and config.max_length > positions:
        raise ValueError(
            f"max_length is {config.max_length}, and the model has {positions} positions: lower it"
        )
    separator = None if config.form == "t5" else tokenizer.sep_token or tokenizer.eos_token
    layout = Layout(form=config.form, separator=separator, max_length=config.max_length)
    return Fitted(model, tokenizer, layout, objective)


def uses(config: FitGeneratorConfig) -> list[object]:
    """The code of form vaegpt, on which only that form depends."""
    return [_VAEGPT] if config.form == "vaegpt" else []


STAGE = Stage(
    name="fit_generator",
    config=FitGeneratorConfig,
    tables={"training_log": TRAINING_LOG},
    run=run,
    model=True,
    libraries=("torch", "transformers"),
    uses=uses,
    apart=(_VAEGPT,),
    # The step's models and inputs identify models and corpora by content, so their names do not
    # count.
    locations=("init", "judge", "pairs.corpora"),
    check_model=check_model,
)
