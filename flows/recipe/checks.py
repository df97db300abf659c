"""Checks of a whole recipe: keys that must fit each other."""

import re
from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from tercet.errors import TercetError
from tercet.flows.recipe.faults import Idle, Misplaced, Place, kind_of_fault, of_parameter
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import GENSE, LLM, Resolved
from tercet.models.encoders.settings import CNN, cnn_form
from tercet.models.errors import Unusable, suggest
from tercet.models.generation import Method
from tercet.models.losses.registry import TEACHER
from tercet.tasks.corpus.kind_registry import columns_fault
from tercet.tasks.corpus.sources.registry import reader_of
from tercet.tasks.knowledge.extract import ExtractConfig, pipeline_of
from tercet.tasks.scoring.scorers import MEASURES, SCORERS, filter_scorers, scorers
from tercet.tasks.scoring.select import JUDGED, RANDOM, RelationConfig, several
from tercet.tasks.synthesis import fitted, prompted
from tercet.tasks.synthesis.asking import sampling_of
from tercet.tasks.synthesis.methods import METHODS, check_params, method_of
from tercet.tasks.training.choosers import CHOOSERS
from tercet.tasks.training.fit_gense import METHODS as GENSE_METHODS
from tercet.tasks.training.phases import KINDS, OF_TRIPLETS, SOURCES, PartConfig, unfit

# Names that a method may have, since its step's folder bears the name; names in `_TAKEN` have
# another meaning.
_METHOD_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}")
_TAKEN = ("mined", "self", "extract")


def check_keys(recipe: Recipe) -> Iterator[Misplaced]:
    """Faults of keys, as far as they show before names of models and corpora are resolved."""
    if recipe.seed + recipe.seeds > 2**32:
        yield Misplaced("bad_value", "seed + seeds must be at most 2³²", "seeds")
    names = [corpus.name for corpus in recipe.corpora]
    for index, corpus in enumerate(recipe.corpora):
        if corpus.name in names[:index]:
            fault = f"two corpora have the same name, {corpus.name!r}"
            yield Misplaced("conflict", fault, "corpora", index)
        if corpus.role == "labelled" and corpus.name in SOURCES:
            yield Misplaced(
                "conflict",
                f"{corpus.name} is the name of the recipe's own rows: give the labelled corpus "
                "another name",
                *("corpora", index),
            )
        if corpus.kind and (fault := columns_fault(corpus.kind, corpus.columns) or ""):
            yield Misplaced("missing_key", fault, "corpora", index, "columns")
    if recipe.evaluate.questions and recipe.ingest.passages is None:
        fault = "questions are asked of passages, and there are none: add ingest: {passages: {}}"
        yield Misplaced(
            "missing_key",
            fault,
            "evaluate",
            "retrieval_sets",
            next(iter(recipe.evaluate.questions)),
        )
    yield from _check_purpose(recipe)
    methods = {}
    for name in recipe.synthesise:
        faults = list(_check_method(recipe, name))
        yield from faults
        if not faults:
            methods[name] = method_of(name, recipe.synthesise[name])
    yield from _check_choice(recipe)
    if recipe.choose is not None and recipe.whiten is not None:
        yield Misplaced(
            "conflict",
            "a whitened encoder has no weights in common with the untouched one to be mixed: "
            "leave choose or whiten out",
            "choose",
        )
    yield from _check_heads(recipe)
    yield from _check_scorers(recipe, methods)
    yield from _check_select(recipe, methods)
    yield from _check_negatives(recipe)


def check_resolved(resolved: Resolved) -> Iterator[Misplaced]:
    """Faults in the use of models and corpora."""
    recipe = resolved.recipe
    yield from _check_asking(resolved)
    yield from _check_language(resolved)
    for index, phase in enumerate(recipe.train.phases):
        if phase.max_steps is not None and (phase.warmup_steps or 0) >= phase.max_steps:
            yield Idle(
                f"the phase ends after {phase.max_steps} steps, so learning_rate is never reached",
                *("train", "phases", index, "warmup_steps"),
            )
        for number, part in enumerate(phase.parts):
            yield from _check_rows(
                resolved, phase.name, part, ("train", "phases", index, "parts", number)
            )
    if recipe.awareness is not None and recipe.awareness.teacher == recipe.backbone:
        yield Misplaced(
            "conflict",
            "the teacher is the backbone itself, so they always agree: name a stronger model",
            *("awareness", "teacher"),
        )


