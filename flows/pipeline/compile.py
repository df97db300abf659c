"""Compiles a recipe into its steps, each with its stage, config and inputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tercet.flows.pipeline.retrieval import EVALUATOR, NEGATIVES, evaluator_vectors, negatives_steps
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
from tercet.flows.pipeline.training import training_steps
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import GENSE, LLM, Made, Model, Resolved
from tercet.tasks import guarding
from tercet.tasks.corpus import ingest, labelled, passages, sample
from tercet.tasks.corpus.sources.corpora import IngestConfig, PretrainIngestConfig
from tercet.tasks.evaluation import (
    awareness,
    halves,
    judgements,
    labels,
    measure_generators,
    paraphrase,
)
from tercet.tasks.evaluation.evaluate import list_tasks, measures_texts
from tercet.tasks.evaluation.suites.sts import STS_TASKS
from tercet.tasks.knowledge import extract, extract_generate, extract_parse, graph
from tercet.tasks.scoring import embed, mine, select
from tercet.tasks.scoring.scorers import filter_scorers
from tercet.tasks.scoring.select_checks import MEASURES, asks_probability
from tercet.tasks.stage import Stage
from tercet.tasks.synthesis import asking, fitted, parse, prompted, synthesise
from tercet.tasks.synthesis.methods import METHODS, MethodSettings
from tercet.tasks.training import (
    count_tokens,
    fit_evaluator,
    fit_generator,
    fit_gense,
    fit_pair,
    pretrain,
)
from tercet.tasks.training.fit_gense import FitGenseConfig, GensePrompts

# Left out of a run if nothing reads them.
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
        asks = extract_generate.ExtractGenerateConfig(
            **recipe.extract_generate.model_dump(), llm=served(recipe.llm)
        )
        reads = extract_parse.ExtractParseConfig(
            **recipe.extract_parse.model_dump(), categories=asks.categories, types=asks.types
        )
        anchors, model = {**sentences, "anchors": ("sample",)}, weights_of(recipe.llm)
        answers = {"generations": ("extract_generate",), **sentences}
        steps.append(Step("extract_generate", extract_generate.STAGE, asks, anchors, model))
        steps.append(Step("extract_parse", extract_parse.STAGE, reads, answers))
    mentions = {"mentions": (steps[-1].name,)}
    made = Step("graph", graph.STAGE, graph.GraphConfig(), mentions, keep=recipe.graph.keep)
    return [*steps, made]


# Made only for what reads them.
_ON_DEMAND = (
    *("guard.sentences", "guard.document_pairs", "guard.triplets", "guard.negatives"),
    *("fit_evaluator", EVALUATOR),
)
# What nothing reads is left out of a run.
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
    """Those of a recipe's steps that `target` needs, by default all that are read.

    Raises: BadInput for an unknown target.
    """
    return without_unread(steps, _UNREAD) if target is None else until(steps, target)


def left_out(every: Sequence[Step], steps: Sequence[Step]) -> str | None:
    """One line for those of a recipe's steps that a whole run leaves out; None if there are none.

    every: the recipe's steps. steps: those that the run makes.
    """
    made = {step.name for step in steps}
    unread = [step.name for step in every if step.name not in made]
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
        made, place = settings.made, ("models", name, settings.maker)
        models = {slot: resolved.models[*place, slot].model for slot in made.models()}
        given: dict[str, Any] = {"name": name}
        inputs: dict[str, tuple[str, ...]] = {}
        if settings.maker == "pretrain":
            stage = pretrain.STAGE
            if pretrained & {*made.corpora}:
                inputs = {"pretrain_sentences": ("ingest.pretrain",)}
            if {*made.corpora} - pretrained:
                inputs["sentences"] = ("ingest",)
        elif settings.maker == "count_tokens":
            stage, inputs = count_tokens.STAGE, {"sentences": ("ingest",)}
        elif settings.maker == "fit_pair":
            assert resolved.evaluator is not None
            stage, models = fit_pair.STAGE, {"evaluator": resolved.evaluator}
            made = fit_pair.FitPairConfig(**made.model_dump(), **recipe.embed.model_dump())
            inputs = guarded("labelled", "labelled")
        elif made.form == GENSE:
            stage, inputs = fit_gense.STAGE, guarded("labelled", "labelled")
        else:
            pairs = tuple(one for one in made.pairs.corpora if one in labelled)
            texts = tuple(one for one in made.pairs.corpora if one not in labelled)
            stage = fit_generator.STAGE
            own = {"labelled": pairs, "sentences": texts}
            given["pairs"] = made.pairs.model_copy(update=own)
            inputs = guarded("labelled", "labelled") if pairs else {}
            inputs |= guarded("sentences") if texts else {}
        config = made.model_copy(update=given)
        steps.append(Step(f"{settings.maker}.{name}", stage, config, inputs, models))
    if resolved.evaluator == Made("fit_evaluator"):
        fit = recipe.evaluator and recipe.evaluator.fit
        assert fit is not None
        backbone = {"backbone": resolved.models["backbone",].model}
        inputs = guarded("sentences")
        steps.append(Step("fit_evaluator", fit_evaluator.STAGE, fit, inputs, backbone))
    return steps


# What is searched, by which stage, and the step that makes it.
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
    choose = recipe.train.choose
    stored = guarding.GuardConfig(
        **recipe.guard.model_dump(),
        # Tasks of mteb and files of one's own need no directory.
        suite=recipe.evaluate.suite or Path(),
        tasks=list_tasks(recipe.evaluate),
        splits=recipe.evaluate.splits,
        chosen_on=() if choose is None or choose.by not in STS_TASKS else (choose.by,),
        fact_order=tuple(recipe.evaluate.fact_order.items()),
        sts_sets=tuple(recipe.evaluate.sts_sets.items()),
        retrieval_sets=tuple(recipe.evaluate.retrieval_sets.items()),
        **recipe.embed.model_dump(),
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
    steps, settings = [], recipe.ingest.model_dump(exclude={"passages", "keep"})
    if corpora := list(recipe.unlabelled):
        shares = [
            sample.CorpusShare(
                **corpus.model_dump(include={"name", "role", "share", "min_context_sentences"})
            )
            for corpus in corpora
        ]
        texts = IngestConfig(corpora=corpora, **settings)
        anchors = sample.SampleConfig(
            corpora=shares, **recipe.sample.model_dump(exclude={"passages", "keep"})
        )
        steps.append(Step("ingest", ingest.STAGE, texts, keep=recipe.ingest.keep))
        sentences, keep = {"sentences": ("ingest",)}, recipe.sample.keep
        steps.append(Step("sample", sample.STAGE, anchors, sentences, keep=keep))
        if (wanted := recipe.ingest.passages) is not None:
            cut = passages.PassagesConfig(
                **wanted.model_dump(),
                corpora=corpora,
                max_line_bytes=recipe.ingest.max_line_bytes,
            )
            backbone = resolved.models.get(("backbone",))
            models = {} if backbone is None else {"tokenizer": backbone.model}
            documents = {"documents": ("ingest",)}
            steps.append(Step("passages", passages.STAGE, cut, documents, models))
    # Nothing of theirs reaches the others.
    if corpora := [corpus for corpus in recipe.corpora if corpus.role == "pretrain"]:
        own = PretrainIngestConfig(corpora=corpora, **settings | {"dev": PRETRAIN_DEV, "test": 0.0})
        steps.append(Step("ingest.pretrain", ingest.PRETRAIN, own))
    # None of their rows is in dev or test.
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
            # What searches among them is encoded as they are.
            (made,) = evaluator_vectors(recipe, resolved.evaluator)
            config, models = made.config, {**made.models}
        steps.append(Step(f"score.{name}", scorer.stage, config, inputs, models))
    if recipe.mine is not None:
        steps.append(Step("mine", mine.STAGE, recipe.mine, candidates | vectors))
    return [*steps, _select_step(resolved)]


def _select_step(resolved: Resolved) -> Step:
    """The selection, which reads only the scorers that it uses; adding others changes nothing."""
    recipe = resolved.recipe
    asked: dict[str, str | None] = {}
    for measure in MEASURES:
        own = [name for name, (scorer, _) in resolved.scorers.items() if scorer.measure == measure]
        if own and (measure == "similarity" or asks_probability(recipe.select)):
            asked[measure] = getattr(recipe.select, measure) or own[0]
        else:
            asked[measure] = None
    ranked = [] if recipe.select.rank_max is None else filter_scorers("rank", resolved.scorers)
    scores = [f"score.{name}" for name in (*asked.values(), *ranked) if name is not None]
    inputs = {
        "candidates": ("parse", "mine"),
        "scores": (*dict.fromkeys(scores), "mine"),
        "sentences": ("ingest",),
        "document_pairs": ("ingest",),
    }
    if resolved.has_queries:
        inputs["passages"] = ("passages",)
    below = {"mined_below": recipe.mine.below} if recipe.mine is not None else {}
    given = {**asked, **below, "by_similarity": asked["similarity"] is not None}
    config = select.PairedConfig(**recipe.select.model_dump() | given)
    return Step("select", select.STAGE, config, inputs)


def synthesis_steps(resolved: Resolved) -> list[Step]:
    recipe, steps = resolved.recipe, []
    if not recipe.synthesise:
        return []
    extracted = "extract" if recipe.extract_generate is None else "extract_parse"
    methods = {**recipe.synthesise}
    if recipe.select.pairing == "role":
        # The fallback for a missing negative is a candidate like any other.
        methods.setdefault("random", MethodSettings())
    pipeline = recipe.extract.pipeline
    language = None if pipeline is None else extract.pipeline_of(pipeline).language
    sources = {"mentions": extracted, "sentence_categories": extracted}
    sources |= {"graph": "graph", "pool": "ingest"}
    for method, settings in methods.items():
        described = resolved.methods.get(method) or METHODS[method]
        inputs = {"sentences": ("ingest",), "anchors": ("sample",)}
        inputs |= {slot: (sources[slot],) for slot in described.needs if slot in sources}
        given = {"method": method, **settings.model_dump(exclude={"role"})}
        if "mentions" in described.needs:
            given["language"] = language
        step = f"{synthesise.NAME}.{method}"
        if described.each == "passages":
            drawn = recipe.sample.passages
            given["passages"] = drawn
            inputs = {"passages": ("passages",)}
            if drawn is not None or described.open_passages is not None:
                inputs["every_passage"] = ("passages",)
        if method in resolved.writers:
            stage, config, models = _asked(resolved, method, given)
            steps.append(Step(step, stage, config, inputs, models))
        elif described.each == "passages":
            config = synthesise.OverPassagesConfig(**given)
            steps.append(Step(step, synthesise.OVER_PASSAGES, config, inputs))
        else:
            config = synthesise.SynthesiseConfig(**given)
            steps.append(Step(step, synthesise.STAGE, config, inputs))
    texts = tuple(step.name for step in steps)
    # Those that ask one model stand together, so that each is served once.
    names = [LLM, *recipe.generators]
    steps.sort(key=lambda step: names.index(writer(step) or LLM))
    read = {"generations": texts, "sentences": ("ingest",)}
    return [*steps, Step("parse", parse.STAGE, recipe.parse, read)]


def _asked(
    resolved: Resolved, method: str, given: dict[str, Any]
) -> tuple[Stage, synthesise.SynthesiseConfig, dict[str, Model]]:
    """The stage, config and models of a method that the language model or a generator answers."""
    recipe, name, params = resolved.recipe, resolved.writers[method], given["params"]
    if name == LLM:
        assert recipe.llm is not None
        sampling = asking.sampling_of(recipe.llm, params).model_dump()
        given |= {"params": {**params, **sampling}, "llm": served(recipe.llm)}
        if resolved.methods[method].each == "passages":
            over = prompted.PromptedOverPassagesConfig(**given)
            return prompted.OVER_PASSAGES, over, weights_of(recipe.llm)
        config = prompted.PromptedConfig(**given)
        return prompted.STAGE, config, weights_of(recipe.llm)
    settings, model = recipe.generators[name], resolved.models["generators", name, "model"]
    decoding = settings.decoding()
    sampling = asking.sampling_of(decoding, params).model_dump()
    if method in fit_gense.METHODS and params.get("prompt") is None:
        # A small model is asked in the few words that GenSE's is fitted to.
        fit = model.settings
        prompts = fit.prompts if isinstance(fit, FitGenseConfig) else GensePrompts()
        params = {**params, "prompt": str(prompts.path(method))}
    given |= {
        "params": {**params, **sampling},
        "decoding": decoding.model_copy(update=sampling),
        "precision": settings.precision,
    }
    return fitted.STAGE, fitted.FittedConfig(**given), {fitted.SLOT: model.model}


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
    for name, own in recipe.generators.items():
        found = resolved.models["generators", name, "model"]
        if found.form == GENSE:
            continue
        asked = paraphrase.ParaphraseConfig(
            name=name, decoding=own.decoding(), precision=own.precision, **of_pairs
        )
        inputs, model = {"labelled": ("labelled",)}, {"generator": found.model}
        steps.append(Step(f"paraphrase.{name}", paraphrase.STAGE, asked, inputs, model))
    models = {
        str(place[1]): found.model
        for place, found in resolved.models.items()
        if place[0] == "measure_generators"
    }
    config = measure_generators.MeasureGeneratorsConfig(bootstrap=settings.bootstrap)
    texts = {"texts": tuple(step.name for step in steps)}
    return [*steps, Step("measure_generators", measure_generators.STAGE, config, texts, models)]


def own_measures(recipe: Recipe) -> list[Step]:
    """The steps that make measures of the corpora's own texts, under the slots of `evaluate`."""
    steps = []
    if recipe.evaluate.halves and recipe.unlabelled:
        # Sentences of no field, which a recipe brings along, say nothing about the user's texts.
        own = tuple(corpus.name for corpus in recipe.unlabelled if corpus.role == "domain")
        cut = halves.HalvesConfig(corpora=own, min_words=recipe.evaluate.halves_min_words)
        steps.append(Step("halves", halves.STAGE, cut, {"sentences": ("ingest",)}))
    columns = {corpus.name: corpus.labels for corpus in recipe.unlabelled if corpus.labels}
    if columns:
        inputs = {"sentences": ("ingest",), "documents": ("ingest",)}
        steps.append(Step("labels", labels.STAGE, labels.LabelsConfig(columns=columns), inputs))
    return steps


def judgement_steps(recipe: Recipe) -> list[Step]:
    """The step that finds what answers questions of one's own; before all that takes long."""
    tables, choose = recipe.evaluate.questions, recipe.train.choose
    if not tables:
        return []
    asked = judgements.JudgementsConfig(
        sets=tables,
        splits=recipe.evaluate.splits,
        chosen_on=choose.by if choose is not None and choose.by in tables else None,
        corpora=list(recipe.unlabelled),
        max_line_bytes=recipe.ingest.max_line_bytes,
    )
    return [Step(judgements.NAME, judgements.STAGE, asked, {"passages": ("passages",)})]
