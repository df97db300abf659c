"""Compiles a recipe into its steps, each with its stage, config and inputs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from tercet.flows.pipeline.step import (
    Step,
    connect,
    guarded,
    in_order,
    served,
    until,
    weights_of,
    without_unread,
    writer,
)
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import GENSE, LLM, Made, Model, Resolved, Trained
from tercet.models.encoders.settings import FormSettings, cnn_form
from tercet.models.losses.registry import ENTRY_MATRIX, TEACHER, Definition
from tercet.tasks import guarding
from tercet.tasks.config import STEERS
from tercet.tasks.corpus import ingest, labelled, passages, sample
from tercet.tasks.encoders import MIXES
from tercet.tasks.evaluation import (
    awareness,
    define,
    evaluate,
    halves,
    judgements,
    labels,
    measure_generators,
    paraphrase,
)
from tercet.tasks.evaluation.evaluate import list_tasks, measures_texts
from tercet.tasks.evaluation.suites.sts import STS_TASKS
from tercet.tasks.knowledge import extract, extract_generate, extract_parse, graph
from tercet.tasks.retrieval import negatives, passage_vectors
from tercet.tasks.scoring import embed, mine, select
from tercet.tasks.scoring.scorers import MEASURES, filter_scorers
from tercet.tasks.stage import Stage
from tercet.tasks.synthesis import asking, fitted, parse, prompted, synthesise
from tercet.tasks.synthesis.methods import METHODS, SynthesiseConfig, check_params
from tercet.tasks.training import (
    choose,
    count_tokens,
    entry_matrix,
    fit_evaluator,
    fit_generator,
    fit_gense,
    fit_pair,
    pretrain,
    train,
    whiten,
)
from tercet.tasks.training.choosers import CHOOSERS
from tercet.tasks.training.fit_gense import FitGenseConfig, GensePrompts
from tercet.tasks.training.phases import OF_TRIPLETS, SOURCES, PartConfig, PhaseConfig, RowsConfig
from tercet.tasks.training.train_settings import CheckpointConfig, TrainConfig

C = TypeVar("C", bound=BaseModel)

BASE = "base"
EVALUATOR = f"{passage_vectors.STAGE.name}.evaluator"
# Steps that mine negatives, by source of the rows; labelled corpora share one step.
NEGATIVES: dict[negatives.Source, str] = {
    "queries": "negatives",
    "document_pairs": "negatives.document_pairs",
    "labelled": "negatives.labelled",
}
# Inputs of `evaluate` that are made from the corpora, and the steps that make them.
_MEASURES = {
    **dict.fromkeys(("document_pairs", "questions"), ("ingest",)),
    **{name: (name,) for name in ("awareness", "halves", "labels")},
}
_JUDGED: dict[str, tuple[str, ...]] = {name: (name,) for name in ("judgements", "passages")}


def compiled(config: C, **wired: Any) -> C:
    """The config of a step. `wired`, facts from elsewhere in the recipe, replaces its values; keys
    that only choose steps get their defaults."""
    fields = type(config).model_fields
    assert wired.keys() <= fields.keys()
    steering = {
        name: field.get_default(call_default_factory=True)
        for name, field in fields.items()
        if STEERS in field.metadata
    }
    return config.model_copy(update=steering | wired)


# Steps that a run leaves out if no step reads them.
STEPS = ("extract", "extract_generate", "extract_parse", "graph")


def knowledge_steps(recipe: Recipe) -> list[Step]:
    """Extraction by rules, or by a language model, which answers and is then parsed; the graph.

    Without synthesis only the awareness measure reads them: no language model is needed.
    """
    if not recipe.synthesise and recipe.awareness is None:
        return []
    steps, sentences = [], {"sentences": ("ingest",)}
    if recipe.extract_generate is None or not recipe.synthesise:
        steps.append(Step("extract", extract.STAGE, recipe.extract, sentences))
    else:
        assert recipe.llm is not None
        asks = compiled(recipe.extract_generate, llm=served(recipe.llm))
        lists = {"categories": asks.categories, "types": asks.types}
        reads = compiled(recipe.extract_parse, **lists)
        anchors, model = {**sentences, "anchors": ("sample",)}, weights_of(recipe.llm)
        answers = {"generations": ("extract_generate",), **sentences}
        steps.append(Step("extract_generate", extract_generate.STAGE, asks, anchors, model))
        steps.append(Step("extract_parse", extract_parse.STAGE, reads, answers))
    mentions = {"mentions": (steps[-1].name,)}
    keep = recipe.graph.keep
    return [*steps, Step("graph", graph.STAGE, compiled(recipe.graph), mentions, keep=keep)]


# Steps that are made only if another step reads them.
_ON_DEMAND = (
    *("guard.sentences", "guard.document_pairs", "guard.triplets", "guard.negatives"),
    *("fit_evaluator", EVALUATOR),
)
# A run leaves these steps out if no other step reads them.
_UNREAD = (*STEPS, *NEGATIVES.values(), EVALUATOR)


def compile_steps(resolved: Resolved) -> tuple[Step, ...]:
    """The recipe's steps, each after its inputs."""
    steps = [
        *corpus_steps(resolved),
        *judgement_steps(resolved.recipe),
        *model_steps(resolved),
        *generator_measures(resolved),
        *knowledge_steps(resolved.recipe),
        *synthesis_steps(resolved),
        *evaluator_vectors(resolved.recipe, resolved.evaluator),
        *scoring_steps(resolved),
        *negatives_steps(resolved),
        *awareness_steps(resolved),
        *own_measures(resolved.recipe),
        *guard_steps(resolved),
        *training_steps(resolved),
    ]
    return without_unread(in_order(connect(steps)), _ON_DEMAND)


