"""Steps that train the encoder, one per phase, whiten it, and evaluate it before and after.

A phase that trains on definitions has further steps: the matrix of the entries that it trains
against, the entries that its own encoder makes, and what held-out definitions find among both.
"""

from collections.abc import Mapping
from typing import Any, Literal

from tercet.flows.pipeline.corpus import of_role
from tercet.flows.pipeline.evaluation import own_measures
from tercet.flows.pipeline.guarding import guarded
from tercet.flows.pipeline.named_models import model_named
from tercet.flows.pipeline.scoring import evaluator
from tercet.flows.pipeline.step import Made, Model, Step
from tercet.flows.recipe.model import Recipe
from tercet.models.encoders.pooling import FormSettings
from tercet.models.losses.definition import SLOT, Definition
from tercet.models.losses.gaussian_decay import TEACHER
from tercet.tasks.evaluation import define, evaluate
from tercet.tasks.training import entry_matrix, train, whiten
from tercet.tasks.training.phases import (
    OF_TRIPLETS,
    SOURCES,
    PartConfig,
    PhaseConfig,
    PhaseSettings,
    RowsConfig,
)

Inputs = dict[str, tuple[str, ...]]


def training_steps(recipe: Recipe) -> list[Step]:
    """The phases of each seed in order, and the evaluations of their encoders."""
    if not recipe.train.phases and recipe.whiten is None:
        return []
    pairs: Inputs = {"document_pairs": ("ingest",), "questions": ("ingest",)}
    if recipe.awareness is not None:
        pairs["awareness"] = ("awareness",)
    pairs |= {step.name: (step.name,) for step in own_measures(recipe)}
    measured = recipe.evaluate.model_dump(exclude={"phases", "halves", "halves_min_words"})
    measured["trust_remote_code"] = recipe.train.trust_remote_code
    base = evaluate.EvaluateConfig(**measured)
    model: Mapping[str, Model] = {"model": model_named(recipe, recipe.backbone)}
    steps = [Step("evaluate.base", evaluate.STAGE, base, pairs, model)]
    for seed in range(recipe.seed, recipe.seed + recipe.seeds):
        trained: dict[str, str] = {}
        against: dict[tuple[str, str], Step] = {}
        # The first seed's steps are those of a one-seed recipe, so that these are reused.
        own = None if seed == recipe.seed else seed
        for phase in recipe.train.phases:
            step = trained_by(recipe, seed, phase.name)
            config = _config(recipe, phase, own)
            models = {"backbone": _model(recipe, phase, seed, phase.backbone)}
            for part in phase.parts:
                for slot, name in _models_read(phase, part).items():
                    models[f"{part.name}.{slot}"] = _model(recipe, phase, seed, name)
                if SLOT in part.models:
                    entries = _entries_step(recipe, phase, part, seed)
                    models[f"{part.name}.{SLOT}"] = Made(entries.name)
                    # One built with what exists already serves all seeds.
                    steps += [entries] if entries.name not in [s.name for s in steps] else []
                    against[phase.name, part.name] = entries
            steps.append(Step(step, train.STAGE, config, _inputs(recipe, phase), models))
            trained[phase.name] = step
        steps += _define_steps(recipe, against, seed, own)
        if recipe.whiten is not None:
            steps.append(_whiten_step(recipe, recipe.whiten, seed, own))
        final = _last(recipe, seed)
        earlier = trained if recipe.evaluate.phases == "all" else {}
        evaluated = {name: step for name, step in earlier.items() if step != final}
        evaluated["encoder"] = final
        steps += [
            Step(
                _of_seed(recipe, f"evaluate.{name}", seed),
                evaluate.STAGE,
                evaluate.EvaluateConfig(**measured, model_seed=own, phase=name),
                {**pairs, "baseline": ("evaluate.base",)},
                {"model": Made(step)},
            )
            for name, step in evaluated.items()
        ]
    return steps


