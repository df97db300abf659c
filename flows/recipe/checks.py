"""Checks of a whole recipe: keys that must fit each other, and keys that have moved."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tercet.flows.recipe.scoring import faults
from tercet.tasks.corpus.kinds.kind import columns_fault
from tercet.tasks.corpus.sources.reader import reader_of
from tercet.tasks.knowledge.extract import ExtractConfig
from tercet.tasks.synthesis.methods import METHOD_NAMES, PROMPTED_NAMES, check_params, method_of
from tercet.tasks.training.phases import (
    KINDS,
    OF_TRIPLETS,
    SOURCES,
    PhaseSettings,
    RowsConfig,
    unfit,
)

if TYPE_CHECKING:
    from tercet.flows.recipe.model import Recipe

_OF_THE_LOSS = ("tau", "width", "gate", "detach", "head")
_OF_THE_ROWS = ("corpora", "max_rows")

Place = tuple[str | int, ...]


class Misplaced(ValueError):
    """A fault in a whole recipe, with the place where a person would mend it."""

    def __init__(self, message: str, *location: str | int) -> None:
        super().__init__(message)
        self.location = location


def check(recipe: "Recipe") -> None:
    """Raises Misplaced for the first fault that involves several keys."""
    if recipe.seed + recipe.seeds > 2**32:
        raise Misplaced("seed + seeds must be at most 2³²", "seeds")
    names = [corpus.name for corpus in recipe.corpora]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise Misplaced(f"two corpora have the same name, {name!r}", "corpora", index)
    _labelled(recipe)
    _methods(recipe)
    _asking(recipe)
    _choosing(recipe)
    for index, phase in enumerate(recipe.train.phases):
        _models(recipe, index, phase)
        for number, part in enumerate(phase.parts):
            # In a phase written flat, the part's keys are in the phase itself.
            place: Place = ("train", "phases", index, "parts", number)
            _rows(recipe, phase, part.rows, place)
            columns = _columns(recipe, part.rows)
            if columns is not None and (fault := unfit(part, columns)):
                raise Misplaced(fault, *place, "rows")
    if recipe.evaluator is not None and recipe.evaluator.fit is not None:
        fit = recipe.evaluator.fit
        _selected(recipe, fit.corpora, fit.role, ("evaluator", "fit"))
    _selecting(recipe)
    if recipe.awareness is not None and recipe.ingest.dev == 0:
        raise Misplaced("`awareness` needs dev sentences, but `ingest.dev` is 0", "awareness")
    if recipe.awareness is not None and recipe.awareness.teacher == recipe.backbone:
        raise Misplaced(
            "the teacher is the backbone itself, so they always agree: name a stronger model",
            *("awareness", "teacher"),
        )
    if recipe.synthesise and recipe.evaluator is None:
        raise Misplaced(
            "there is no evaluator to score the candidates: name one under `evaluator`",
            "synthesise",
        )


def _labelled(recipe: "Recipe") -> None:
    """Some corpus must give sentences; a labelled one must name columns that its kind has."""
    if not recipe.unlabelled:
        raise Misplaced(
            "every corpus is labelled, so none gives sentences: add one of role domain or general",
            "corpora",
        )
    for index, corpus in enumerate(recipe.corpora):
        if corpus.role == "labelled" and corpus.name in SOURCES:
            raise Misplaced(
                f"{corpus.name} is the name of the recipe's own rows: give the labelled corpus "
                "another name",
                *("corpora", index),
            )
        fault = corpus.kind and columns_fault(corpus.kind, corpus.columns)
        if fault:
            raise Misplaced(fault, "corpora", index, "columns")


def _methods(recipe: "Recipe") -> None:
    for method, settings in recipe.synthesise.items():
        if method not in METHOD_NAMES:
            known = ", ".join(sorted(METHOD_NAMES))
            raise Misplaced(
                f"unknown method {method!r} under `synthesise`; known: {known}",
                *("synthesise", method),
            )
        _selected(recipe, settings.corpora, settings.role, ("synthesise", method))
        try:
            check_params(method, settings.params)
        except ValueError as error:
            cause = error.__context__
            place = cause.errors()[0]["loc"] if isinstance(cause, ValidationError) else ()
            raise Misplaced(str(error), "synthesise", method, *place) from None


def _selecting(recipe: "Recipe") -> None:
    """The names in `score` and `select` must exist, and each threshold must apply to something."""
    if recipe.mine is not None and recipe.select.pairing == "role":
        raise Misplaced(
            "mined negatives stand against positives on the topic, which pairing: role does not "
            "tell apart: leave mine out, or set select.pairing to relation",
            "mine",
        )
    if recipe.mine is not None and not any(
        method_of(name).relation == "topic" for name in recipe.synthesise
    ):
        raise Misplaced(
            "mined negatives stand against positives on the topic, and no method makes any: add "
            "one such as rest_of_paragraph under `synthesise`, or leave mine out",
            "mine",
        )
    for message, place in faults(recipe.score, recipe.select, list(recipe.synthesise)):
        raise Misplaced(message, *place)


def _asking(recipe: "Recipe") -> None:
    """Steps that ask a language model need one, and something that serves it."""
    asking: list[tuple[str, ...]] = [
        ("synthesise", name) for name in recipe.synthesise if name in PROMPTED_NAMES
    ]
    if recipe.extract_generate is not None:
        asking.insert(0, ("extract_generate",))
        if recipe.extract != ExtractConfig():
            raise Misplaced(
                "either rules extract (`extract`) or the language model (`extract_generate`)",
                "extract_generate",
            )
    if asking and recipe.llm is None:
        raise Misplaced(f"{asking[0][-1]} asks a language model: name it under `llm`", *asking[0])
    for name in (name for name in recipe.synthesise if name in PROMPTED_NAMES):
        params = recipe.synthesise[name].params
        drawn = params.get("temperature", recipe.llm.temperature if recipe.llm else None)
        if drawn == 0 and params.get("per_sentence", 1) > 1:
            raise Misplaced(
                f"at temperature 0 the model gives the same answer {params['per_sentence']} times",
                *("synthesise", name, "per_sentence"),
            )
    if recipe.llm is not None and recipe.llm.name is not None and not recipe.run.llm.endpoints:
        raise Misplaced(
            "a model given only by name must be served by an endpoint: list run.llm.endpoints, "
            "or give its files as `model`",
            *("llm", "name"),
        )


def _choosing(recipe: "Recipe") -> None:
    """A checkpoint is chosen on dev pairs or on a suite's dev set, which must exist."""
    choose = recipe.train.choose
    if choose is None:
        return
    if choose.by == "fact_order":
        if not recipe.evaluate.fact_order:
            raise Misplaced(
                "fact_order needs evaluate.fact_order, which names no file: name one with dev "
                "cases, or choose by retrieval",
                *("train", "choose", "by"),
            )
    elif choose.by != "retrieval":
        if recipe.evaluate.suite is None:
            raise Misplaced(
                f"{choose.by} needs evaluate.suite, which does not name a directory: name one, "
                "or choose by retrieval",
                *("train", "choose", "by"),
            )
    elif recipe.ingest.dev == 0:
        raise Misplaced(
            "there are no dev pairs to choose on, since ingest.dev is 0: raise it, or keep "
            "the last step's weights (--set train.choose=null)",
            *("train", "choose"),
        )
    elif not _paired(recipe):
        raise Misplaced(
            "there are no dev pairs to choose on, since no corpus has document pairs (query "
            "and answer): name these columns, or keep the last step's weights "
            "(--set train.choose=null)",
            *("train", "choose"),
        )