def _check_purpose(recipe: Recipe) -> Iterator[Misplaced]:
    """Training and whitening need a backbone; a recipe without them must make models."""
    if recipe.train.phases or recipe.whiten is not None:
        if recipe.backbone is None:
            uses = "training starts from" if recipe.train.phases else "is to be whitened"
            yield Misplaced(
                "missing_key", f"the key is missing: name the model that {uses}", "backbone"
            )
        if not recipe.unlabelled:
            roles = " or ".join(sorted({corpus.role for corpus in recipe.corpora}))
            yield Misplaced(
                "no_rows",
                f"every corpus is {roles}, so none gives sentences: add one of role domain or "
                "general",
                "corpora",
            )
    elif all(settings.maker is None for settings in recipe.models.values()):
        yield Misplaced(
            "missing_key",
            "the key is missing, and nothing under `models` is made either: write `train: {}` to "
            "train with the defaults",
            "train",
        )


def _check_method(recipe: Recipe, method: str) -> Iterator[Misplaced]:
    settings = recipe.synthesise[method]
    if not _METHOD_NAME.fullmatch(method) or method in _TAKEN:
        yield Misplaced(
            "bad_value",
            f"{method!r} cannot be a method's name: write another, of letters, digits, dashes and "
            "underscores",
            *("synthesise", method),
        )
    try:
        check_params(method, settings)
    except ValueError as error:
        cause = error.__context__
        if not isinstance(cause, ValidationError):
            yield Misplaced("unknown_name", str(error), "synthesise", method)
            return
        parameters = ", ".join(method_of(method, settings).params.model_fields) or "none"
        for fault in cause.errors():
            yield Misplaced(
                kind_of_fault(fault),
                f"{method}: {of_parameter(fault)} (the method's parameters: {parameters})",
                *("synthesise", method, *fault["loc"]),
            )
        return
    described, passages = method_of(method, settings), recipe.ingest.passages
    if described.each == "passages" and passages is None:
        yield Misplaced(
            "missing_key",
            f"{method} writes queries to passages, and there are none: set `ingest: {{passages: "
            "{}}`, or leave it out",
            *("synthesise", method),
        )
    key = "as_anchor" if described.as_anchor else "unit" if described.unit == "passage" else None
    if recipe.select.pairing == "role" and key is not None:
        written = (key,) if key in settings.params else ()
        yield Misplaced(
            "conflict",
            "pairing: role pairs texts of one sentence, but this method changes the anchor: set "
            f"select.pairing to relation, or leave {key if written else method} out",
            *("synthesise", method, *written),
        )


def _check_scorers(recipe: Recipe, methods: Mapping[str, Method]) -> Iterator[Misplaced]:
    """The scorers must exist, and the recipe must have the data that they read and rank."""
    for name, settings in recipe.score.items():
        if name not in SCORERS:
            choices = f"{suggest(name, SCORERS)}; known: {', '.join(SCORERS)}"
            yield Misplaced("unknown_name", f"unknown scorer {name!r}{choices}", "score", name)
            continue
        try:
            SCORERS[name].stage.config.model_validate(settings or {})
        except ValidationError as error:
            for fault in error.errors():
                message = f"{name}: {of_parameter(fault)}"
                yield Misplaced(kind_of_fault(fault), message, "score", name, *fault["loc"])
        reads = SCORERS[name].reads
        if {"embeddings", "passage_vectors"} & {*reads} and recipe.evaluator is None:
            yield Misplaced(
                "missing_key",
                f"{name} reads the vectors of an evaluator, and there is none: name one under "
                "`evaluator`, or leave this scorer out",
                *("score", name),
            )
        if "passage_vectors" in reads and settings:
            yield Misplaced(
                "conflict",
                f"{name} has no settings, since it encodes queries as the passages are encoded: "
                f"write `{name}: {{}}`, and set `embed` and `prompts`",
                *("score", name),
            )
        if "passage_vectors" in reads and all(m.each != "passages" for m in methods.values()):
            yield Misplaced(
                "missing_key",
                f"{name} ranks passages for their queries, and no method writes any: list one such "
                "as title under `synthesise`, or leave this scorer out",
                *("score", name),
            )


