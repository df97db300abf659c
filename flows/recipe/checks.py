"""Checks of a whole recipe: keys that must fit each other."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

from tercet.flows.recipe import discriminators, model_checks
from tercet.flows.recipe.misplaced import Misplaced, Place
from tercet.flows.recipe.scoring import faults
from tercet.flows.recipe.wording import nearest_said, of_parameter
from tercet.models.encoders.pooling import CNN, cnn_form
from tercet.models.losses.gaussian_decay import TEACHER
from tercet.models.losses.token_reconstruction import NAME as RECONSTRUCTION
from tercet.tasks.corpus.kinds.kind import columns_fault
from tercet.tasks.corpus.sources.reader import reader_of
from tercet.tasks.synthesis.methods import METHOD_NAMES, check_params, method_of
from tercet.tasks.training.count_tokens import CountTokensSettings
from tercet.tasks.training.phases import (
    KINDS,
    OF_TRIPLETS,
    SOURCES,
    PhaseSettings,
    RowsConfig,
    unfit,
)
from tercet.tasks.training.train import CHOICES

if TYPE_CHECKING:
    from tercet.flows.recipe.model import Recipe


def check(recipe: "Recipe") -> None:
    """Raises Misplaced for the first fault that involves several keys."""
    if recipe.seed + recipe.seeds > 2**32:
        raise Misplaced("seed + seeds must be at most 2³²", "seeds")
    names = [corpus.name for corpus in recipe.corpora]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise Misplaced(f"two corpora have the same name, {name!r}", "corpora", index)
    model_checks.check_names(recipe)
    _trained(recipe)
    _labelled(recipe)
    _methods(recipe)
    model_checks.check_asking(recipe)
    _choosing(recipe)
    _heads(recipe)
    for name, settings in recipe.models.items():
        if settings.count_tokens is not None:
            _counting(recipe, settings.count_tokens, ("models", name, "count_tokens"))
    for index, phase in enumerate(recipe.train.phases):
        model_checks.check_phase(recipe, index, phase)
        for number, part in enumerate(phase.parts):
            # In a phase written flat, the part's keys are in the phase itself.
            place: Place = ("train", "phases", index, "parts", number)
            _rows(recipe, phase, part.rows, place)
            if part.rows.positive is not None and "positive" not in part.resolved().texts:
                raise Misplaced(
                    f"the loss {part.loss['name']} reads no positive: leave this key out",
                    *(*place, "rows", "positive"),
                )
            columns = _columns(recipe, part.rows)
            if columns is not None and (fault := unfit(part, columns)):
                raise Misplaced(fault, *place, "rows")
            paired = "positive" in part.resolved().texts and part.rows.positive is None
            if paired and _kind(recipe, part.rows) == "scored":
                raise Misplaced(
                    f"the corpus {part.rows.source!r} is scored, and {part.loss['name']} would "
                    "take its pairs of a low label for positives too: write those of a high label "
                    "alone into a corpus of kind pairs",
                    *(*place, "rows"),
                )
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
    if recipe.evaluator is None:
        _without_evaluator(recipe)


def _without_evaluator(recipe: "Recipe") -> None:
    """What compares vectors of candidates has none."""
    if recipe.mine is not None:
        raise Misplaced(
            "mined negatives are found by the evaluator's vectors, and there is none: name one "
            "under `evaluator`, or leave mine out",
            "mine",
        )
    if recipe.guard.embedding_min is not None and recipe.guard.encoder is None:
        raise Misplaced(
            "the guard has nothing to encode texts with: name guard.encoder or an evaluator, or "
            "leave this key out",
            *("guard", "embedding_min"),
        )
    for index, phase in enumerate(recipe.train.phases):
        for number, part in enumerate(phase.parts):
            reads = part.decays() and TEACHER not in part.models
            if part.rows.source == "triplets" and reads:
                raise Misplaced(
                    f"the loss {part.loss['name']} reads the evaluator's cosine of each negative, "
                    "and there is no evaluator: name one under `evaluator`, or take another loss "
                    "such as in_batch",
                    *("train", "phases", index, "parts", number, "loss"),
                )


def _trained(recipe: "Recipe") -> None:
    """Training and whitening need a backbone; else only models of the recipe's own are made."""
    if recipe.train.phases or recipe.whiten is not None:
        if recipe.backbone is None:
            uses = "training starts from" if recipe.train.phases else "is to be whitened"
            raise Misplaced(f"the key is missing: name the model that {uses}", "backbone")
        return
    if all(settings.maker is None for settings in recipe.models.values()):
        raise Misplaced(
            "the key is missing, and nothing under `models` is made either: write `train: {}` to "
            "train with the defaults",
            "train",
        )
    judges = any(settings.fit_pair is not None for settings in recipe.models.values())
    for key in ("backbone", "synthesise", "evaluator", "awareness"):
        if key == "evaluator" and judges:
            continue
        if getattr(recipe, key):
            raise Misplaced(
                "without `train` nothing uses this key: write `train: {}`, or leave it out", key
            )