def _entries_step(recipe: Recipe, phase: PhaseSettings, part: PartConfig, seed: int) -> Step:
    """The matrix of the entries that the part trains against, built with the encoder it names."""
    name = phase.name if len(phase.parts) == 1 else f"{phase.name}.{part.name}"
    encoder = _model(recipe, phase, seed, part.models[SLOT])
    loss = part.params()
    assert isinstance(loss, Definition)
    trained = [trained_by(recipe, seed, other.name) for other in recipe.train.phases]
    of_seed = isinstance(encoder, Made) and encoder.step in trained
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
    own = dict.fromkeys(("labelled", "entries"), ("labelled",))
    inputs = {**own, **guarded(recipe, "labelled")}
    return Step(step, entry_matrix.STAGE, config, inputs, {"encoder": encoder})


def _define_steps(
    recipe: Recipe, against: Mapping[tuple[str, str], Step], seed: int, own: int | None
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
        wanted = config.model_copy(update={"entries": pooled, "ica": None, "ica_rows": None})
        made = next((s for s in against.values() if _same_entries(s, wanted, trained)), None)
        if made is None:
            name = _of_seed(recipe, f"{entry_matrix.STAGE.name}.{config.name}.own", seed)
            wanted = wanted.model_copy(update={"name": f"{config.name}.own", "model_seed": seed})
            made = Step(name, entry_matrix.STAGE, wanted, entries.inputs, {"encoder": trained})
            steps.append(made)
        measured = define.DefineConfig(
            **config.model_dump(exclude={"model_seed"}),
            part=part,
            own=pooled,
            model_seed=own,
        )
        models: dict[str, Model] = {
            "trained": trained,
            "encoder": entries.models["encoder"],
            "entry_matrix": Made(entries.name),
            "own_entries": Made(made.name),
        }
        step = _of_seed(recipe, f"{define.STAGE.name}.{config.name}", seed)
        rows = dict.fromkeys(("labelled", "held_out_definitions"), ("labelled",))
        inputs = {**rows, **guarded(recipe, "labelled")}
        steps.append(Step(step, define.STAGE, measured, inputs, models))
    return steps


def _same_entries(step: Step, wanted: Any, encoder: Model) -> bool:
    """Whether the step makes these entries with this encoder, whatever it calls them."""
    named = {"name", "model_seed"}
    same = step.config.model_dump(exclude=named) == wanted.model_dump(exclude=named)
    return same and step.models["encoder"] == encoder


def _whiten_step(
    recipe: Recipe, settings: whiten.WhitenSettings, seed: int, own: int | None
) -> Step:
    """The whitening of what the seed's last phase leaves, or else of the backbone.

    Texts are encoded in the form that is evaluated.
    """
    form = recipe.evaluate.model_dump(include={"pooling", "prompt", "precision"})
    config = whiten.WhitenConfig(
        **settings.model_dump(),
        **form,
        corpora=of_role(recipe, "domain"),
        model_seed=own,
        trust_remote_code=recipe.train.trust_remote_code,
    )
    inputs = {"sentences": ("ingest",), **guarded(recipe, "sentences")}
    models: dict[str, Model] = {"encoder": model_named(recipe, recipe.backbone)}
    if recipe.train.phases:
        models = {"encoder": Made(trained_by(recipe, seed))}
    return Step(_of_seed(recipe, "whiten", seed), whiten.STAGE, config, inputs, models)


def trained_by(recipe: Recipe, seed: int, phase: str | None = None) -> str:
    """The name of the step that trains this phase (by default the last) with this seed."""
    phases = recipe.train.phases
    name = "train" if len(phases) == 1 else f"train.{phase or phases[-1].name}"
    return _of_seed(recipe, name, seed)


def _last(recipe: Recipe, seed: int) -> str:
    """The name of the step that makes the seed's final encoder."""
    whitened = recipe.whiten is not None
    return _of_seed(recipe, whiten.STAGE.name, seed) if whitened else trained_by(recipe, seed)


def sources(recipe: Recipe) -> tuple[str, ...]:
    """The sources of the rows of all phases."""
    found = [source for phase in recipe.train.phases for source in phase.sources()]
    return tuple(dict.fromkeys(found))


def on_triplets(recipe: Recipe) -> bool:
    """Whether any phase reads triplets."""
    return any(p.rows.reads_triplets for phase in recipe.train.phases for p in phase.parts)


def labelled(recipe: Recipe) -> bool:
    """Whether any phase trains on a labelled corpus."""
    return any(source not in SOURCES for source in sources(recipe))


def _of_seed(recipe: Recipe, step: str, seed: int) -> str:
    return step if seed == recipe.seed else f"{step}.seed{seed}"


def _config(recipe: Recipe, phase: PhaseSettings, seed: int | None) -> train.TrainConfig:
    """The config with only what this phase's result depends on."""
    shared: dict[str, Any] = recipe.train.model_dump(exclude={"phases", "max_length"})
    own = phase.model_dump(exclude={"backbone"})
    teachers: dict[str, FormSettings] = {}
    for part, given in zip(own["parts"], phase.parts, strict=True):
        part["rows"] |= {"corpora": _corpora(recipe, given.rows), "role": None}
        # Which model it is stands among the step's models, by its content.
        read = _models_read(phase, given)
        part["models"] = dict.fromkeys(read, "")
        if read.get(TEACHER) == "evaluator":
            # As the texts' vectors are made, from which its other cosines come.
            teachers[given.name] = FormSettings(
                pooling=recipe.embed.pooling, prompt=recipe.embed.prompt
            )
    choose = recipe.train.choose
    if choose is not None and choose.by == "retrieval":
        shared["max_pairs"] = recipe.evaluate.max_pairs
    elif choose is not None and choose.by == "fact_order":
        shared["fact_order"] = recipe.evaluate.fact_order
    elif choose is not None and choose.by not in train.CHOICES:
        shared["sts_sets"] = {choose.by: recipe.evaluate.sts_sets[choose.by]}
    elif choose is not None:
        shared["suite"] = recipe.evaluate.suite
    return train.TrainConfig(
        **shared,
        phase=PhaseConfig.model_validate(own),
        model_seed=seed,
        teachers=teachers,
    )


def _models_read(phase: PhaseConfig, part: PartConfig) -> dict[str, str]:
    """The models that the part's loss reads, by its slots: those that the recipe names, and the
    evaluator as teacher where words are repeated.

    What `select` stored is the evaluator's cosine of the plain anchor, and the teacher has to read
    what the student reads (GCSE, figure 4).
    """
    told = phase.word_repetition and part.rows.source == "triplets" and part.decays()
    return {**({TEACHER: "evaluator"} if told else {}), **part.models}


def _corpora(recipe: Recipe, rows: RowsConfig) -> tuple[str, ...]:
    """The names of the corpora that the rows are limited to; empty: all."""
    if rows.role is None:
        return rows.corpora
    return tuple(corpus.name for corpus in recipe.corpora if corpus.role == rows.role)


def _model(recipe: Recipe, phase: PhaseSettings, seed: int, name: str) -> Model:
    """The model that the phase calls by this name: its backbone, or one that a loss reads."""
    names = [other.name for other in recipe.train.phases]
    place = names.index(phase.name)
    if name == "evaluator":
        return evaluator(recipe)
    if name in names[:place]:
        return Made(trained_by(recipe, seed, name))
    if name == "previous" and place:
        return Made(trained_by(recipe, seed, names[place - 1]))
    if name in ("previous", "base"):
        return model_named(recipe, recipe.backbone)
    return model_named(recipe, name)


def _inputs(recipe: Recipe, phase: PhaseSettings) -> Inputs:
    """The tables that the phase's own parts read."""
    inputs: Inputs = {}
    for part in phase.parts:
        source, chosen = part.rows.source, bool(_corpora(recipe, part.rows))
        if part.rows.reads_triplets:
            inputs["triplets"] = ("select",)
            inputs |= {"sentences": ("ingest",)} if chosen else {}
            inputs |= guarded(recipe, "triplets")
        if source == "anchors":
            inputs |= {"sentences": ("ingest",), "anchors": ("sample",)}
            inputs |= guarded(recipe, "sentences")
        elif source == "document_pairs":
            inputs["document_pairs"] = ("ingest",)
            inputs |= {"documents": ("ingest",)} if chosen else {}
            inputs |= guarded(recipe, "document_pairs")
        elif source not in OF_TRIPLETS:
            inputs["labelled"] = ("labelled",)
            inputs |= guarded(recipe, "labelled")
    choose = recipe.train.choose
    if choose is not None and choose.by == "retrieval":
        inputs["document_pairs"] = ("ingest",)
    return inputs
