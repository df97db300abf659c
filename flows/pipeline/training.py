"""Steps that train the encoder, one per phase, whiten it or choose how much of the training is
shipped, and evaluate it before and after.

A phase that trains on definitions has further steps: the matrix of the entries that it trains
against, the entries that its own encoder makes, and what held-out definitions find among both.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tercet.flows.pipeline.retrieval import BASE, cnn_seed, encoder_vectors, negatives_step
from tercet.flows.pipeline.step import Step, guarded
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.resolved import Made, Model, Resolved, Trained
from tercet.models.encoders.settings import FormSettings
from tercet.models.losses.registry import ENTRY_MATRIX, TEACHER, Definition
from tercet.tasks.config import compiled
from tercet.tasks.encoders import MIXES
from tercet.tasks.evaluation import define, evaluate
from tercet.tasks.retrieval import passage_vectors
from tercet.tasks.training import choose, entry_matrix, train, whiten
from tercet.tasks.training.choosers import CHOOSERS
from tercet.tasks.training.phases import OF_TRIPLETS, SOURCES, PartConfig, PhaseConfig
from tercet.tasks.training.train_settings import CheckpointConfig, TrainConfig

Inputs = dict[str, tuple[str, ...]]
# What `evaluate` reads of the corpora's own, where the recipe has it.
_MEASURES = {
    **dict.fromkeys(("document_pairs", "questions"), ("ingest",)),
    **{name: (name,) for name in ("awareness", "halves", "labels")},
}
_JUDGED: Inputs = {name: (name,) for name in ("judgements", "passages")}


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
    measures: Inputs = {**_MEASURES, **(_JUDGED if questions else {})}
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
        # The first seed's steps are those of a one-seed recipe, so that these are reused.
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
                    # One built with what exists already serves all seeds.
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
            # Made apart from the choice, so that an edited question encodes no passage again.
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


def _vectors_of(steps: Sequence[Step], questions: Mapping[str, Any]) -> Inputs:
    """The slot of the encoder's vectors of passages, where questions are asked of these."""
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
    """What held-out definitions find after each phase, and the entries that its encoder makes.

    against: by phase and part, the entries that the part was trained against. Those that a later
    phase has made with this one's encoder are taken from there.
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
    """How `evaluate` makes vectors."""
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
    inputs: Inputs = {}
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
    # Which models they are stands among the step's models, by their content.
    parts = tuple(
        part.model_copy(update={"models": dict.fromkeys(read[part.name], "")})
        for part in phase.parts
    )
    # As the texts' vectors are made, from which the evaluator's other cosines come.
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


def choice_inputs(recipe: Recipe, choose: CheckpointConfig | None) -> Inputs:
    """The tables by which a training's best step is chosen."""
    if choose is not None and choose.by == "retrieval":
        return {"document_pairs": ("ingest",)}
    if choose is not None and choose.by in recipe.evaluate.questions:
        return _JUDGED
    return {}


def _models_read(phase: PhaseConfig, part: PartConfig) -> dict[str, str]:
    """The models that the part's loss reads, by its slots: those that the recipe names, and the
    evaluator as teacher where words are repeated.

    What `select` stored is the evaluator's cosine of the plain anchor, and the teacher has to read
    what the student reads (GCSE, figure 4).
    """
    reads_repeated = phase.word_repetition and part.rows.source == "triplets" and part.decays()
    return {**({TEACHER: "evaluator"} if reads_repeated else {}), **part.models}


def _inputs(resolved: Resolved, phase: PhaseConfig) -> Inputs:
    """The tables that the phase's own parts read."""
    recipe, inputs = resolved.recipe, Inputs()
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
