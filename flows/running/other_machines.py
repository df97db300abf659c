"""A step's order on another machine, which must make the same rows of it as the driver would."""

import os
import platform
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tercet.flows.pipeline import fingerprints
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.names import Weights
from tercet.flows.running.one_part import Part, PartOrder, commit_part, model_folder
from tercet.flows.running.processes import outcome
from tercet.storage import code, fingerprint, runs
from tercet.storage.store import Store, StoreError, open_store
from tercet.tasks.stage import BadInput, silent

# Each manifest records their versions, to help explain why two results differ.
NOTED_LIBRARIES = ("tercet", "torch", "transformers", "sentence-transformers", "duckdb", "pyarrow")


@dataclass(frozen=True)
class Sent:
    """An order on its way.

    software: what has to be the same where it arrives. folder: what relative paths start from.
    """

    order: PartOrder
    software: Mapping[str, str]
    folder: Path


def sent(order: PartOrder, device: str) -> Sent:
    """The order for machines that compute on this device."""
    resources = replace(order.resources, device=device, progress=silent)
    return Sent(
        replace(order, models={}, resources=resources),
        _software(order.step, order.store),
        Path.cwd(),
    )


_followed: dict[Any, PartOrder] = {}


def follow(key: Any, fetch: Callable[[Any], Sent]) -> PartOrder:
    """The order with this key in this process, with what its parts have loaded.

    Raises BadInput as `arrived` does.
    """
    if key not in _followed:
        # Models of the last step are freed before this step loads its models.
        _followed.clear()
        _followed[key] = arrived(fetch(key))
    return _followed[key]


def making(key: Any, fetch: Callable[[Any], Sent], part: Part, beat: float) -> Iterator[Any]:
    """Makes a part of an order: None every `beat` seconds, at last its error or None in a tuple.

    It leaves nothing in scratch, where another attempt might be at work, on another machine.
    """

    def make() -> None:
        order = follow(key, fetch)
        with TemporaryDirectory(prefix="tercet-") as apart:
            commit_part(order, part, silent, Path(apart))

    future = _maker().submit(outcome, make)
    while True:
        try:
            yield (future.result(timeout=beat),)
            return
        except TimeoutError:
            yield None


@cache
def _maker() -> ThreadPoolExecutor:
    """The one thread that makes parts, so that the main thread can report that it lives."""
    return ThreadPoolExecutor(1, "part")


def arrived(sent: Sent) -> PartOrder:
    """The order as it can be followed on this machine.

    Raises BadInput where the machine has other code, libraries, models or files than the driver,
    or does not see its store.
    """
    node = platform.node()
    if sent.folder.is_dir():
        os.chdir(sent.folder)
    order = sent.order
    location = order.store.location
    try:
        store = open_store(location, create=False)
        started = runs.was_started(store, order.run)
    except StoreError as error:
        if "://" in location:
            raise BadInput(error.kind, f"On the node {node}: {error}") from None
        started = False
    if not started:
        raise BadInput(
            "unreachable",
            f"The node {node} does not see the store {location}: put it into a directory that all "
            "nodes share under this path, or into a bucket.",
        )
    _check_software(node, sent.software, _software(order.step, store))
    try:
        _check_externals(order, store)
        models = {slot: _model(order, store, slot) for slot in order.step.models}
    except BadInput as error:
        raise BadInput(error.kind, f"On the node {node}: {error}") from None
    return replace(order, store=store, models=models)


def libraries(names: tuple[str, ...] = NOTED_LIBRARIES) -> dict[str, str]:
    """The versions of these distributions."""
    versions = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions


def _software(step: Step, store: Store) -> dict[str, str]:
    """Versions of libraries, in whichever build, and the digest of the code behind the step."""
    names = dict.fromkeys((*NOTED_LIBRARIES, *step.stage.libraries))
    versions = {name: version.split("+")[0] for name, version in libraries(tuple(names)).items()}
    with code.remembered(store):
        return {**versions, "": fingerprint.digest(fingerprints.closure(step))}


def _check_software(node: str, required: Mapping[str, str], here: Mapping[str, str]) -> None:
    for name, version in required.items():
        if name and here[name] != version:
            raise BadInput(
                "conflict",
                f"The node {node} has {name} {here[name]}, and the driver {version}: install the "
                "same versions on every node, as constraints.txt has them.",
            )
    if here != required:
        raise BadInput(
            "conflict",
            f"The node {node} has other code than the driver for what this step makes: install "
            "the same tree of Tercet, and of packages that add to it, on every node.",
        )


def _check_externals(order: PartOrder, store: Store) -> None:
    digests = fingerprints.external_digests(order.step, store)
    for name, digest in order.components["externals"].items():
        if digests[name] != digest:
            raise BadInput(
                "conflict",
                f"{order.step.name}'s {name!r} is not the driver's file: copy the driver's there.",
            )


def _model(order: PartOrder, store: Store, slot: str) -> Path:
    """Where the model for a slot lies, which comes from the store or has been installed here."""
    model, version = order.step.models[slot], order.model_digests[slot]
    folder = model_folder(store, order.step, model, version)
    if not isinstance(model, Weights):
        return folder
    if fingerprints.weights_version(store, model.name, folder) != version:
        raise BadInput(
            "conflict", f"the model {model.name!r} has other weights: install the driver's there."
        )
    return folder