def _labelled(recipe: "Recipe") -> None:
    """Some corpus must give sentences; a labelled one must name columns that its kind has."""
    if not recipe.unlabelled and (recipe.train.phases or recipe.whiten is not None):
        roles = " or ".join(sorted({corpus.role for corpus in recipe.corpora}))
        raise Misplaced(
            f"every corpus is {roles}, so none gives sentences: add one of role domain or general",
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
                f"unknown method {method!r} under `synthesise`"
                f"{nearest_said(method, METHOD_NAMES)}; known: {known}",
                *("synthesise", method),
            )
        _selected(recipe, settings.corpora, settings.role, ("synthesise", method))
        try:
            check_params(method, settings.params)
        except ValueError as error:
            cause = error.__context__
            if not isinstance(cause, ValidationError):
                raise Misplaced(str(error), "synthesise", method) from None
            fault = cause.errors()[0]
            known = ", ".join(method_of(method).params.model_fields) or "none"
            raise Misplaced(
                f"{method}: {of_parameter(fault)} (the method's parameters: {known})",
                *("synthesise", method, *fault["loc"]),
            ) from None


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
    evaluator = recipe.evaluator is not None
    for message, place in faults(recipe.score, recipe.select, list(recipe.synthesise), evaluator):
        raise Misplaced(message, *place)
    for message, place in discriminators.scorer_faults(recipe):
        raise Misplaced(message, *place)


def _choosing(recipe: "Recipe") -> None:
    """A checkpoint is chosen on dev pairs or on a suite's dev set, which must exist."""
    choose = recipe.train.choose
    if choose is None:
        return
    for index, phase in enumerate(recipe.train.phases):
        if phase.start_share:
            raise Misplaced(
                "train.choose measures the weights before the starting ones are blended in, and "
                "so chooses by others than the phase leaves: leave one of both keys out",
                *("train", "phases", index, "start_share"),
            )
    if choose.by == "fact_order":
        if not recipe.evaluate.fact_order:
            raise Misplaced(
                "fact_order needs evaluate.fact_order, which names no file: name one with dev "
                "cases, or choose by retrieval",
                *("train", "choose", "by"),
            )
    elif choose.by not in CHOICES:
        known = [*CHOICES, *recipe.evaluate.sts_sets]
        if choose.by not in known:
            raise Misplaced(
                f"there is no {choose.by!r} to choose by{nearest_said(choose.by, known)}; known: "
                f"{', '.join(CHOICES)}, and the names under evaluate.sts_sets",
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


def _heads(recipe: "Recipe") -> None:
    """A token_cnn is trained where its vectors are decoded, and measured as it was trained."""
    trained, measured = recipe.train.pooling, recipe.evaluate.pooling
    losses = [part.loss["name"] for phase in recipe.train.phases for part in phase.parts]
    form = None if trained is None else cnn_form(trained)
    # Without a pooling the backbone's own stays, which may be one.
    if RECONSTRUCTION in losses and trained is not None and form is None:
        raise Misplaced(
            f"the loss {RECONSTRUCTION} decodes vectors of pooling: {CNN}: set this key to {CNN}",
            *("train", "pooling"),
        )
    other = None if measured is None else cnn_form(measured)
    if recipe.train.phases and form is not None and other is not None and other != form:
        raise Misplaced(
            f"{CNN} has other numbers here than under train.pooling, and trained weights fit those "
            "alone: write the same in both",
            *("evaluate", "pooling"),
        )


def _paired(recipe: "Recipe") -> bool:
    """Whether some corpus has document pairs."""
    return any(reader_of(corpus.source).has_pairs(corpus) for corpus in recipe.unlabelled)


def _rows(recipe: "Recipe", phase: PhaseSettings, rows: RowsConfig, place: Place) -> None:
    """The source of a phase's rows and the corpora that they select must exist."""
    draws_texts = rows.draw is not None and rows.reads_triplets
    if draws_texts and all(method_of(name).relation != "keeps" for name in recipe.synthesise):
        raise Misplaced(
            f"the phase {phase.name!r} draws generations, but no method writes texts that keep the "
            "meaning: list one under `synthesise`, or set the share `generated` to 0",
            *(*place, "rows", "draw", "generated"),
        )
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
        if name in [corpus.name for corpus in recipe.corpora if corpus.role == "pretrain"]:
            raise Misplaced(
                f"the corpus {name!r} has role pretrain and gives no anchors: leave it out, or "
                "give it the role general",
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


def _counting(recipe: "Recipe", settings: CountTokensSettings, place: Place) -> None:
    """Tokens are counted in corpora that give sentences."""
    _selected(recipe, settings.corpora, None, place)
    if not recipe.unlabelled:
        raise Misplaced(
            "no corpus gives sentences to count in: add one of role domain or general under "
            "`corpora`",
            *place,
        )


def _columns(recipe: "Recipe", rows: RowsConfig) -> tuple[str, ...] | None:
    """The columns of a source's rows; None if only the corpus itself shows them."""
    if rows.source in SOURCES:
        return SOURCES[rows.source]
    return KINDS.get(str(_kind(recipe, rows)))


def _kind(recipe: "Recipe", rows: RowsConfig) -> str | None:
    """The kind of the labelled corpus that the rows come from, if they come from one."""
    return next((c.kind for c in recipe.labelled if c.name == rows.source), None)