def _check_select(recipe: Recipe, methods: Mapping[str, Method]) -> Iterator[Misplaced]:
    """A scorer must decide about candidates, and named scorers and methods must exist and apply."""
    select = recipe.select
    if recipe.mine is not None and select.pairing == "role":
        yield Misplaced(
            "conflict",
            "mined negatives stand against positives on the topic, which pairing: role does not "
            "tell apart: leave mine out, or set select.pairing to relation",
            "mine",
        )
    named = [n for n in scorers(recipe.score, recipe.evaluator is not None) if n in SCORERS]
    for measure in MEASURES:
        givers, chosen = filter_scorers(measure, named), getattr(select, measure)
        if chosen is not None and chosen not in givers:
            which = f"only {', '.join(givers)} does" if givers else "no scorer of this recipe does"
            yield Misplaced(
                "unknown_name",
                f"{chosen!r} does not give {measure}, {which}: list a scorer that does under "
                "`score`, or leave the key out",
                *("select", measure),
            )
        if chosen is None and len(givers) > 1:
            yield Misplaced("conflict", several(measure, givers), "select", measure)
    compared = any(method.each == "sentences" for method in methods.values())
    if compared and not filter_scorers("similarity", named) and not select.bounds_probability:
        yield Misplaced(
            "missing_key",
            "there is no evaluator to score the candidates: name one under `evaluator`, or let a "
            "judge decide (`score.gense`, and select.p_min)",
            "synthesise",
        )
    for relation, thresholds in select.relations.items():
        texts, negative = f"texts of the relation {relation}", relation in ("alters", "other")
        place: Place = ("select", "relations", relation)
        yield from _find_idle(thresholds, relation, negative, select.both_roles, texts, place)
    for name, thresholds in select.methods.items():
        method, place = methods.get(name) or METHODS.get(name), ("select", "methods", name)
        if method is None:
            yield Misplaced("unknown_name", _unknown(name, methods), *place)
            continue
        if methods and name != RANDOM and name not in methods:
            yield Idle(f"the recipe does not use the method {name}", *place)
        negative, texts = method.purpose == "negative", f"the texts of {name}"
        both = select.both_roles and name != RANDOM
        yield from _find_idle(thresholds, method.relation, negative, both, texts, place)


def _find_idle(
    thresholds: RelationConfig,
    relation: str,
    negative: bool,
    both: bool,
    texts: str,
    place: Place,
) -> Iterator[Idle]:
    """Thresholds that apply to no role or relation that the texts have.

    negative: whether the texts are negatives. both: whether they are tried in both roles. texts: a
        description of the texts.
    """
    if thresholds.p_min is not None and relation not in JUDGED:
        yield Idle(
            f"p_min never applies, since {texts} neither keep nor alter the meaning",
            *(*place, "p_min"),
        )
    key = "positive_min" if negative else "negative_max"
    if not both and getattr(thresholds, key) is not None:
        role = "negatives" if negative else "positives"
        yield Idle(f"{key} never applies, since {texts} are {role}", *place, key)


def _unknown(name: str, methods: Mapping[str, Method]) -> str:
    """The message about a method that does not exist."""
    names = sorted({*METHODS, *methods})
    return f"unknown method {name!r}{suggest(name, names)}; known: {', '.join(names)}"


def _check_choice(recipe: Recipe) -> Iterator[Misplaced]:
    """A checkpoint is chosen on dev pairs or on a suite's dev set, which must exist."""
    measured = recipe.evaluate
    for index, phase in enumerate(recipe.train.phases):
        if phase.weight_interpolation and recipe.train.choose is not None:
            yield Misplaced(
                "conflict",
                "train.choose measures the weights before they are blended with the starting ones, "
                "so it would choose by weights that are not kept: leave out one of the two keys",
                *("train", "phases", index, "weight_interpolation"),
            )
    reads: dict[str, tuple[bool, str]] = {
        **dict.fromkeys(CHOOSERS, (measured.suite is not None, "evaluate.suite, a directory")),
        "fact_order": (bool(measured.fact_order), "evaluate.fact_order, files with dev cases"),
        "retrieval": (
            recipe.ingest.dev > 0 and _has_pairs(recipe),
            "document pairs of dev: a corpus with query and answer, and ingest.dev above 0",
        ),
        **dict.fromkeys((*measured.sts_sets, *measured.retrieval_sets), (True, "")),
    }
    for place, choose in recipe.step_choices.items():
        if choose.by not in reads:
            yield Misplaced(
                "unknown_name",
                f"there is no {choose.by!r} to choose by{suggest(choose.by, reads)}; known: "
                f"{', '.join(CHOOSERS)}, and the names under evaluate.sts_sets and "
                "evaluate.retrieval_sets",
                *(*place, "by"),
            )
        elif not reads[choose.by][0]:
            yield Misplaced(
                "missing_key",
                f"{choose.by} chooses by {reads[choose.by][1]}, which the recipe lacks: add it, or "
                f"keep the last step's weights (--set {'.'.join(place)}=null)",
                *place,
            )


