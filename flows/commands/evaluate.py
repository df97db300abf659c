"""`tercet eval`: scores an encoder on the sets of sentence pairs with human scores."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import pyarrow as pa
import typer

from tercet.flows.commands import rows_out, text_table
from tercet.flows.commands.export import encoder_dir
from tercet.flows.commands.refs import artifact_of
from tercet.flows.progress import reporter
from tercet.models import weights
from tercet.storage.runs import UnknownRef
from tercet.storage.store import MARKER, open_store
from tercet.tasks.stage import BadInput

Pooling: TypeAlias = Literal["mean", "cls"]
Precision: TypeAlias = Literal["fp32", "bf16"]

FORMATS = ("table", "csv", "json")
SUBSETS = ("all", "mean", "wmean")


def evaluate_encoder(
    model: str,
    suite: str,
    tasks: str,
    pooling: str | None,
    precision: str,
    format_: str,
    store: str,
    run_ref: str | None = None,
) -> None:
    """Prints an encoder's Spearman correlations, in percent; csv and json give every row of it.

    Raises: BadInput for a model, suite or task that is not there.
    """
    _check("--format", format_, FORMATS)
    _check("--precision", precision, ("fp32", "bf16"))
    if pooling is not None:
        _check("--pooling", pooling, ("mean", "cls"))
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    folder = _suite(suite, names)
    path = model_path(model, store, run_ref)

    from tercet.flows.runner import device
    from tercet.tasks.evaluate import evaluate_model

    with reporter("evaluate", sys.stderr.isatty()) as progress:
        found = evaluate_model(
            path,
            folder,
            tasks=names,
            pooling=cast(Pooling | None, pooling),
            precision=cast(Precision, precision),
            device=device("auto"),
            progress=lambda done, total: progress(done, total, "texts"),
        )
    if format_ == "table":
        typer.echo("\n".join(_table(found, precision)))
        return
    sys.stdout.flush()
    rows_out.write_rows(found.schema, found.to_batches(), format_, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def model_path(model: str, store: str, run_ref: str | None) -> Path:
    """Where the model lies: a directory, a ref of the store, a package's folder, or the hub's.

    Raises: BadInput with one sentence when it is none of them.
    """
    local = Path(model).expanduser()
    if not local.is_dir() and "/" not in model and not model.startswith(weights.PACKAGE_PREFIX):
        in_store = _in_store(model, store, run_ref)
        if in_store is not None:
            return in_store
    try:
        return weights.fetch(model)
    except weights.ModelMissing as error:
        raise BadInput(str(error)) from None


def _in_store(model: str, store: str, run_ref: str | None) -> Path | None:
    if not (Path(store).expanduser() / MARKER).is_file():
        return None
    opened = open_store(store, create=False)
    try:
        return encoder_dir(artifact_of(opened, model, run_ref))
    except UnknownRef as error:
        # A version or a run can only be the store's; a plain name may be the hub's.
        if "@" in model or run_ref is not None:
            raise BadInput(str(error)) from None
        return None


def _suite(suite: str, tasks: Sequence[str]) -> Path:
    """The suite's directory, looked at before a model is loaded. Raises BadInput."""
    from tercet.tasks import suites

    folder = Path(suite).expanduser()
    suites.suite_root(folder)
    suites.task_names(tasks)
    return folder


def _check(option: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise BadInput(f"{option} {value!r} is none of {', '.join(allowed)}.")


def _table(found: pa.Table, precision: str) -> list[str]:
    """A line a task, with the three ways of putting a year's files together."""
    rows = found.to_pylist()
    scored = [row for row in rows if row["suite"] == "sts" and row["metric"] == "spearman"]
    lines = []
    for task in dict.fromkeys(row["task"] for row in scored):
        of_task = {row["subset"]: row for row in scored if row["task"] == task}
        n = next((of_task[subset]["n"] for subset in SUBSETS if subset in of_task), None)
        values = [_value(of_task, subset) for subset in SUBSETS]
        lines.append(("average" if task == "STS" else task, *values, n))
    shown, _ = text_table.render(
        ["task", *SUBSETS, "n"],
        lines,
        text_table.terminal_width(),
        right=[False, True, True, True, True],
    )
    others = [
        f"{row['metric']} {row['value']:.3f} on {row['task']}"
        for row in rows
        if row["metric"] in ("alignment", "uniformity")
    ]
    first = rows[0] if rows else {}
    told = f"Spearman × 100; pooling {first.get('pooling')}, {precision}"
    told += f", model {first.get('model_version')}"
    return [*shown, told, *([", ".join(others)] if others else [])]


def _value(of_task: Mapping[str, Mapping[str, Any]], subset: str) -> str | None:
    return f"{of_task[subset]['value']:.2f}" if subset in of_task else None
