"""Which rows of `tercet eval` are of sets that a model of the store was trained on."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from tercet.flows.cards.facts import find_run
from tercet.flows.results import transductive
from tercet.flows.results.metric_names import Metric
from tercet.flows.results.queries import connect
from tercet.flows.results.refs import find_artifact
from tercet.storage.artifacts import open_artifact
from tercet.storage.runs import UnknownRef
from tercet.storage.store import is_store, open_store


def trained_on(
    model: str, path: Path, store: str, run_ref: str | None
) -> frozenset[tuple[str, str]]:
    """Suite and task of the sets whose texts a model of the store was trained on.

    path: where it lies; a directory inside the store is a model of the store too.
    """
    if not is_store(store):
        return frozenset()
    opened = open_store(store, create=False)
    try:
        if Path(model).expanduser().is_dir():
            inside = path.resolve().relative_to(opened.work.resolve() / "artifacts")
            step, version, *_ = inside.parts
            artifact = open_artifact(opened, step, version)
        else:
            artifact = find_artifact(opened, model, run_ref)
        run = find_run(opened, artifact, run_ref)
    except (UnknownRef, ValueError):
        return frozenset()
    if run is None:
        return frozenset()
    with connect(opened, run["run_id"]) as connection:
        return transductive.sets_of(connection)


def marked(found: pa.Table, sets: Mapping[str, frozenset[tuple[str, str]]]) -> pa.Table:
    """The rows with a column `transductive`: whether the model was trained on texts of the set."""
    marks = [
        transductive.is_transductive(
            Metric(row["suite"], row["task"], row["subset"], row["metric"]), sets[row["model"]]
        )
        for row in found.to_pylist()
    ]
    return found.append_column("transductive", pa.array(marks, pa.bool_()))


def told(found: pa.Table) -> list[str]:
    """A line for each model with figures of sets that it was trained on, and what that means."""
    tasks: dict[str, dict[str, None]] = {}
    for row in found.to_pylist():
        if row["transductive"]:
            tasks.setdefault(row["model"], {})[row["task"]] = None
    lines = [f"{model}: transductive on {', '.join(of)}" for model, of in tasks.items()]
    return [*lines, transductive.WHY] if lines else []