def _check_heads(recipe: Recipe) -> Iterator[Misplaced]:
    """A token_cnn must be trained if a loss decodes its vectors, and measured as it was trained."""
    trained, measured = recipe.train.pooling, recipe.evaluate.pooling
    losses = [part.loss["name"] for phase in recipe.train.phases for part in phase.parts]
    form = None if trained is None else cnn_form(trained)
    # Without `pooling` the backbone's own stays, which may be a token_cnn.
    if "token_reconstruction" in losses and trained is not None and form is None:
        yield Misplaced(
            "conflict",
            f"the loss token_reconstruction decodes vectors of pooling: {CNN}: set this key to "
            f"{CNN}",
            *("train", "pooling"),
        )
    other = None if measured is None else cnn_form(measured)
    if recipe.train.phases and form is not None and other is not None and other != form:
        yield Misplaced(
            "conflict",
            f"{CNN} differs from train.pooling, which the weights are trained with: write the same "
            "in both",
            *("evaluate", "pooling"),
        )


def _has_pairs(recipe: Recipe) -> bool:
    """Whether some corpus has document pairs."""
    return any(reader_of(corpus.source).has_pairs(corpus) for corpus in recipe.unlabelled)


def _check_language(resolved: Resolved) -> Iterator[Misplaced]:
    """Methods must read the language of the pipeline that names entities."""
    name = resolved.recipe.extract.pipeline
    if name is None:
        return
    try:
        language = pipeline_of(name).language
    except TercetError as error:
        yield Misplaced(error.kind, str(error).rstrip("."), "extract", "pipeline")
        return
    methods = [name for name, method in resolved.methods.items() if not method.reads(language)]
    if methods:
        yield Misplaced(
            "conflict",
            f"the language of extract.pipeline is {language!r}, which these methods do not know: "
            f"leave {', '.join(methods)} out",
            *("synthesise", methods[0]),
        )
    if resolved.recipe.awareness is not None:
        yield Misplaced(
            "conflict",
            "awareness changes what the lexicon found: leave it or extract.pipeline out",
            "awareness",
        )


