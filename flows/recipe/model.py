"""The recipe: everything that decides a run's result, as pydantic models."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from tercet.models.llm.settings import AskingSettings, LlmSettings
from tercet.tasks.corpus.ingest import CorpusConfig, IngestSettings
from tercet.tasks.corpus.sample import SampleSettings
from tercet.tasks.corpus.sources.corpora import PYDOCS
from tercet.tasks.evaluation.awareness import AwarenessSettings
from tercet.tasks.evaluation.evaluate import EvaluateSettings
from tercet.tasks.guarding.guard import GuardSettings
from tercet.tasks.knowledge.extract import ExtractConfig
from tercet.tasks.knowledge.extract_generate import ExtractGenerateSettings
from tercet.tasks.knowledge.extract_parse import ExtractParseSettings
from tercet.tasks.knowledge.graph import GraphConfig
from tercet.tasks.scoring.embed import EmbedConfig
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.stage import Config
from tercet.tasks.synthesis.parse import ParseConfig
from tercet.tasks.synthesis.synthesise import (
    METHOD_NAMES,
    PROMPTED_NAMES,
    MethodSettings,
    check_params,
)
from tercet.tasks.training.fit_evaluator import FitEvaluatorConfig
from tercet.tasks.training.train import TrainSettings


class Misplaced(ValueError):
    """A fault that a whole recipe shows, with the place in it where a person would mend it."""

    def __init__(self, message: str, *location: str | int) -> None:
        super().__init__(message)
        self.location = location


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=80)]


class RunSettings(Config):
    """How a run is executed. Nothing here enters a fingerprint."""

    device: Literal["cpu", "cuda", "auto"] = "auto"
    batch_size: int = Field(64, ge=1, le=65536, description="texts encoded at once")
    part_rows: int = Field(20_000, ge=100, description="rows of a part of the cheap stages")
    memory_limit: str = Field("2GB", pattern=r"^\d+(\.\d+)?\s?(MB|GB|TB|MiB|GiB|TiB)$")
    workers: int = Field(1, ge=1, le=256, description="processes that share a stage's parts")
    retries: int = Field(0, ge=0, le=20, description="times that Prefect retries a failed stage")
    llm: AskingSettings = AskingSettings()


class EvaluatorSettings(Config):
    """The frozen model that scores candidates: one that exists, or one fitted on the corpus."""

    model: str | None = Field(None, description="directory, package:PACKAGE/FOLDER or hub name")
    fit: FitEvaluatorConfig | None = Field(None, description="unsupervised SimCSE on the corpus")

    @model_validator(mode="after")
    def _one(self) -> "EvaluatorSettings":
        if (self.model is None) == (self.fit is None):
            raise ValueError("needs either `model` or `fit`")
        return self


class Recipe(Config):
    """One pipeline, from corpora to an evaluated encoder."""

    name: Name
    description: str = ""
    seed: int = Field(42, ge=0, lt=2**32)
    seeds: int = Field(
        1, ge=1, le=100, description="trainings over the same rows, with seed, seed + 1 and so on"
    )
    backbone: str = Field(description="the model that training starts from")
    corpora: list[CorpusConfig] = Field(min_length=1)
    ingest: IngestSettings = IngestSettings()
    llm: LlmSettings | None = Field(
        None, description="the language model that prompted methods ask"
    )
    extract: ExtractConfig = ExtractConfig()
    extract_generate: ExtractGenerateSettings | None = Field(
        None, description="the language model extracts, in the place of `extract`"
    )
    extract_parse: ExtractParseSettings = ExtractParseSettings()
    graph: GraphConfig = GraphConfig()
    sample: SampleSettings = SampleSettings()
    synthesise: dict[str, MethodSettings] = Field(
        default_factory=dict, description="method to its weight and parameters"
    )
    parse: ParseConfig = ParseConfig()
    evaluator: EvaluatorSettings | None = None
    embed: EmbedConfig = EmbedConfig()
    select: SelectConfig = SelectConfig()
    start: Literal["backbone", "evaluator"] = Field(
        "backbone", description="the weights that training starts from (GCSE: the evaluator's)"
    )
    train: TrainSettings
    evaluate: EvaluateSettings = EvaluateSettings()
    guard: GuardSettings = Field(
        GuardSettings(), description="against evaluation texts among those trained on"
    )
    awareness: AwarenessSettings | None = Field(
        None, description="whether encoders see entities and quantities, against a named teacher"
    )
    run: RunSettings = RunSettings()

    @model_validator(mode="before")
    @classmethod
    def _bare_methods(cls, content: Any) -> Any:
        """`METHOD:` alone means its defaults; a method's parameters stand beside `weight`."""
        if isinstance(content, dict) and isinstance(content.get("synthesise"), dict):
            methods = {k: _method(v) for k, v in content["synthesise"].items()}
            return {**content, "synthesise": methods}
        return content

    @model_validator(mode="after")
    def _consistent(self) -> "Recipe":
        if self.seed + self.seeds > 2**32:
            raise Misplaced("seed + seeds must be at most 2³²", "seeds")
        names = [corpus.name for corpus in self.corpora]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise Misplaced(f"two corpora have the same name, {name!r}", "corpora", index)
        for method, settings in self.synthesise.items():
            if method not in METHOD_NAMES:
                known = ", ".join(sorted(METHOD_NAMES))
                raise Misplaced(
                    f"there is no method {method!r} to synthesise with; known: {known}",
                    *("synthesise", method),
                )
            try:
                check_params(method, settings.params)
            except ValueError as error:
                cause = error.__context__
                place = cause.errors()[0]["loc"] if isinstance(cause, ValidationError) else ()
                raise Misplaced(str(error), "synthesise", method, *place) from None
        self._can_ask()
        self._corpora_exist(names)
        self._can_choose()
        self._rows_exist()
        if self.start == "evaluator" and self.evaluator is None:
            raise Misplaced(
                "there is no evaluator whose weights training could start from: say which under "
                "`evaluator`, or start from the backbone",
                "start",
            )
        self._can_select()
        if self.awareness is not None and self.ingest.dev == 0:
            raise Misplaced("`awareness` needs dev sentences, and `ingest.dev` is 0", "awareness")
        if self.awareness is not None and self.awareness.teacher == self.backbone:
            raise Misplaced(
                "the teacher is the backbone itself, which agrees with itself perfectly: name a "
                "stronger model",
                *("awareness", "teacher"),
            )
        if self.synthesise and self.evaluator is None:
            raise Misplaced(
                "there is no evaluator to score the candidates: say which under `evaluator`",
                "synthesise",
            )
        return self

    def _rows_exist(self) -> None:
        """A phase of triplets or pairs trains on what is synthesised, or on a file's."""
        if self.synthesise or self.train.triplets is not None:
            return
        for index, phase in enumerate(self.train.phases):
            if phase.rows != "dropout":
                raise Misplaced(
                    f"the phase {phase.name!r} trains on {phase.rows}, but nothing is synthesised: "
                    "name methods under `synthesise`, a file as train.triplets, or rows: dropout",
                    *("train", "phases", index, "rows"),
                )

    def _can_select(self) -> None:
        """What `select` names exists: its methods, and the scores that it asks for."""
        asked: list[tuple[tuple[str, ...], float | None]] = [((), self.select.p_min)]
        for method, settings in self.select.methods.items():
            if method not in METHOD_NAMES:
                known = ", ".join(sorted(METHOD_NAMES))
                raise Misplaced(
                    f"there is no method {method!r} to select from; known: {known}",
                    *("select", "methods", method),
                )
            asked.append((("methods", method), settings.p_min))
        for place, p_min in asked:
            if p_min is not None:
                raise Misplaced(
                    "a discriminator would have to score the candidates, and there is none yet: "
                    "leave p_min out",
                    *("select", *place, "p_min"),
                )

    def _can_ask(self) -> None:
        """Whoever asks a language model needs one, and somebody who serves it."""
        asking: list[tuple[str, ...]] = [
            ("synthesise", name) for name in self.synthesise if name in PROMPTED_NAMES
        ]
        if self.extract_generate is not None:
            asking.insert(0, ("extract_generate",))
            if self.extract != ExtractConfig():
                raise Misplaced(
                    "either rules extract (`extract`) or the language model (`extract_generate`)",
                    "extract_generate",
                )
        if asking and self.llm is None:
            raise Misplaced(
                f"{asking[0][-1]} asks a language model: say which under `llm`", *asking[0]
            )
        for name in (name for name in self.synthesise if name in PROMPTED_NAMES):
            params = self.synthesise[name].params
            drawn = params.get("temperature", self.llm.temperature if self.llm else None)
            if drawn == 0 and params.get("per_sentence", 1) > 1:
                raise Misplaced(
                    f"at temperature 0 the model says the same {params['per_sentence']} times",
                    *("synthesise", name, "per_sentence"),
                )
        if self.llm is not None and self.llm.name is not None and not self.run.llm.endpoints:
            raise Misplaced(
                "a model that has only a name is served by an endpoint: list run.llm.endpoints, "
                "or give its files as `model`",
                *("llm", "name"),
            )

    def _can_choose(self) -> None:
        """A checkpoint is chosen on dev pairs or on a suite's dev set: one of them is there."""
        choose = self.train.choose
        if choose is None:
            return
        if choose.by != "retrieval":
            if self.evaluate.suite is None:
                raise Misplaced(
                    f"{choose.by} is a set of evaluate.suite, which names no directory: name one, "
                    "or choose by retrieval",
                    *("train", "choose", "by"),
                )
        elif self.ingest.dev == 0:
            raise Misplaced(
                "there are no dev pairs to choose on, since ingest.dev is 0: raise it, or keep "
                "the last step's weights (--set train.choose=null)",
                *("train", "choose"),
            )
        elif all(corpus.source != PYDOCS and corpus.query is None for corpus in self.corpora):
            raise Misplaced(
                "there are no dev pairs to choose on, since no corpus has document pairs (query "
                "and answer): name these columns, or keep the last step's weights "
                "(--set train.choose=null)",
                *("train", "choose"),
            )

    def _corpora_exist(self, names: list[str]) -> None:
        """What a phase or the evaluator selects must be among the corpora."""
        chosen: list[tuple[tuple[str | int, ...], tuple[str, ...]]] = [
            (("train", "phases", index, "corpora"), phase.corpora)
            for index, phase in enumerate(self.train.phases)
        ]
        if self.evaluator is not None and self.evaluator.fit is not None:
            chosen.append((("evaluator", "fit", "corpora"), self.evaluator.fit.corpora))
        for place, wanted in chosen:
            for name in wanted:
                if name not in names:
                    known = ", ".join(names)
                    raise Misplaced(f"there is no corpus {name!r}, only: {known}", *place)


def _method(settings: Any) -> Any:
    if settings is None:
        return {}
    if not isinstance(settings, dict) or "params" in settings:
        return settings
    params = {key: value for key, value in settings.items() if key != "weight"}
    weight = {"weight": settings["weight"]} if "weight" in settings else {}
    return {**weight, "params": params} if params else weight


def json_schema() -> dict[str, Any]:
    """The recipe's JSON schema, for editors."""
    schema = Recipe.model_json_schema()
    # What `_bare_methods` takes: nothing, or a method's own parameters beside its weight.
    schema["$defs"]["MethodSettings"]["additionalProperties"] = True
    methods = schema["properties"]["synthesise"]
    methods["additionalProperties"] = {"anyOf": [methods["additionalProperties"], {"type": "null"}]}
    schema["properties"]["synthesise"]["propertyNames"] = {"enum": sorted(METHOD_NAMES)}
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "Tercet recipe"
    return schema
