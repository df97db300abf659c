"""The recipe: all settings that decide a run's result, as pydantic models."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models.encoders.settings import Prompts
from tercet.models.generators.settings import GeneratorSettings
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.losses.registry import LOSSES
from tercet.tasks.config import WIRED, Need, description_of, marked, needs_of
from tercet.tasks.corpus.sample import SampleConfig
from tercet.tasks.corpus.sources.corpora import CorpusConfig, IngestConfig
from tercet.tasks.evaluation.awareness import AwarenessConfig
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.evaluation.measure_generators import MeasureGeneratorsConfig
from tercet.tasks.guarding import GuardConfig
from tercet.tasks.knowledge.extract import ExtractConfig
from tercet.tasks.knowledge.extract_generate import ExtractGenerateConfig
from tercet.tasks.knowledge.extract_parse import ExtractParseConfig
from tercet.tasks.knowledge.graph import GraphConfig
from tercet.tasks.retrieval.negatives import NegativesConfig
from tercet.tasks.scoring.embed import EmbedConfig
from tercet.tasks.scoring.mine import MineConfig
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.stage import Config
from tercet.tasks.synthesis.methods import METHOD_NAMES, SynthesiseConfig
from tercet.tasks.synthesis.parse import ParseConfig
from tercet.tasks.training.choose import ChooseConfig
from tercet.tasks.training.count_tokens import CountTokensConfig
from tercet.tasks.training.fit_evaluator import FitEvaluatorConfig
from tercet.tasks.training.fit_generator import FitGeneratorConfig
from tercet.tasks.training.fit_gense import FitGenseConfig
from tercet.tasks.training.fit_pair import FitPairConfig
from tercet.tasks.training.pretrain import PretrainConfig
from tercet.tasks.training.train_settings import CheckpointConfig, TrainConfig
from tercet.tasks.training.whiten import WhitenConfig

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=80)]
# GenSE's settings belong to a separate stage, so that other forms do not depend on them.
Generators = Annotated[FitGeneratorConfig | FitGenseConfig, Field(discriminator="form")]


class RunSettings(Config):
    """How a run is executed. Nothing here enters a fingerprint."""

    device: Literal["cpu", "cuda", "auto"] = Field(
        "auto", description="`auto`: the first GPU, or the CPU"
    )
    batch_size: int = Field(64, ge=1, le=65536, description="texts encoded at once")
    part_rows: int = Field(20_000, ge=100, description="rows per part in cheap stages")
    memory_limit: str = Field(
        "512MB",
        pattern=r"^\d+(\.\d+)?\s?(MB|GB|TB|MiB|GiB|TiB)$",
        description="Memory of the SQL inside stages",
    )
    workers: Annotated[int, Field(ge=1, le=256)] | str = Field(
        1,
        description="processes that share a stage's parts and several seeds, on GPUs one a card; "
        "`ray`: the workers of a Ray cluster",
    )
    retries: int = Field(0, ge=0, le=20, description="how often Prefect retries a failed stage")
    require: Literal["better", "not_worse"] | None = Field(
        None,
        description="The verdict without which a finished run ends with exit code 3 and moves no "
        "tag; `not_worse` is met by all but `worse`; null: none is required",
    )
    tag: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="A tag that a run moves to itself once its encoder is measured and `require` "
        "is met",
    )
    llm: AskingSettings = Field(AskingSettings(), description="How the language model is asked")


class ModelSettings(Config):
    """A model that the recipe takes, or the one stage that makes it.

    A new maker is one more field: its settings, whose `models()` gives the models that it reads,
    and its step in `tercet.flows.pipeline.compile`.
    """

    take: str | None = Field(
        None,
        min_length=1,
        description="A model that exists or that has another name here; a string alone means this.",
    )
    pretrain: PretrainConfig | None = Field(
        None, description="Language-model training on a corpus."
    )
    fit_generator: Generators | None = Field(
        None, description="A model that writes sentences, fitted to labelled ones."
    )
    fit_pair: FitPairConfig | None = Field(
        None,
        description="A discriminator on the evaluator's vectors: does one text follow from "
        "another?",
    )
    count_tokens: CountTokensConfig | None = Field(
        None, description="How often a tokenizer's tokens occur in a corpus, for a loss to read."
    )

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, content: Any) -> Any:
        if content == {"fit_pair": None}:
            # `fit_pair` needs no settings: all have defaults.
            return {"fit_pair": {}}
        return {"take": content} if isinstance(content, str) else content

    @model_validator(mode="after")
    def _one(self) -> "ModelSettings":
        if sum(value is not None for _, value in self) != 1:
            stages = ", ".join(name for name in type(self).model_fields if name != "take")
            raise InvalidSetting(
                "conflict",
                f"give one of: a model's name, or a stage that makes one ({stages})",
            )
        return self

    @property
    def maker(self) -> str | None:
        """The name of the stage that makes the model; None where it is taken."""
        return next((name for name, value in self if name != "take" and value is not None), None)

    @property
    def made(self) -> Any:
        """The settings of the stage that makes the model; None where it is taken."""
        return self.maker and getattr(self, self.maker)

    def models(self) -> dict[tuple[str, ...], str]:
        """The models that the settings name, by place below the settings."""
        if self.maker is None:
            return {("take",): self.take or ""}
        return {(self.maker, slot): name for slot, name in self.made.models().items()}


class EvaluatorSettings(Config):
    """The frozen model that scores candidates: an existing one, or one fitted on the corpus."""

    model: str | None = Field(None, description="directory, package:PACKAGE/FOLDER or hub name")
    fit: FitEvaluatorConfig | None = Field(None, description="unsupervised SimCSE on the corpus")

    @model_validator(mode="after")
    def _one(self) -> "EvaluatorSettings":
        if (self.model is None) == (self.fit is None):
            raise InvalidSetting("missing_key", "needs either `model` or `fit`")
        return self


class Recipe(Config):
    """One pipeline, from corpora to an evaluated encoder."""

    name: Name = Field(description="Names the runs; `--run NAME` is the newest of them")
    description: str = Field("", description="For people")
    seed: int = Field(
        42,
        ge=0,
        lt=2**32,
        description="Every random draw is a function of this seed, the row and the draw's purpose",
    )
    seeds: int = Field(
        1, ge=1, le=100, description="trainings on the same rows, with seed, seed + 1 and so on"
    )
    backbone: Annotated[str | None, Need("starts")] = Field(
        None, description="the model that training starts from; required with `train`"
    )
    corpora: list[CorpusConfig] = Field(min_length=1, description="Where text comes from")
    ingest: IngestConfig = Field(
        IngestConfig(), description="Which texts are used, the splits, and passages"
    )
    models: dict[str, ModelSettings] = Field(
        default_factory=dict,
        description="models that the recipe makes or takes, by names that stand wherever a model "
        "is named",
    )
    llm: LlmSettings | None = Field(None, description="the language model for prompted methods")
    generators: dict[str, GeneratorSettings] = Field(
        default_factory=dict, description="fitted models that answer prompted methods, by name"
    )
    extract: ExtractConfig = Field(
        ExtractConfig(), description="How rules find entities and quantities"
    )
    extract_generate: ExtractGenerateConfig | None = Field(
        None, description="extraction by the language model, in place of `extract`"
    )
    extract_parse: ExtractParseConfig = Field(
        ExtractParseConfig(), description="How its answers are read"
    )
    graph: GraphConfig = Field(
        GraphConfig(), description="Follows from the mentions, unless a version is kept"
    )
    sample: SampleConfig = Field(
        SampleConfig(), description="How many anchors, and how many passages"
    )
    synthesise: Annotated[dict[str, SynthesiseConfig], Need("trains")] = Field(
        default_factory=dict, description="methods, each with its weight and parameters"
    )
    parse: ParseConfig = Field(ParseConfig(), description="How long a generation may be")
    evaluator: Annotated[EvaluatorSettings | None, Need("judges")] = Field(
        None,
        description="The frozen model that scores candidates; required if anything is "
        "synthesised, unless a judge decides",
    )
    embed: EmbedConfig = Field(EmbedConfig(), description="How the evaluator encodes")
    mine: Annotated[MineConfig | None, Need("evaluator"), Need("topical")] = Field(
        None, description="negatives for rows on a topic, from the stored vectors; null: none"
    )
    score: dict[str, dict[str, Any] | None] = Field(
        default_factory=dict, description="scorers besides the evaluator, with their parameters"
    )
    select: SelectConfig = Field(SelectConfig(), description="Which candidates become triplets")
    negatives: NegativesConfig | None = Field(
        None, description="hard negatives of rows with a query, from all passages; null: none"
    )
    train: TrainConfig = Field(
        TrainConfig(phases=()),
        description="the encoder's training; left out, the recipe only makes its `models`, or "
        "whitens the backbone",
    )
    whiten: WhitenConfig | None = Field(
        None, description="whitening of the encoder's vectors; null: none"
    )
    choose: Annotated[ChooseConfig | None, Need("trains")] = Field(
        None,
        description="a choice by `evaluate.retrieval_sets` of how much of the training is shipped; "
        "null: all of it",
    )
    prompts: Prompts = Field(
        Prompts(), description="What stands before queries and documents of a search"
    )
    evaluate: EvaluateConfig = Field(
        EvaluateConfig(), description="What the encoder is measured on"
    )
    guard: GuardConfig = Field(
        GuardConfig(), description="removal of evaluation texts from the training rows"
    )
    awareness: Annotated[AwarenessConfig | None, Need("trains"), Need("dev")] = Field(
        None, description="test of whether encoders notice changed entities and quantities"
    )
    measure_generators: Annotated[MeasureGeneratorsConfig | None, Need("generators")] = Field(
        None, description="figures of the generators' paraphrases, beside simple controls"
    )
    run: RunSettings = Field(RunSettings(), description="How the recipe is run; changes no result")

    @model_validator(mode="before")
    @classmethod
    def _bare_methods(cls, content: Any) -> Any:
        """A bare `METHOD:` means its defaults; parameters are written beside `weight`."""
        if isinstance(content, dict) and isinstance(content.get("synthesise"), dict):
            methods = {k: _method(v) for k, v in content["synthesise"].items()}
            return {**content, "synthesise": methods}
        return content

    @property
    def unlabelled(self) -> tuple[CorpusConfig, ...]:
        """The corpora that give sentences."""
        return tuple(c for c in self.corpora if c.role not in ("labelled", "pretrain"))

    @property
    def labelled(self) -> tuple[CorpusConfig, ...]:
        """The corpora that give labelled rows."""
        return tuple(corpus for corpus in self.corpora if corpus.role == "labelled")

    @property
    def step_choices(self) -> dict[tuple[str, ...], CheckpointConfig]:
        """How the best step of a training is chosen, by the key that asks for it."""
        fit = None if self.evaluator is None else self.evaluator.fit
        trainings = {("train",): self.train, ("evaluator", "fit"): fit}
        return {
            (*place, "choose"): training.choose
            for place, training in trainings.items()
            if training is not None and training.choose is not None
        }


def _method(settings: Any) -> Any:
    if settings is None:
        return {}
    if not isinstance(settings, dict) or "params" in settings:
        return settings
    wired = marked(SynthesiseConfig, WIRED)
    shared = {
        key: settings[key]
        for key in SynthesiseConfig.model_fields
        if key in settings and key not in wired
    }
    params = {key: value for key, value in settings.items() if key not in shared}
    return {**shared, "params": params} if params else shared


def json_schema() -> dict[str, Any]:
    """The recipe's JSON schema, for editors."""
    schema = Recipe.model_json_schema()
    # A method may have no settings, or parameters of its own beside its weight (`_bare_methods`).
    schema["$defs"]["SynthesiseConfig"]["additionalProperties"] = True
    methods = schema["properties"]["synthesise"]
    methods["additionalProperties"] = {"anyOf": [methods["additionalProperties"], {"type": "null"}]}
    # Tercet's methods are listed by name, so that editors offer them; a recipe may name others.
    methods["properties"] = dict.fromkeys(sorted(METHOD_NAMES), methods["additionalProperties"])
    models = schema["properties"]["models"]
    models["additionalProperties"] = {"anyOf": [{"type": "string"}, models["additionalProperties"]]}
    _describe_losses(schema["$defs"])
    for kind in _kinds(Recipe):
        for name, field in kind.model_fields.items():
            if needs_of(field):
                place = schema if kind is Recipe else schema["$defs"][kind.__name__]
                place["properties"][name]["description"] = description_of(field)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Tercet recipe"
    return schema