def _check_rows(
    resolved: Resolved, phase: str, part: PartConfig, place: Place
) -> Iterator[Misplaced]:
    """The source of a part's rows must exist, and have the columns that its loss reads."""
    recipe, rows, loss = resolved.recipe, part.rows, part.resolved()
    place_of_rows: Place = (*place, "rows")
    labelled = {corpus.name: corpus for corpus in recipe.labelled}
    draws_texts = rows.draw is not None and rows.reads_triplets
    if draws_texts and all(m.relation != "keeps" for m in resolved.methods.values()):
        yield Misplaced(
            "missing_key",
            f"the phase {phase!r} draws generations, but no method writes texts that keep the "
            "meaning: list one under `synthesise`, or set the share `generated` to 0",
            *(*place_of_rows, "draw", "generated"),
        )
    of_sentences = [m for m in resolved.methods.values() if m.each == "sentences"]
    if rows.source in OF_TRIPLETS and not of_sentences:
        state = "only queries are" if recipe.synthesise else "nothing is"
        other = "rows: queries" if recipe.synthesise else "a labelled corpus or on rows: anchors"
        yield Misplaced(
            "missing_key",
            f"the phase {phase!r} trains on {rows.source}, but {state} synthesised: list "
            f"methods under `synthesise`, or train on {other}",
            *place_of_rows,
        )
    if rows.source == "queries" and not resolved.has_queries:
        listed = ", ".join(name for name, one in METHODS.items() if one.each == "passages")
        yield Misplaced(
            "missing_key",
            f"the phase {phase!r} trains on queries, but no method writes any: list one under "
            f"`synthesise` ({listed}), with `ingest: {{passages: {{}}}}`",
            *place_of_rows,
        )
    if rows.source == "document_pairs" and not _has_pairs(recipe):
        yield Misplaced(
            "missing_key",
            f"the phase {phase!r} trains on document_pairs, but no corpus has any: name its "
            "columns query and answer",
            *place_of_rows,
        )
    if rows.source not in SOURCES and rows.source not in labelled:
        choices = ", ".join([*SOURCES, *labelled])
        yield Misplaced(
            "unknown_name",
            f"there are no rows {rows.source!r}: choose one of {choices}, or list a labelled "
            "corpus of this name under `corpora`",
            *place_of_rows,
        )
        return
    if rows.positive is not None and "positive" not in loss.texts:
        yield Idle(f"the loss {part.loss['name']} reads no positive", *(*place_of_rows, "positive"))
    kind = None if rows.source in SOURCES else labelled[rows.source].kind
    # The columns of any other kind show only in the corpus itself.
    columns = SOURCES.get(rows.source, KINDS.get(str(kind)))
    if columns is not None and rows.negatives is not None:
        columns = (*columns, "negative")
    if columns is not None and (fault := unfit(part, columns)):
        yield Misplaced("conflict", fault, *place_of_rows)
    if kind == "scored" and rows.positive is None and "positive" in loss.texts:
        yield Misplaced(
            "conflict",
            f"the corpus {rows.source!r} is scored, and {part.loss['name']} would take its pairs "
            "of a low label for positives too: write those of a high label alone into a corpus of "
            "kind pairs",
            *place_of_rows,
        )
    reads = part.decays() and TEACHER not in part.models
    if recipe.evaluator is None and rows.source == "triplets" and reads:
        yield Misplaced(
            "missing_key",
            f"the loss {part.loss['name']} reads the evaluator's cosine of each negative, and "
            "there is no evaluator: name one under `evaluator`, or take another loss such as "
            "info_nce",
            *(*place, "loss"),
        )


def _check_negatives(recipe: Recipe) -> Iterator[Misplaced]:
    if recipe.negatives is not None:
        if recipe.ingest.passages is None:
            yield Misplaced(
                "missing_key",
                "negatives are mined among passages, and there are none: write `passages: {}` "
                "under `ingest`, or leave negatives out",
                "negatives",
            )
        if recipe.negatives.by != "bm25" and recipe.evaluator is None:
            yield Misplaced(
                "missing_key",
                "negatives are found by the evaluator's vectors, and there is none: name one under "
                "`evaluator`, or find them by: bm25",
                *("negatives", "by"),
            )
    for index, phase in enumerate(recipe.train.phases):
        for number, part in enumerate(phase.parts):
            place = ("train", "phases", index, "parts", number, "rows", "negatives")
            if part.rows.negatives is not None:
                yield from _check_part(recipe, part, part.rows.negatives, place)


def _check_part(
    recipe: Recipe, part: PartConfig, negatives: int, place: Place
) -> Iterator[Misplaced]:
    loss = part.resolved()
    if recipe.negatives is None:
        yield Misplaced(
            "missing_key",
            "nothing mines negatives: write `negatives: {}` in the recipe, or leave this key out",
            *place,
        )
    elif negatives > recipe.negatives.k:
        yield Misplaced(
            "conflict",
            f"no row has more than {recipe.negatives.k}: raise negatives.k to {negatives}, or "
            "lower this key",
            *place,
        )
    if "negative" in loss.texts and negatives > 1:
        yield Misplaced(
            "conflict",
            f"the loss {loss.name} takes one negative a row: set this key to 1, or train with "
            "info_nce, which takes any number",
            *place,
        )
    if "negative" not in (*loss.texts, *loss.optional):
        yield Misplaced(
            "no_effect",
            f"the loss {loss.name} reads no negatives: leave this key out, or train with info_nce",
            *place,
        )