def steps_to_run(steps: Sequence[Step], target: str | None = None) -> tuple[Step, ...]:
    """The recipe's steps that `target` needs, by default all steps that are read.

    Raises: BadInput for an unknown target.
    """
    return without_unread(steps, _UNREAD) if target is None else until(steps, target)


def left_out(every: Sequence[Step], steps: Sequence[Step]) -> str | None:
    """A line about the recipe's steps that a whole run leaves out; None if it leaves out none.

    every: the recipe's steps. steps: the steps that the run makes.
    """
    names = {step.name for step in steps}
    unread = [step.name for step in every if step.name not in names]
    if not unread:
        return None
    return (
        f"Not made, since nothing in this recipe reads it: {', '.join(unread)} "
        f"(--until {unread[-1]} makes it)."
    )


def model_steps(resolved: Resolved) -> list[Step]:
    """A step for each model that is made, in the recipe's order, and one that fits the evaluator.

    The latter is left out where nothing reads it.
    """
    recipe, steps = resolved.recipe, []
    labelled = [corpus.name for corpus in recipe.labelled]
    pretrained = {corpus.name for corpus in recipe.corpora if corpus.role == "pretrain"}
    for name, settings in recipe.models.items():
        if settings.maker is None:
            continue
        config_made, place = settings.made, ("models", name, settings.maker)
        models = {slot: resolved.models[*place, slot].model for slot in config_made.models()}
        facts: dict[str, Any] = {"name": name}
        inputs: dict[str, tuple[str, ...]] = {}
        if settings.maker == "pretrain":
            stage = pretrain.STAGE
            if pretrained & {*config_made.corpora}:
                inputs = {"pretrain_sentences": ("ingest.pretrain",)}
            if {*config_made.corpora} - pretrained:
                inputs["sentences"] = ("ingest",)
        elif settings.maker == "count_tokens":
            stage, inputs = count_tokens.STAGE, {"sentences": ("ingest",)}
        elif settings.maker == "fit_pair":
            assert resolved.evaluator is not None
            stage, models = fit_pair.STAGE, {"evaluator": resolved.evaluator}
            facts |= dict(recipe.embed)
            inputs = guarded("labelled", "labelled")
        elif config_made.form == GENSE:
            stage, inputs = fit_gense.STAGE, guarded("labelled", "labelled")
        else:
            pairs = tuple(one for one in config_made.pairs.corpora if one in labelled)
            texts = tuple(one for one in config_made.pairs.corpora if one not in labelled)
            stage = fit_generator.STAGE
            corpora = {"labelled": pairs, "sentences": texts}
            facts["pairs"] = config_made.pairs.model_copy(update=corpora)
            inputs = guarded("labelled", "labelled") if pairs else {}
            inputs |= guarded("sentences") if texts else {}
        config = compiled(config_made, **facts)
        steps.append(Step(f"{settings.maker}.{name}", stage, config, inputs, models))
    if resolved.evaluator == Made("fit_evaluator"):
        fit = None if recipe.evaluator is None else recipe.evaluator.fit
        assert fit is not None
        backbone = {"backbone": resolved.models["backbone",].model}
        config = compiled(fit, **choice_facts(recipe, fit.choose))
        inputs = guarded("sentences") | choice_inputs(recipe, fit.choose)
        steps.append(Step("fit_evaluator", fit_evaluator.STAGE, config, inputs, backbone))
    return steps


# (table that is searched, the stage that searches it, the step that makes it)
_SEARCHED = (
    ("labelled", guarding.LABELLED, "labelled"),
    ("sentences", guarding.SENTENCES, "ingest"),
    ("document_pairs", guarding.TRIPLETS, "ingest"),
)


def guard_steps(resolved: Resolved) -> list[Step]:
    """A step for each kind of training rows, if there is anything to guard.

    Triplets are compared by the evaluator's vectors of all texts, which are stored. Other rows, and
    triplets without an evaluator, are compared by an encoder that exists already, if at all.
    """
    recipe, models = resolved.recipe, resolved.models
    if not measures_texts(recipe.evaluate):
        return []
    stored = compiled(
        recipe.guard,
        # Tasks of mteb and the user's files need no suite directory.
        suite=recipe.evaluate.suite or Path(),
        tasks=list_tasks(recipe.evaluate),
        splits=recipe.evaluate.splits,
        chosen_on=tuple(sorted({one.by for one in recipe.step_choices.values()} & {*STS_TASKS})),
        fact_order=tuple(recipe.evaluate.fact_order.items()),
        sts_sets=tuple(recipe.evaluate.sts_sets.items()),
        retrieval_sets=tuple(recipe.evaluate.retrieval_sets.items()),
        **dict(recipe.embed),
    )
    own_form = {"pooling": None, "prompt": None} if recipe.guard.encoder is not None else {}
    config = stored.model_copy(update=own_form)
    named = models.get(("guard", "encoder")) or models.get(("evaluator", "model"))
    compares = recipe.guard.embedding_min is not None
    encoder = {"encoder": named.model} if named is not None and compares else {}
    steps = [
        Step(f"guard.{table}", stage, config, {table: (source,)}, encoder)
        for table, stage, source in _SEARCHED
        if table != "labelled" or recipe.labelled
    ]
    if mined := tuple(step.name for step in negatives_steps(resolved)):
        read = {"negatives": mined}
        steps.append(Step("guard.negatives", guarding.TRIPLETS, config, read, encoder))
    read = {"triplets": ("select",)}
    if compares and resolved.evaluator is not None:
        config, encoder = stored, {"encoder": resolved.evaluator}
        read["embeddings"] = ("embed",)
    return [*steps, Step("guard.triplets", guarding.TRIPLETS, config, read, encoder)]