def _paired(recipe: "Recipe") -> bool:
    """Whether some corpus has document pairs."""
    return any(reader_of(corpus.source).has_pairs(corpus) for corpus in recipe.unlabelled)


def _models(recipe: "Recipe", index: int, phase: PhaseSettings) -> None:
    """The models that a phase starts from, or that its losses read, must exist before it."""
    of_phase: Place = ("train", "phases", index)
    named: list[tuple[str, Place]] = [(phase.backbone, (*of_phase, "backbone"))]
    for number, part in enumerate(phase.parts):
        place: Place = (*of_phase, "parts", number, "models")
        named += [(name, (*place, slot)) for slot, name in part.models.items()]
    for name, place in named:
        if name == "evaluator" and recipe.evaluator is None:
            raise Misplaced(
                "there is no evaluator to take: name one under `evaluator`, or leave this key out",
                *place,
            )
        if name in [later.name for later in recipe.train.phases[index:]]:
            raise Misplaced(
                f"the phase {name!r} does not come before this one: name an earlier phase",
                *place,
            )


def _rows(recipe: "Recipe", phase: PhaseSettings, rows: RowsConfig, place: Place) -> None:
    """The source of a phase's rows and the corpora that they select must exist."""
    if rows.source in OF_TRIPLETS and not recipe.synthesise:
        raise Misplaced(
            f"the phase {phase.name!r} trains on {rows.source}, but nothing is synthesised: list "
            "methods under `synthesise`, or train on a labelled corpus or on rows: anchors",
            *(*place, "rows"),
        )
    if rows.source == "document_pairs" and not _paired(recipe):
        raise Misplaced(
            f"the phase {phase.name!r} trains on document_pairs, but no corpus has any: name its "
            "columns query and answer",
            *(*place, "rows"),
        )
    if rows.source not in SOURCES:
        labelled = [corpus.name for corpus in recipe.labelled]
        if rows.source not in labelled:
            known = ", ".join([*SOURCES, *labelled])
            raise Misplaced(
                f"there are no rows {rows.source!r}: choose one of {known}, or list a labelled "
                "corpus of this name under `corpora`",
                *(*place, "rows"),
            )
    _selected(recipe, rows.corpora, rows.role, (*place, "rows"))


