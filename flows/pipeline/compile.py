"""Compiles a recipe into its steps: which stage, with which config, reading which others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tercet.flows.recipe.model import Recipe
from tercet.models.llm.settings import LlmSettings, Sampling
from tercet.tasks.corpus import ingest, sample
from tercet.tasks.evaluation import awareness, evaluate
from tercet.tasks.guarding import guard
from tercet.tasks.knowledge import extract, extract_generate, extract_parse, graph
from tercet.tasks.scoring import embed, score, select
from tercet.tasks.stage import REJECTS, BadInput, Config, Stage
from tercet.tasks.synthesis import asking, parse, synthesise
from tercet.tasks.synthesis import prompted as synthesise_prompted
from tercet.tasks.training import fit_evaluator, train


@dataclass(frozen=True)
class Step:
    """A stage in its place in one pipeline.

    inputs: slot to the names of the steps whose rows it reads.
    models: slot to ("step", name of the step that makes it) or ("weights", a model's name).
    """

    name: str
    stage: Stage
    config: Config
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    models: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the steps that must be done before."""
        made = [name for kind, name in self.models.values() if kind == "step"]
        return tuple(dict.fromkeys([*(n for names in self.inputs.values() for n in names), *made]))


def compile_steps(recipe: Recipe) -> tuple[Step, ...]:
    """The recipe's steps, each after those that it reads."""
    steps = [*_corpus_steps(recipe)]
    # Triplets of a file leave nothing to synthesise.
    synthesis = bool(recipe.synthesise) and recipe.train.triplets is None
    evaluator = recipe.evaluator
    fits = evaluator is not None and evaluator.fit and (synthesis or recipe.start == "evaluator")
    dropout = recipe.train.triplets is None and any(
        phase.rows == "dropout" for phase in recipe.train.phases
    )
    guarded = bool(evaluate.measured_tasks(recipe.evaluate))
    if guarded and (fits or dropout):
        steps.append(_sentences_guard(recipe))
    if evaluator is not None and evaluator.fit and fits:
        inputs = {"sentences": ("ingest",), **_guarded(recipe, "sentences")}
        backbone = {"backbone": ("weights", recipe.backbone)}
        steps.append(Step("fit_evaluator", fit_evaluator.STAGE, evaluator.fit, inputs, backbone))
    # Without synthesis only the measure reads the graph, and no language model is asked for it.
    by_model = synthesis and recipe.extract_generate is not None
    if synthesis or recipe.awareness is not None:
        steps += _knowledge_steps(recipe, by_model)
    if synthesis:
        steps += _synthesis_steps(recipe)
    if recipe.awareness is not None:
        steps.append(_awareness_step(recipe.awareness, by_model))
    if guarded and (
        recipe.train.triplets is not None
        or any(phase.rows != "dropout" for phase in recipe.train.phases)
    ):
        steps.append(_triplets_guard(recipe))
    steps += _training_steps(recipe)
    return tuple(steps)


def until(steps: Sequence[Step], target: str) -> tuple[Step, ...]:
    """The steps that a stage, a step or a table needs, itself included.

    Raises: BadInput when nothing here is called so.
    """
    if target == "rejects":
        names = list(dict.fromkeys(step.stage.name for step in steps))
        raise BadInput(
            "--until 'rejects': every stage makes this table, so name the stage whose rejects you "
            f"want: one of {', '.join(names)}."
        )
    wanted = [s for s in steps if target in (s.name, s.stage.name) or target in s.stage.tables]
    if not wanted:
        names = sorted({s.stage.name for s in steps} | {t for s in steps for t in s.stage.tables})
        raise BadInput(
            f"--until {target!r} is neither a stage nor a table of this recipe: "
            f"choose one of {', '.join(names)}."
        )
    by_name = {step.name: step for step in steps}
    keep: set[str] = set()
    open_names = [step.name for step in wanted]
    while open_names:
        name = open_names.pop()
        if name not in keep:
            keep.add(name)
            open_names.extend(by_name[name].needs)
    return tuple(step for step in steps if step.name in keep)


def schemas(steps: Sequence[Step]) -> dict[str, pa.Schema]:
    """The tables that these steps make."""
    made = {name: schema for step in steps for name, schema in step.stage.tables.items()}
    return {**made, "rejects": REJECTS}


def _guarded(recipe: Recipe, what: str) -> dict[str, tuple[str, ...]]:
    """The slot of the rows that must not be trained on, where there is something to guard."""
    if not evaluate.measured_tasks(recipe.evaluate):
        return {}
    return {f"guarded_{what}": (f"guard.{what}",)}


def _guard_config(
    recipe: Recipe, triplets: str | None = None, stored: bool = False
) -> guard.GuardConfig:
    encoding = recipe.embed.model_dump()
    if recipe.guard.encoder is not None and not stored:
        encoding["pooling"] = None
    choose = recipe.train.choose
    return guard.GuardConfig(
        **recipe.guard.model_dump(),
        # Tasks of mteb, which are all there is without a suite, lie in no directory.
        suite=recipe.evaluate.suite or Path(),
        tasks=evaluate.measured_tasks(recipe.evaluate),
        splits=recipe.evaluate.splits,
        chosen_on=() if choose is None or choose.by == "retrieval" else (choose.by,),
        triplets=triplets,
        **encoding,
    )


def _shortlist_encoder(recipe: Recipe) -> dict[str, tuple[str, str]]:
    """What encodes where no vectors are stored: none that is itself still to be fitted."""
    given = None if recipe.evaluator is None else recipe.evaluator.model
    name = recipe.guard.encoder or given
    off = name is None or recipe.guard.embedding_min is None
    return {} if off or name is None else {"encoder": ("weights", name)}


def _sentences_guard(recipe: Recipe) -> Step:
    inputs = {"sentences": ("ingest",)}
    models = _shortlist_encoder(recipe)
    return Step("guard.sentences", guard.SENTENCES, _guard_config(recipe), inputs, models)


def _triplets_guard(recipe: Recipe) -> Step:
    """Over triplets that were scored here the evaluator's vectors of all their texts are stored."""
    name, file = "guard.triplets", recipe.train.triplets
    if file is not None:
        models = _shortlist_encoder(recipe)
        return Step(name, guard.TRIPLETS, _guard_config(recipe, file), {}, models)
    inputs = {"triplets": ("select",)}
    if recipe.guard.embedding_min is None:
        return Step(name, guard.TRIPLETS, _guard_config(recipe), inputs)
    inputs["embeddings"] = ("embed",)
    models = {"encoder": _evaluator(recipe)}
    return Step(name, guard.TRIPLETS, _guard_config(recipe, stored=True), inputs, models)


def _corpus_steps(recipe: Recipe) -> list[Step]:
    shares = [
        sample.CorpusShare(name=corpus.name, role=corpus.role, share=corpus.share)
        for corpus in recipe.corpora
    ]
    settings = recipe.ingest.model_dump()
    return [
        Step("ingest", ingest.STAGE, ingest.IngestConfig(corpora=list(recipe.corpora), **settings)),
        Step(
            "sample",
            sample.STAGE,
            sample.SampleConfig(corpora=shares, **recipe.sample.model_dump()),
            {"sentences": ("ingest",)},
        ),
    ]


def _synthesis_steps(recipe: Recipe) -> list[Step]:
    steps: list[Step] = []
    extracted = "extract" if recipe.extract_generate is None else "extract_parse"
    # The fallback of a triplet without a negative is a candidate like any other.
    methods = {**recipe.synthesise}
    methods.setdefault("random", synthesise.MethodSettings())
    sources = {"mentions": extracted, "sentence_categories": extracted}
    sources |= {"graph": "graph", "pool": "ingest"}
    generators = []
    for method, settings in methods.items():
        inputs = {"sentences": ("ingest",), "anchors": ("sample",)}
        inputs |= {s: (sources[s],) for s in synthesise.needs(method) if s in sources}
        name, given = f"{synthesise.NAME}.{method}", {"method": method, **settings.model_dump()}
        if method in synthesise.PROMPTED_NAMES:
            steps.append(_prompted_step(recipe, name, given, inputs))
        else:
            config = synthesise.SynthesiseConfig(**given)
            steps.append(Step(name, synthesise.stage_for(method), config, inputs))
        generators.append(f"synthesise.{method}")
    steps.append(
        Step(
            "parse",
            parse.STAGE,
            recipe.parse,
            {"generations": tuple(generators), "sentences": ("ingest",)},
        )
    )
    return [*steps, *_scoring_steps(recipe)]


def _knowledge_steps(recipe: Recipe, by_model: bool) -> list[Step]:
    steps = _extraction_steps(recipe, by_model)
    return [*steps, Step("graph", graph.STAGE, recipe.graph, {"mentions": (steps[-1].name,)})]


def _awareness_step(settings: awareness.AwarenessSettings, by_model: bool) -> Step:
    """What measures awareness; a language model extracts from training sentences alone."""
    inputs = {"sentences": ("ingest",), "graph": ("graph",)}
    if not by_model:
        inputs["mentions"] = ("extract",)
    config = awareness.AwarenessConfig(**settings.model_dump(exclude={"teacher"}))
    teacher = {"teacher": ("weights", settings.teacher)}
    return Step("awareness", awareness.STAGE, config, inputs, teacher)


def _extraction_steps(recipe: Recipe, by_model: bool) -> list[Step]:
    """By rules one step, by a language model two: what it says, and what is made of that."""
    sentences = {"sentences": ("ingest",)}
    if not by_model or recipe.extract_generate is None:
        return [Step("extract", extract.STAGE, recipe.extract, sentences)]
    assert recipe.llm is not None
    asks = extract_generate.ExtractGenerateConfig(
        **recipe.extract_generate.model_dump(), llm=_served(recipe.llm)
    )
    reads = extract_parse.ExtractParseConfig(
        **recipe.extract_parse.model_dump(), categories=asks.categories, types=asks.types
    )
    return [
        Step(
            "extract_generate",
            extract_generate.STAGE,
            asks,
            {**sentences, "anchors": ("sample",)},
            _llm(recipe),
        ),
        Step(
            "extract_parse",
            extract_parse.STAGE,
            reads,
            {"generations": ("extract_generate",), **sentences},
        ),
    ]


def _prompted_step(
    recipe: Recipe, name: str, given: Mapping[str, Any], inputs: Mapping[str, tuple[str, ...]]
) -> Step:
    assert recipe.llm is not None
    sampling = asking.sampling_of(recipe.llm, given["params"])
    config = synthesise_prompted.PromptedConfig(
        method=given["method"],
        weight=given["weight"],
        params={**given["params"], **sampling.model_dump()},
        llm=_served(recipe.llm),
    )
    stage = synthesise_prompted.stage_for(config.method)
    return Step(name, stage, config, inputs, _llm(recipe))


def _served(llm: LlmSettings) -> LlmSettings:
    """The model alone: how a step's answers are drawn is resolved in its own parameters."""
    return llm.model_copy(update=Sampling().model_dump())


def _llm(recipe: Recipe) -> dict[str, tuple[str, str]]:
    """The language model's weights, where they can be looked at."""
    assert recipe.llm is not None
    return {} if recipe.llm.model is None else {"llm": ("weights", recipe.llm.model)}


def _evaluator(recipe: Recipe) -> tuple[str, str]:
    """Where the evaluator's weights come from."""
    assert recipe.evaluator is not None
    if recipe.evaluator.fit is not None:
        return ("step", "fit_evaluator")
    return ("weights", recipe.evaluator.model or "")


def _scoring_steps(recipe: Recipe) -> list[Step]:
    return [
        Step(
            "embed",
            embed.STAGE,
            recipe.embed,
            {"candidates": ("parse",), "sentences": ("ingest",)},
            {"evaluator": _evaluator(recipe)},
        ),
        Step(
            "score",
            score.STAGE,
            score.ScoreConfig(),
            {"candidates": ("parse",), "embeddings": ("embed",)},
        ),
        Step(
            "select",
            select.STAGE,
            recipe.select,
            {
                "candidates": ("parse",),
                "scores": ("score",),
                "sentences": ("ingest",),
                "document_pairs": ("ingest",),
            },
        ),
    ]


def _training_steps(recipe: Recipe) -> list[Step]:
    backbone = ("weights", recipe.backbone)
    start = _evaluator(recipe) if recipe.start == "evaluator" else backbone
    rows: dict[str, tuple[str, ...]] = {}
    phases = recipe.train.phases if recipe.train.triplets is None else ()
    if any(phase.rows == "dropout" for phase in phases):
        rows |= {"sentences": ("ingest",), "anchors": ("sample",)}
    if any(phase.rows != "dropout" for phase in phases):
        rows["triplets"] = ("select",)
        if any(phase.corpora for phase in phases):
            rows["sentences"] = ("ingest",)
    if "anchors" in rows:
        rows |= _guarded(recipe, "sentences")
    if "triplets" in rows or recipe.train.triplets is not None:
        rows |= _guarded(recipe, "triplets")
    pairs: dict[str, tuple[str, ...]] = {"document_pairs": ("ingest",)}
    if recipe.awareness is not None:
        pairs["awareness"] = ("awareness",)
    fixed, measured = recipe.train.model_dump(), recipe.evaluate.model_dump()
    choose = recipe.train.choose
    if choose is not None and choose.by == "retrieval":
        rows["document_pairs"] = ("ingest",)
    elif choose is not None:
        fixed["suite"] = recipe.evaluate.suite
    steps = [
        Step(
            "evaluate.base",
            evaluate.STAGE,
            evaluate.EvaluateConfig(**measured),
            pairs,
            {"model": backbone},
        )
    ]
    for number in range(recipe.seeds):
        # The first is what a recipe of one seed makes, and found again by it.
        seed = recipe.seed + number if number else None
        name = trained_by(recipe.seed, recipe.seed + number)
        steps += [
            Step(
                name,
                train.STAGE,
                train.TrainConfig(**fixed, model_seed=seed),
                rows,
                {"backbone": start},
            ),
            Step(
                name.replace("train", "evaluate.encoder"),
                evaluate.STAGE,
                evaluate.EvaluateConfig(**measured, model_seed=seed),
                {**pairs, "baseline": ("evaluate.base",)},
                {"model": ("step", name)},
            ),
        ]
    return steps


def trained_by(recipe_seed: int, seed: int) -> str:
    """Name of the step that trains with this seed."""
    return "train" if seed == recipe_seed else f"train.seed{seed}"