# Held out of the corpora of role pretrain, to measure the loss on; the recipe's own shares may
# follow another corpus's size.
PRETRAIN_DEV = 0.02


def corpus_steps(resolved: Resolved) -> list[Step]:
    """The steps behind all sentences, anchors and passages, pretraining texts and labelled rows."""
    recipe = resolved.recipe
    steps = []
    if corpora := list(recipe.unlabelled):
        shares = [
            sample.CorpusShare(
                **corpus.model_dump(include={"name", "role", "share", "min_context_sentences"})
            )
            for corpus in corpora
        ]
        texts = compiled(recipe.ingest, corpora=corpora)
        anchors = compiled(recipe.sample, corpora=shares)
        steps.append(Step("ingest", ingest.STAGE, texts, keep=recipe.ingest.keep))
        sentences, keep = {"sentences": ("ingest",)}, recipe.sample.keep
        steps.append(Step("sample", sample.STAGE, anchors, sentences, keep=keep))
        if (passage_config := recipe.ingest.passages) is not None:
            cut = compiled(
                passage_config, corpora=corpora, max_line_bytes=recipe.ingest.max_line_bytes
            )
            backbone = resolved.models.get(("backbone",))
            models = {} if backbone is None else {"tokenizer": backbone.model}
            documents = {"documents": ("ingest",)}
            steps.append(Step("passages", passages.STAGE, cut, documents, models))
    # Corpora to pretrain on have a step of their own, so that no other step reads them.
    if corpora := [corpus for corpus in recipe.corpora if corpus.role == "pretrain"]:
        pretraining = compiled(
            recipe.ingest, corpora=corpora, role="pretrain", dev=PRETRAIN_DEV, test=0.0
        )
        steps.append(Step("ingest.pretrain", ingest.PRETRAIN, pretraining))
    # Labelled corpora give no row of dev or test.
    if corpora := list(recipe.labelled):
        rows = labelled.LabelledConfig(corpora=corpora, max_line_bytes=recipe.ingest.max_line_bytes)
        held_out = dict.fromkeys(("sentences", "document_pairs"), ("ingest",))
        steps.append(Step("labelled", labelled.STAGE, rows, held_out))
    return steps


def scoring_steps(resolved: Resolved) -> list[Step]:
    """The candidates' vectors if there is an evaluator, one step per scorer, and the selection."""
    recipe, steps = resolved.recipe, []
    if not recipe.synthesise:
        return []
    candidates, sentences = {"candidates": ("parse",)}, {"sentences": ("ingest",)}
    vectors = {**sentences, "embeddings": ("embed",)}
    read = {**vectors, "passages": ("passages",), "passage_vectors": (EVALUATOR,)}
    if resolved.evaluator is not None:
        models = {"evaluator": resolved.evaluator}
        steps.append(Step("embed", embed.STAGE, recipe.embed, candidates | sentences, models))
    for name, (scorer, config) in resolved.scorers.items():
        inputs = candidates | {str(slot): read[slot] for slot in scorer.reads}
        slots = config.models() if hasattr(config, "models") else ()
        models = {slot: resolved.models["score", name, slot].model for slot in slots}
        if "passage_vectors" in scorer.reads:
            # A scorer that searches passages encodes its texts as the passages are encoded.
            (vector_step,) = evaluator_vectors(recipe, resolved.evaluator)
            config, models = vector_step.config, {**vector_step.models}
        steps.append(Step(f"score.{name}", scorer.stage, config, inputs, models))
    if recipe.mine is not None:
        steps.append(Step("mine", mine.STAGE, recipe.mine, candidates | vectors))
    return [*steps, _select_step(resolved)]


def _select_step(resolved: Resolved) -> Step:
    """The selection. It reads only the scorers that it uses, so further scorers change nothing."""
    recipe = resolved.recipe
    scorer_of: dict[str, str | None] = {}
    for measure in MEASURES:
        names = [
            name for name, (scorer, _) in resolved.scorers.items() if scorer.measure == measure
        ]
        if names and (measure == "similarity" or recipe.select.asks_probability):
            scorer_of[measure] = getattr(recipe.select, measure) or names[0]
        else:
            scorer_of[measure] = None
    ranked = [] if recipe.select.rank_max is None else filter_scorers("rank", resolved.scorers)
    scores = [f"score.{name}" for name in (*scorer_of.values(), *ranked) if name is not None]
    inputs = {
        "candidates": ("parse", "mine"),
        "scores": (*dict.fromkeys(scores), "mine"),
        "sentences": ("ingest",),
        "document_pairs": ("ingest",),
    }
    if resolved.has_queries:
        inputs["passages"] = ("passages",)
    below = {"mined_below": recipe.mine.below} if recipe.mine is not None else {}
    facts = {**scorer_of, **below, "by_similarity": scorer_of["similarity"] is not None}
    config = compiled(recipe.select, **facts)
    return Step("select", select.STAGE, config, inputs)