def _check_asking(resolved: Resolved) -> Iterator[Misplaced]:
    """Steps that ask the language model need a model and a server for it; steps that ask a
    generator need a generator that can answer."""
    recipe = resolved.recipe
    asking: list[Place] = [("synthesise", m) for m, who in resolved.writers.items() if who == LLM]
    if recipe.extract_generate is not None:
        asking.insert(0, ("extract_generate",))
        if recipe.extract != ExtractConfig():
            yield Misplaced(
                "conflict",
                "either rules extract (`extract`) or the language model (`extract_generate`)",
                "extract_generate",
            )
    if asking and recipe.llm is None:
        yield Misplaced(
            "missing_key", f"{asking[0][-1]} asks a language model: name it under `llm`", *asking[0]
        )
    for place in asking:
        params = recipe.synthesise[str(place[-1])].params if place[1:] else {}
        times = params.get("per_unit", 1)
        if times > 1 and recipe.llm is not None and not sampling_of(recipe.llm, params).by_seed:
            fault = f"at temperature 0 the model gives the same answer {times} times"
            yield Misplaced("conflict", fault, *place, "per_unit")
    if recipe.llm is not None and recipe.llm.name is not None and not recipe.run.llm.endpoints:
        yield Misplaced(
            "missing_key",
            "a model given only by name must be served by an endpoint: list run.llm.endpoints, "
            "or give its files as `model`",
            *("llm", "name"),
        )
    if LLM in recipe.generators:
        yield Misplaced(
            "conflict",
            "llm is the name of the recipe's language model: give the generator another",
            *("generators", LLM),
        )
    for method, name in resolved.writers.items():
        if name != LLM:
            yield from _check_generator(resolved, method, name)
        elif recipe.synthesise[method].params.get("generator", LLM) != LLM:
            yield Idle(
                f"{method} asks the language model about passages, and a generator answers "
                "sentences",
                *("synthesise", method, "generator"),
            )


def _check_generator(resolved: Resolved, method: str, name: str) -> Iterator[Misplaced]:
    """The generator that a method names must exist and be able to answer the method."""
    recipe, place = resolved.recipe, ("synthesise", method)
    if name not in recipe.generators:
        choices = ", ".join([LLM, *recipe.generators])
        yield Misplaced(
            "unknown_name",
            f"there is no generator {name!r}: choose one of {choices}, or list it under "
            "`generators`",
            *(*place, "generator"),
        )
        return
    params, settings = recipe.synthesise[method].params, recipe.generators[name]
    model = resolved.models.get(("generators", name, "model"))
    if model is None:
        return
    if model.form == GENSE and method not in GENSE_METHODS:
        yield Misplaced(
            "unfit_model",
            f"the generator {name!r} is of form {GENSE}, which writes "
            f"{' and '.join(GENSE_METHODS)} alone: name another",
            *(*place, "generator"),
        )
    if params.get("prompt") and model.form == GENSE:
        yield Misplaced(
            "conflict",
            f"{method} is asked in the words that the generator was fitted to: leave this prompt "
            f"out, or fit it to this file (prompts.{method})",
            *(*place, "prompt"),
        )
    elif params.get("prompt") and method in fitted.FROM_SENTENCE:
        yield Idle(f"{method} gives a generator the sentence alone", *(*place, "prompt"))
    if params.get("shots") not in (None, prompted.BUILTIN):
        yield Idle("a generator is shown no worked examples", *(*place, "shots"))
    if model.maker is None:
        # The files of a generator without a maker are checked later.
        return
    if model.maker != "fit_generator":
        yield Misplaced(
            "unfit_model",
            f"{settings.model} is made by {model.maker}, which fits no generator: name a model "
            "that fit_generator makes",
            *("generators", name, "model"),
        )
        return
    times, stage = params.get("per_unit", 1), model.settings
    noise = model.form != GENSE and stage.writes_with_noise
    if times > 1 and not noise and not sampling_of(settings.decoding(), params).by_seed:
        yield Misplaced(
            "conflict",
            f"at temperature 0 the generator writes the same text {times} times: give it a "
            "higher temperature, or ask once",
            *(*place, "per_unit"),
        )
    try:
        fitted.check_method(method, name, follows_prompts=model.form == GENSE)
        form = "t5" if model.form == GENSE else str(model.form)
        fitted.check_backend(name, settings.backend, form)
    except Unusable as error:
        yield Misplaced(error.kind, str(error).rstrip("."), *place, "generator")
