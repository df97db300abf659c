"""Keys of earlier recipes that have moved."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tercet.flows.recipe.resolved import Misplaced, Place
from tercet.tasks.synthesis.methods import PROMPTED_NAMES

# By their last names of today; `*` stands for each item of a list or a mapping.
_RENAMED = {
    ("sample", "company"): "min_context_sentences",
    ("corpora", "*", "company"): "min_context_sentences",
    ("ingest", "rare"): "max_shingle_frequency",
    ("models", "*", "pretrain", "decay"): "lr_schedule",
    ("train", "phases", "*", "start_share"): "weight_interpolation",
}
# Under their names of today.
_OF_THE_LOSS = {
    "tau": "tau",
    "width": "sigma_cosine",
    "gate": "gate",
    "detach": "detach",
    "head": "head",
}
_DETACH = {True: "opening", False: "none"}
_OF_THE_ROWS = ("corpora", "max_rows")
_PHASES: Place = ("train", "phases", "*")
# Where a phase has losses.
_LOSSES: tuple[Place, ...] = (
    *(("loss",), ("loss", "with")),
    *(("parts", "*", "loss"), ("parts", "*", "loss", "with")),
)


def refuse_moved(content: Mapping[str, Any]) -> None:
    """Raises Misplaced for a key that has moved, naming its new place."""
    for place, name in [*_RENAMED.items(), *_renamed_of_prompted(content)]:
        for old, value in _find(content, place):
            raise Misplaced(
                f"this key is now called {name}: write `{name}: {_written(value)}`", *old
            )
    if "start" in content:
        mend = "leave it out, since the first phase starts from the recipe's backbone"
        if content["start"] == "evaluator":
            mend = "write `backbone: evaluator` in the first phase of `train.phases`"
        raise Misplaced(f"this key has moved: {mend}", "start")
    for place, _ in _find(content, ("train", "triplets")):
        raise Misplaced(
            "a file of triplets is now a labelled corpus: list {name: NAME, source: FILE, role: "
            "labelled, kind: triplets} under `corpora`, and write `rows: NAME` in the phase",
            *place,
        )
    for place, phase in _find(content, _PHASES):
        if isinstance(phase, Mapping):
            _refuse_moved_of_phase(phase, place)
    for below in _LOSSES:
        for place, loss in _find(content, (*_PHASES, *below)):
            if isinstance(loss, Mapping):
                _refuse_moved_of_loss(loss, place)


def _renamed_of_prompted(content: Mapping[str, Any]) -> list[tuple[Place, str]]:
    """What is called otherwise for prompted methods, which may ask about passages."""
    methods = content.get("synthesise")
    return [
        (("synthesise", method, *within, "per_sentence"), "per_unit")
        for method, own in (methods.items() if isinstance(methods, Mapping) else ())
        if isinstance(own, Mapping)
        and (own.get("like", method) in PROMPTED_NAMES or "prompt" in own)
        for within in ((), ("params",))
    ]


def _find(content: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """The places of a recipe that a place with `*` means, and what stands there."""
    if not place:
        yield (), content
        return
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(content, Mapping):
        items = content.items()
    elif isinstance(content, list):
        items = enumerate(content)
    for key, value in items:
        if place[0] in (key, "*"):
            yield from (((key, *rest), found) for rest, found in _find(value, place[1:]))


def _refuse_moved_of_phase(phase: Mapping[str, Any], place: Place) -> None:
    rows, loss = phase.get("rows", "triplets"), phase.get("loss", "gaussian_decay")
    if rows == "dropout":
        raise Misplaced("this source is now called anchors: write `rows: anchors`", *place, "rows")
    if "start" in phase:
        said = "base" if phase["start"] == "backbone" else "previous"
        raise Misplaced(f"this key has moved: write `backbone: {said}`", *place, "start")
    if "decay" in phase:
        raise Misplaced(
            "this key is gone: write `loss: {name: gaussian_decay, sigma_cosine: 0}` for no decay, "
            "and leave it out otherwise",
            *(*place, "decay"),
        )
    for key, name_today in _OF_THE_LOSS.items():
        if key in phase:
            name = loss.get("name", "gaussian_decay") if isinstance(loss, Mapping) else loss
            value = _DETACH.get(phase[key], phase[key]) if key == "detach" else phase[key]
            raise Misplaced(
                "this key now belongs to the loss: write "
                f"`loss: {{name: {name}, {name_today}: {_written(value)}}}`",
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


def _refuse_moved_of_loss(loss: Mapping[str, Any], place: Place) -> None:
    if loss.get("name", "gaussian_decay") != "gaussian_decay":
        return
    if "width" in loss:
        raise Misplaced(
            "this key is now called sigma_cosine, the Gaussian's half-width in cosine: write "
            f"`sigma_cosine: {_written(loss['width'])}`",
            *(*place, "width"),
        )
    if isinstance(loss.get("detach"), bool):
        raise Misplaced(
            "this key now names what is a constant in the gradient (opening, term or none): write "
            f"`detach: {_DETACH[loss['detach']]}`",
            *(*place, "detach"),
        )


def _written(value: Any) -> str:
    """The value as YAML, on one line."""
    return json.dumps(value, default=str)
