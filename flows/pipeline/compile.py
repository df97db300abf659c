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
from tercet.flows.pipeline.training import choice_facts, choice_inputs, training_steps
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import GENSE, LLM, Made, Model, Resolved
from tercet.tasks import guarding
from tercet.tasks.config import compiled
from tercet.tasks.corpus import ingest, labelled, passages, sample
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
from tercet.tasks.scoring.scorers import MEASURES, filter_scorers
from tercet.tasks.stage import Stage
from tercet.tasks.synthesis import asking, fitted, parse, prompted, synthesise
from tercet.tasks.synthesis.methods import METHODS, SynthesiseConfig, check_params
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
        asks = compiled(recipe.extract_generate, llm=served(recipe.llm))
        lists = {"categories": asks.categories, "types": asks.types}
        reads = compiled(recipe.extract_parse, **lists)
        anchors, model = {**sentences, "anchors": ("sample",)}, weights_of(recipe.llm)
        answers = {"generations": ("extract_generate",), **sentences}
        steps.append(Step("extract_generate", extract_generate.STAGE, asks, anchors, model))
        steps.append(Step("extract_parse", extract_parse.STAGE, reads, answers))
    mentions = {"mentions": (steps[-1].name,)}
    kept = recipe.graph.keep
    return [*steps, Step("graph", graph.STAGE, compiled(recipe.graph), mentions, keep=kept)]


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
    stored = compiled(
        recipe.guard,
        # Tasks of mteb and files of one's own need no directory.
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
    # Nothing of theirs reaches the others.
    if corpora := [corpus for corpus in recipe.corpora if corpus.role == "pretrain"]:
        pretraining = compiled(
            recipe.ingest, corpora=corpora, role="pretrain", dev=PRETRAIN_DEV, test=0.0
        )
        steps.append(Step("ingest.pretrain", ingest.PRETRAIN, pretraining))
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
    # Those that ask one model stand together, so that each is served once.
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
        # A small model is asked in the few words that GenSE's is fitted to.
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
    texts = {"texts": tuple(step.name for step in steps)}
    return [*steps, Step("measure_generators", measure_generators.STAGE, settings, texts, models)]


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