def synthesis_steps(resolved: Resolved) -> list[Step]:
    recipe, steps = resolved.recipe, []
    if not recipe.synthesise:
        return []
    extracted = "extract" if recipe.extract_generate is None else "extract_parse"
    methods = {**recipe.synthesise}
    if recipe.select.pairing == "role":
        # The fallback for a missing negative is a candidate like any other.
        methods.setdefault("random", SynthesiseConfig())
    pipeline = recipe.extract.pipeline
    language = None if pipeline is None else extract.pipeline_of(pipeline).language
    sources = {"mentions": extracted, "sentence_categories": extracted}
    sources |= {"graph": "graph", "pool": "ingest"}
    for method, settings in methods.items():
        described = resolved.methods.get(method) or METHODS[method]
        inputs = {"sentences": ("ingest",), "anchors": ("sample",)}
        inputs |= {slot: (sources[slot],) for slot in described.needs if slot in sources}
        facts: dict[str, Any] = {"params": check_params(method, settings)}
        if "mentions" in described.needs:
            facts["language"] = language
        step = f"{synthesise.NAME}.{method}"
        stage, models = synthesise.STAGE, dict[str, Model]()
        if described.each == "passages":
            drawn = recipe.sample.passages
            facts["passages"], stage = drawn, synthesise.OVER_PASSAGES
            inputs = {"passages": ("passages",)}
            if drawn is not None or described.open_passages is not None:
                inputs["every_passage"] = ("passages",)
        if method in resolved.writers:
            stage, more, models = _asked(resolved, method, settings.params)
            facts |= more
        config = compiled(settings, method=method, **facts)
        steps.append(Step(step, stage, config, inputs, models))
    texts = tuple(step.name for step in steps)
    # Steps that ask one model stand together, so that each model is served once.
    names = [LLM, *recipe.generators]
    steps.sort(key=lambda step: names.index(writer(step) or LLM))
    read = {"generations": texts, "sentences": ("ingest",)}
    return [*steps, Step("parse", parse.STAGE, recipe.parse, read)]


def _asked(
    resolved: Resolved, method: str, params: dict[str, Any]
) -> tuple[Stage, dict[str, Any], dict[str, Model]]:
    """The stage, more facts for the config, and the models of a method that the language model or
    a generator answers."""
    recipe, name = resolved.recipe, resolved.writers[method]
    if name == LLM:
        assert recipe.llm is not None
        sampling = asking.sampling_of(recipe.llm, params).model_dump()
        over = resolved.methods[method].each == "passages"
        facts = {"params": _filled(method, {**params, **sampling}), "llm": served(recipe.llm)}
        return prompted.OVER_PASSAGES if over else prompted.STAGE, facts, weights_of(recipe.llm)
    settings, model = recipe.generators[name], resolved.models["generators", name, "model"]
    decoding = settings.decoding()
    sampling = asking.sampling_of(decoding, params).model_dump()
    if method in fit_gense.METHODS and params.get("prompt") is None:
        # A small model is asked in the few words to which GenSE's model is fitted.
        fit = model.settings
        prompts = fit.prompts if isinstance(fit, FitGenseConfig) else GensePrompts()
        params = {**params, "prompt": str(prompts.path(method))}
    facts = {
        "params": _filled(method, {**params, **sampling}),
        "decoding": decoding.model_copy(update=sampling),
        "precision": settings.precision,
    }
    return fitted.STAGE, facts, {fitted.SLOT: model.model}