def _kinds(annotation: Any) -> set[type[Config]]:
    """All models within a type."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        below = [_kinds(field.annotation) for field in annotation.model_fields.values()]
        return {annotation}.union(*below)
    return set[type[Config]]().union(*map(_kinds, get_args(annotation)))


def _describe_losses(definitions: dict[str, Any]) -> None:
    """Adds each loss with its own parameters; a phase's single part may be written flat."""
    forms: list[dict[str, Any]] = [{"enum": list(LOSSES), "type": "string"}]
    for name, loss in LOSSES.items():
        parameters = loss.params.model_json_schema()
        definitions.update(parameters.pop("$defs", {}))
        parameters["properties"] = {"name": {"const": name}, **parameters.get("properties", {})}
        definitions[f"Loss_{name}"] = {
            **parameters,
            "required": ["name", *parameters.get("required", [])],
        }
        forms.append({"$ref": f"#/$defs/Loss_{name}"})
    part = definitions["PartConfig"]["properties"]
    rows = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/RowsConfig"}]}
    part["loss"] = {"anyOf": forms, "description": part["loss"]["description"]}
    part["rows"] = {**rows, "description": part["rows"]["description"]}
    phase = definitions["PhaseConfig"]
    phase["properties"] |= {key: part[key] for key in ("rows", "loss", "models")}
    # Without parts, a phase has one part of defaults.
    phase["required"] = [key for key in phase.get("required", []) if key != "parts"]