def _selected(recipe: "Recipe", corpora: Sequence[str], role: str | None, place: Place) -> None:
    """Corpora selected by name or by role must exist and give sentences."""
    names = [corpus.name for corpus in recipe.unlabelled]
    for name in corpora:
        if name in [corpus.name for corpus in recipe.labelled]:
            raise Misplaced(
                f"the corpus {name!r} is labelled and gives no sentences: leave it out",
                *(*place, "corpora"),
            )
        if name not in names:
            raise Misplaced(
                f"there is no corpus {name!r}, only: {', '.join(names)}", *(*place, "corpora")
            )
    if role is not None and role not in [corpus.role for corpus in recipe.corpora]:
        raise Misplaced(
            f"no corpus has the role {role}: give it to one under `corpora`", *(*place, "role")
        )


def _columns(recipe: "Recipe", rows: RowsConfig) -> tuple[str, ...] | None:
    """The columns of a source's rows; None if only the corpus itself shows them."""
    if rows.source in SOURCES:
        return SOURCES[rows.source]
    corpus = next(corpus for corpus in recipe.corpora if corpus.name == rows.source)
    return KINDS.get(str(getattr(corpus, "kind", None)))


def refuse_moved(content: Mapping[str, Any]) -> None:
    """Raises Misplaced for a key that has moved, naming its new place."""
    if "start" in content:
        mend = "leave it out, since the first phase starts from the recipe's backbone"
        if content["start"] == "evaluator":
            mend = "write `backbone: evaluator` in the first phase of `train.phases`"
        raise Misplaced(f"this key has moved: {mend}", "start")
    train = content.get("train")
    if not isinstance(train, Mapping):
        return
    if "triplets" in train:
        raise Misplaced(
            "a file of triplets is now a labelled corpus: list {name: NAME, source: FILE, role: "
            "labelled, kind: triplets} under `corpora`, and write `rows: NAME` in the phase",
            *("train", "triplets"),
        )
    phases = train.get("phases")
    for index, phase in enumerate(phases if isinstance(phases, list) else []):
        if isinstance(phase, Mapping):
            _refuse_moved_of_phase(phase, ("train", "phases", index))


def _refuse_moved_of_phase(phase: Mapping[str, Any], place: Place) -> None:
    rows, loss = phase.get("rows", "triplets"), phase.get("loss", "gaussian_decay")
    if rows == "dropout":
        raise Misplaced("this source is now called anchors: write `rows: anchors`", *place, "rows")
    if loss == "contrastive":
        raise Misplaced("this loss is now called in_batch: write `loss: in_batch`", *place, "loss")
    if "start" in phase:
        said = "base" if phase["start"] == "backbone" else "previous"
        raise Misplaced(f"this key has moved: write `backbone: {said}`", *place, "start")
    if "decay" in phase:
        raise Misplaced(
            "this key is gone: write `loss: {name: gaussian_decay, width: 0}` for no decay, and "
            "leave it out otherwise",
            *(*place, "decay"),
        )
    for key in _OF_THE_LOSS:
        if key in phase:
            name = loss.get("name", "gaussian_decay") if isinstance(loss, Mapping) else loss
            raise Misplaced(
                "this key now belongs to the loss: write "
                f"`loss: {{name: {name}, {key}: {_written(phase[key])}}}`",
                *(*place, key),
            )
    for key in _OF_THE_ROWS:
        if key in phase:
            source = rows.get("from", "triplets") if isinstance(rows, Mapping) else rows
            raise Misplaced(
                f"this key now belongs to the rows: write `rows: {{from: {source}, {key}: "
                f"{_written(phase[key])}}}`",
                *(*place, key),
            )


def _written(value: Any) -> str:
    """The value as YAML, on one line."""
    return json.dumps(value, default=str)