def _filled(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return check_params(method, SynthesiseConfig(params=params))


def awareness_steps(resolved: Resolved) -> list[Step]:
    """The awareness measure; a language model extracts only from training sentences."""
    settings = resolved.recipe.awareness
    if settings is None:
        return []
    inputs = {"sentences": ("ingest",), "graph": ("graph",), "mentions": ("extract",)}
    teacher = {"teacher": resolved.models["awareness", "teacher"].model}
    return [Step("awareness", awareness.STAGE, settings, inputs, teacher)]


def generator_measures(resolved: Resolved) -> list[Step]:
    """A step `paraphrase.NAME` for each generator that paraphrases, and one that measures all."""
    recipe, settings = resolved.recipe, resolved.recipe.measure_generators
    if settings is None:
        return []
    of_pairs = settings.model_dump(include=set(paraphrase.PairsToMeasure.model_fields))
    steps = []
    for name, generator in recipe.generators.items():
        reference = resolved.models["generators", name, "model"]
        if reference.form == GENSE:
            continue
        config = paraphrase.ParaphraseConfig(
            name=name, decoding=generator.decoding(), precision=generator.precision, **of_pairs
        )
        inputs, model = {"labelled": ("labelled",)}, {"generator": reference.model}
        steps.append(Step(f"paraphrase.{name}", paraphrase.STAGE, config, inputs, model))
    models = {
        str(place[1]): reference.model
        for place, reference in resolved.models.items()
        if place[0] == "measure_generators"
    }
    texts = {"texts": tuple(step.name for step in steps)}
    return [*steps, Step("measure_generators", measure_generators.STAGE, settings, texts, models)]


def own_measures(recipe: Recipe) -> list[Step]:
    """The steps that make measures of the corpora's own texts, under the slots of `evaluate`."""
    steps = []
    if recipe.evaluate.halves and recipe.unlabelled:
        # General sentences, which a recipe brings along, say nothing about the user's texts.
        domain = tuple(corpus.name for corpus in recipe.unlabelled if corpus.role == "domain")
        cut = halves.HalvesConfig(corpora=domain, min_words=recipe.evaluate.halves_min_words)
        steps.append(Step("halves", halves.STAGE, cut, {"sentences": ("ingest",)}))
    columns = {corpus.name: corpus.labels for corpus in recipe.unlabelled if corpus.labels}
    if columns:
        inputs = {"sentences": ("ingest",), "documents": ("ingest",)}
        steps.append(Step("labels", labels.STAGE, labels.LabelsConfig(columns=columns), inputs))
    return steps


def judgement_steps(recipe: Recipe) -> list[Step]:
    """The step that finds what answers the user's questions; it runs before slow steps."""
    tables = recipe.evaluate.questions
    if not tables:
        return []
    config = judgements.JudgementsConfig(
        sets=tables,
        splits=recipe.evaluate.splits,
        chosen_on=tuple(sorted({one.by for one in recipe.step_choices.values()} & {*tables})),
        corpora=list(recipe.unlabelled),
        max_line_bytes=recipe.ingest.max_line_bytes,
    )
    return [Step(judgements.NAME, judgements.STAGE, config, {"passages": ("passages",)})]


def cnn_seed(recipe: Recipe) -> int | None:
    """The seed of the untouched encoder's token_cnn, as in `evaluate.base`; None without one."""
    pooling = recipe.evaluate.pooling
    return recipe.seed if pooling is not None and cnn_form(pooling) is not None else None


def encoder_vectors(
    recipe: Recipe, name: str, encoder: Model, untouched: Model | None = None, mix: float = 1.0
) -> list[Step]:
    """The step `passage_vectors.NAME` where there are passages: as `evaluate` makes vectors.

    untouched: the encoder that has the rest of the weight if `mix` is below 1.
    """
    measured = recipe.evaluate
    config = passage_vectors.PassageVectorsConfig(
        **measured.model_dump(include={"pooling", "prompt", "max_length", "precision"}),
        prompts=recipe.prompts,
        trust_remote_code=recipe.train.trust_remote_code,
        cnn_seed=cnn_seed(recipe) if name == BASE or untouched is not None else None,
        mix=None if untouched is None else mix,
    )
    models = {"encoder": encoder} | ({} if untouched is None else {"untouched": untouched})
    return _steps(recipe, f"{passage_vectors.STAGE.name}.{name}", config, models)


def evaluator_vectors(recipe: Recipe, evaluator: Model | None) -> list[Step]:
    """The step `passage_vectors.evaluator` if there are passages and an evaluator.

    It is made only if a step reads it. Vectors are made as in `embed`, but a passage is read as far
    as the model reads: `embed` may be set to the length of sentences.
    """
    if evaluator is None:
        return []
    form = {"pooling", "prompt", "precision", "trust_remote_code"}
    config = passage_vectors.PassageVectorsConfig(
        **recipe.embed.model_dump(include=form), prompts=recipe.prompts
    )
    return _steps(recipe, EVALUATOR, config, {"encoder": evaluator})


def negatives_step(rows: RowsConfig) -> str:
    """The step that mines the negatives of these rows."""
    return NEGATIVES[_source(rows)]


def negatives_steps(resolved: Resolved) -> list[Step]:
    """A step for each source whose rows train with mined negatives; without such rows, one step,
    which only `--until` makes."""
    recipe, settings = resolved.recipe, resolved.recipe.negatives
    if settings is None:
        return []
    parts = [part for phase in recipe.train.phases for part in phase.parts]
    asking = [part.rows for part in parts if part.rows.negatives is not None]
    form: dict[str, Any] = {}
    models: Mapping[str, Model] = {}
    inputs: dict[str, tuple[str, ...]] = {"passages": ("passages",)}
    # No negative may share words with dev or test of these tables.
    inputs |= {"sentences": ("ingest",), "document_pairs": ("ingest",)}
    if settings.by != "bm25":
        (vectors,) = evaluator_vectors(recipe, resolved.evaluator)
        form, models = dict(vectors.config), vectors.models
        inputs["passage_vectors"] = (EVALUATOR,)
    tables: dict[negatives.Source, dict[str, tuple[str, ...]]] = {
        "queries": {"triplets": ("select",)},
        "document_pairs": {},
        "labelled": {"labelled": ("labelled",)},
    }
    usual: negatives.Source = "queries" if resolved.has_queries else "document_pairs"
    steps = []
    for source in dict.fromkeys(map(_source, asking)) or (usual,):
        labelled = (
            sorted({rows.source for rows in asking} - {*SOURCES}) if source == "labelled" else ()
        )
        config = compiled(settings, **form, source=source, corpora=tuple(labelled))
        steps.append(
            Step(NEGATIVES[source], negatives.STAGE, config, inputs | tables[source], models)
        )
    return steps


def _source(rows: RowsConfig) -> negatives.Source:
    if rows.source == "queries":
        return "queries"
    return "document_pairs" if rows.source == "document_pairs" else "labelled"


def _steps(
    recipe: Recipe,
    name: str,
    config: passage_vectors.PassageVectorsConfig,
    models: Mapping[str, Model],
) -> list[Step]:
    if recipe.ingest.passages is None:
        return []
    return [Step(name, passage_vectors.STAGE, config, {"passages": ("passages",)}, models)]


def training_steps(resolved: Resolved) -> list[Step]:
    """The phases of each seed in order, and what their encoders do: figures, and vectors."""
    recipe = resolved.recipe
    if not recipe.train.phases and recipe.whiten is None:
        return []
    # Questions to the run's passages are read from the table `judgements`.
    questions = recipe.evaluate.questions
    folders = {
        name: one for name, one in recipe.evaluate.retrieval_sets.items() if name not in questions
    }
    measures: dict[str, tuple[str, ...]] = {**_MEASURES, **(_JUDGED if questions else {})}
    base = compiled(
        recipe.evaluate,
        retrieval_sets=folders,
        trust_remote_code=recipe.train.trust_remote_code,
        prompts=recipe.prompts,
    )
    model = resolved.models["backbone",].model
    vectors = encoder_vectors(recipe, BASE, model)
    inputs = {**measures, **_vectors_of(vectors, questions)}
    steps = [Step("evaluate.base", evaluate.STAGE, base, inputs, {"model": model}), *vectors]
    for seed in range(recipe.seed, recipe.seed + recipe.seeds):
        # The first seed's steps equal the steps of a one-seed recipe, so that those are reused.
        model_seed = None if seed == recipe.seed else seed
        against: dict[tuple[str, str], Step] = {}
        for index, phase in enumerate(recipe.train.phases):
            models = {"backbone": _of_phase(resolved, seed, index, "backbone")}
            for number, part in enumerate(phase.parts):
                named = {slot: ("parts", number, "models", slot) for slot in part.models}
                for slot, place in named.items():
                    models[f"{part.name}.{slot}"] = _of_phase(resolved, seed, index, *place)
                if TEACHER in _models_read(phase, part) and TEACHER not in part.models:
                    assert resolved.evaluator is not None
                    models[f"{part.name}.{TEACHER}"] = resolved.evaluator
                if ENTRY_MATRIX in part.models:
                    encoder = models[f"{part.name}.{ENTRY_MATRIX}"]
                    entries = _entries_step(recipe, phase, part, seed, encoder)
                    models[f"{part.name}.{ENTRY_MATRIX}"] = Made(entries.name)
                    against[phase.name, part.name] = entries
                    # Entries made with an encoder that exists already serve all seeds.
                    steps += [entries] if entries.name not in [s.name for s in steps] else []
            name, config = trained_by(recipe, seed, phase.name), _config(recipe, phase, model_seed)
            steps.append(Step(name, train.STAGE, config, _inputs(resolved, phase), models))
        steps += _define_steps(recipe, against, seed, model_seed)
        phases = [phase.name for phase in recipe.train.phases]
        trained = {name: trained_by(recipe, seed, name) for name in phases}
        final = trained_by(recipe, seed) if phases else ""
        if recipe.whiten is not None:
            encoder = Made(final) if phases else model
            steps.append(_whiten_step(recipe, recipe.whiten, encoder, seed, model_seed))
            final = steps[-1].name
        vectors, candidates = [], []
        if recipe.choose is not None:
            models = {"model": Made(final), "untouched": model}
            # Vectors are made apart from the choice, so that an edited question encodes no passage
            # again.
            choosing = questions and "test" in recipe.evaluate.splits
            candidates = _candidates(recipe, models, seed) if choosing else []
            choice = _choose_step(recipe, recipe.choose, candidates, models, seed, model_seed)
            steps += [*candidates, choice]
            final = choice.name
        if not candidates:
            vectors = encoder_vectors(recipe, _of_seed(recipe, "encoder", seed), Made(final))
        earlier = trained.items() if recipe.evaluate.phases == "all" else ()
        for name, step in [*(pair for pair in earlier if pair[1] != final), ("encoder", final)]:
            after = base.model_copy(update={"model_seed": model_seed, "phase": name})
            inputs = {**measures, "baseline": ("evaluate.base",)}
            if step == final:
                inputs |= _vectors_of(vectors, questions)
                inputs |= {"passage_vectors": (final,)} if candidates else {}
                inputs |= {} if recipe.choose is None else {"choices": (final,)}
            name = _of_seed(recipe, f"evaluate.{name}", seed)
            steps.append(Step(name, evaluate.STAGE, after, inputs, {"model": Made(step)}))
        steps += vectors
    return steps


def _vectors_of(steps: Sequence[Step], questions: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The slot of the encoder's vectors of passages, if there are questions to passages."""
    return {step.stage.name: (step.name,) for step in steps if questions}


def _of_phase(resolved: Resolved, seed: int, index: int, *place: str | int) -> Model:
    """The model that the phase names at this place."""
    source = resolved.models["train", "phases", index, *place].source
    if isinstance(source, Trained):
        return Made(trained_by(resolved.recipe, seed, source.phase))
    return source


def _entries_step(
    recipe: Recipe, phase: PhaseConfig, part: PartConfig, seed: int, encoder: Model
) -> Step:
    """The matrix of the entries that the part trains against, built with this encoder."""
    name = phase.name if len(phase.parts) == 1 else f"{phase.name}.{part.name}"
    loss = part.params()
    assert isinstance(loss, Definition)
    trained = [Made(trained_by(recipe, seed, other.name)) for other in recipe.train.phases]
    of_seed = encoder in trained
    config = entry_matrix.EntryMatrixConfig(
        name=name,
        corpus=part.rows.source,
        entries=loss.entries,
        ica=loss.ica,
        ica_rows=None if loss.ica is None else loss.ica_rows,
        max_length=phase.max_length,
        precision=recipe.train.precision,
        trust_remote_code=recipe.train.trust_remote_code,
        model_seed=seed if of_seed else None,
    )
    step = f"{entry_matrix.STAGE.name}.{name}"
    if of_seed:
        step = _of_seed(recipe, step, seed)
    inputs = {**guarded("labelled", "labelled"), "entries": ("labelled",)}
    return Step(step, entry_matrix.STAGE, config, inputs, {"encoder": encoder})


def _define_steps(
    recipe: Recipe, against: Mapping[tuple[str, str], Step], seed: int, model_seed: int | None
) -> list[Step]:
    """Steps that rank entries for held-out definitions after each phase, and that make the entries.

    against: by phase and part, the entries that the part was trained against. If a later phase has
    made entries with this phase's encoder, no step makes them again.
    """
    steps = []
    for (phase, part), entries in against.items():
        trained = Made(trained_by(recipe, seed, phase))
        config = entries.config
        assert isinstance(config, entry_matrix.EntryMatrixConfig)
        pooled: Literal["cls", "mean"] = "cls" if config.entries == "cls" else "mean"
        entry_config = config.model_copy(update={"entries": pooled, "ica": None, "ica_rows": None})
        named = {"name", "model_seed"}
        content = entry_config.model_dump(exclude=named)
        same = (
            step
            for step in against.values()
            if step.models["encoder"] == trained
            and step.config.model_dump(exclude=named) == content
        )
        matrix = next(same, None)
        if matrix is None:
            name = _of_seed(recipe, f"{entry_matrix.STAGE.name}.{config.name}.own", seed)
            entry_config = entry_config.model_copy(
                update={"name": f"{config.name}.own", "model_seed": seed}
            )
            matrix = Step(
                name, entry_matrix.STAGE, entry_config, entries.inputs, {"encoder": trained}
            )
            steps.append(matrix)
        measured = define.DefineConfig(
            **config.model_dump(exclude={"model_seed"}),
            part=part,
            own=pooled,
            model_seed=model_seed,
        )
        models: dict[str, Model] = {
            "trained": trained,
            "encoder": entries.models["encoder"],
            "entry_matrix": Made(entries.name),
            "own_entries": Made(matrix.name),
        }
        step = _of_seed(recipe, f"{define.STAGE.name}.{config.name}", seed)
        inputs = {**guarded("labelled", "labelled"), "held_out_definitions": ("labelled",)}
        steps.append(Step(step, define.STAGE, measured, inputs, models))
    return steps


def _form(recipe: Recipe) -> dict[str, Any]:
    """The settings with which `evaluate` makes vectors."""
    return {key: getattr(recipe.evaluate, key) for key in ("pooling", "prompt", "precision")}


def _whiten_step(
    recipe: Recipe, settings: whiten.WhitenConfig, encoder: Model, seed: int, model_seed: int | None
) -> Step:
    """The whitening of an encoder's vectors, of texts in the form that is evaluated."""
    config = compiled(
        settings,
        **_form(recipe),
        corpora=tuple(corpus.name for corpus in recipe.unlabelled if corpus.role == "domain"),
        model_seed=model_seed,
        trust_remote_code=recipe.train.trust_remote_code,
        prompts=recipe.prompts,
    )
    name = _of_seed(recipe, "whiten", seed)
    return Step(name, whiten.STAGE, config, guarded("sentences"), {"encoder": encoder})


def _candidates(recipe: Recipe, models: Mapping[str, Model], seed: int) -> list[Step]:
    """The steps that make the passages' vectors by each candidate but the untouched encoder."""
    steps = []
    for mix in MIXES[1:]:
        name = _of_seed(recipe, f"mix{100 * mix:.0f}", seed)
        untouched = None if mix == 1 else models["untouched"]
        steps += encoder_vectors(recipe, name, models["model"], untouched, mix)
    return steps


def _choose_step(
    recipe: Recipe,
    settings: choose.ChooseConfig,
    candidates: Sequence[Step],
    models: Mapping[str, Model],
    seed: int,
    model_seed: int | None,
) -> Step:
    """The choice among the candidates. candidates: steps with their vectors of passages, if any."""
    measured = recipe.evaluate
    folders = {
        name: one
        for name, one in measured.retrieval_sets.items()
        if name not in measured.questions and "test" in measured.splits
    }
    config = compiled(
        settings,
        **_form(recipe),
        max_length=measured.max_length,
        bootstrap=measured.bootstrap,
        retrieval_sets=folders,
        prompts=recipe.prompts,
        cnn_seed=cnn_seed(recipe),
        model_seed=model_seed,
        trust_remote_code=recipe.train.trust_remote_code,
    )
    inputs: dict[str, tuple[str, ...]] = {}
    if candidates:
        base = f"{passage_vectors.STAGE.name}.{BASE}"
        names = [base, *(step.name for step in candidates)]
        slots = {choose.slot_of(mix): (name,) for mix, name in zip(MIXES, names, strict=True)}
        inputs = {**_JUDGED, **slots}
    return Step(_of_seed(recipe, choose.NAME, seed), choose.STAGE, config, inputs, models)


def trained_by(recipe: Recipe, seed: int, phase: str | None = None) -> str:
    """The name of the step that trains this phase (by default the last) with this seed."""
    phases = recipe.train.phases
    name = "train" if len(phases) == 1 else f"train.{phase or phases[-1].name}"
    return _of_seed(recipe, name, seed)


def _of_seed(recipe: Recipe, step: str, seed: int) -> str:
    return step if seed == recipe.seed else f"{step}.seed{seed}"


def _config(recipe: Recipe, phase: PhaseConfig, seed: int | None) -> TrainConfig:
    """The config with only what this phase's result depends on."""
    read = {part.name: _models_read(phase, part) for part in phase.parts}
    # The step's models identify the models by content, so the config leaves out their names.
    parts = tuple(
        part.model_copy(update={"models": dict.fromkeys(read[part.name], "")})
        for part in phase.parts
    )
    # The teacher encodes texts as `embed` does, which makes the evaluator's other cosines.
    form = FormSettings(pooling=recipe.embed.pooling, prompt=recipe.embed.prompt)
    teachers = {name: form for name, of in read.items() if of.get(TEACHER) == "evaluator"}
    phase = phase.model_copy(update={"parts": parts})
    shared = choice_facts(recipe, recipe.train.choose)
    return compiled(recipe.train, **shared, teachers=teachers, phase=phase, model_seed=seed)


def choice_facts(recipe: Recipe, choose: CheckpointConfig | None) -> dict[str, Any]:
    """The fields of a training's config by which its best step is chosen."""
    facts: dict[str, Any] = {"prompts": recipe.prompts}
    if choose is None:
        return facts
    if choose.by == "retrieval":
        return facts | {"max_pairs": recipe.evaluate.max_pairs}
    if choose.by == "fact_order":
        return facts | {"fact_order": recipe.evaluate.fact_order}
    if choose.by in CHOOSERS:
        return facts | {"suite": recipe.evaluate.suite}
    for key in ("sts_sets", "retrieval_sets"):
        facts[key] = {
            name: one
            for name, one in getattr(recipe.evaluate, key).items()
            if name == choose.by and name not in recipe.evaluate.questions
        }
    return facts


def choice_inputs(recipe: Recipe, choose: CheckpointConfig | None) -> dict[str, tuple[str, ...]]:
    """The tables by which a training's best step is chosen."""
    if choose is not None and choose.by == "retrieval":
        return {"document_pairs": ("ingest",)}
    if choose is not None and choose.by in recipe.evaluate.questions:
        return _JUDGED
    return {}


def _models_read(phase: PhaseConfig, part: PartConfig) -> dict[str, str]:
    """The models that the part's loss reads, by slot: models that the recipe names, and the
    evaluator as teacher if words are repeated.

    `select` stored the evaluator's cosine of the plain anchor, but the teacher has to read what the
    student reads (GCSE, figure 4).
    """
    reads_repeated = phase.word_repetition and part.rows.source == "triplets" and part.decays()
    return {**({TEACHER: "evaluator"} if reads_repeated else {}), **part.models}


def _inputs(resolved: Resolved, phase: PhaseConfig) -> dict[str, tuple[str, ...]]:
    """The tables that the phase's own parts read."""
    recipe, inputs = resolved.recipe, dict[str, tuple[str, ...]]()
    for rows in (part.rows for part in phase.parts):
        if rows.reads_triplets:
            inputs |= {**guarded("triplets", "select")}
            inputs |= {"sentences": ("ingest",)} if rows.corpora else {}
            if resolved.has_queries and rows.source in OF_TRIPLETS:
                inputs["passages"] = ("passages",)
        if rows.source == "queries":
            inputs |= {**guarded("triplets", "select"), "passages": ("passages",)}
        if rows.source == "anchors":
            inputs |= {**guarded("sentences"), "anchors": ("sample",)}
        elif rows.source == "document_pairs":
            inputs |= guarded("document_pairs")
            inputs |= {"documents": ("ingest",)} if rows.corpora else {}
        elif rows.source not in SOURCES:
            inputs |= guarded("labelled", "labelled")
        if rows.negatives is not None:
            steps = (*inputs.get("negatives", ()), negatives_step(rows))
            inputs["negatives"] = tuple(dict.fromkeys(steps))
            inputs["guarded_negatives"] = ("guard.negatives",)
    return inputs | choice_inputs(recipe, recipe.train.choose)
