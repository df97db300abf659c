"""`tercet eval`: what encoders reach on a suite of tasks, side by side."""

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

# How the table calls a figure; in this order where a task has several.
MEASURES = {
    "spearman": "Spearman",
    "accuracy": "accuracy",
    "f1": "F1",
    "map": "MAP",
    "ap": "AP",
    "alignment": "alignment",
    "uniformity": "uniformity",
    "isotropy": "isotropy",
}
GEOMETRY = ("alignment", "uniformity", "isotropy")
AVERAGES = ("STS", "transfer", "reranking")
_TITLE = 24


def evaluate_encoders(
    models: Sequence[str],
    suite: str,
    tasks: str,
    pooling: str | None,
    precision: str,
    format_: str,
    store: str,
    run_ref: str | None = None,
) -> None:
    """Prints what encoders reach on a suite, side by side; csv and json give every row of it.

    Raises: BadInput for a model, suite or task that is not there, and a model given twice.
    """
    _check("--format", format_, FORMATS)
    _check("--precision", precision, ("fp32", "bf16"))
    if pooling is not None:
        _check("--pooling", pooling, ("mean", "cls"))
    names = [name.strip() for name in tasks.split(",") if name.strip()]
    folder = _suite(suite, names)
    paths = _paths(models, store, run_ref)

    from tercet.flows.runner import device
    from tercet.tasks.evaluate import evaluate_models

    with reporter("evaluate", sys.stderr.isatty()) as progress:
        found = evaluate_models(
            paths,
            folder,
            asked=names,
            pooling=cast(Pooling | None, pooling),
            precision=cast(Precision, precision),
            device=device("auto"),
            progress=progress,
        )
    if format_ == "table":
        typer.echo("\n".join(_table(found, precision)))
        return
    sys.stdout.flush()
    rows_out.write_rows(found.schema, found.to_batches(), format_, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def _paths(models: Sequence[str], store: str, run_ref: str | None) -> dict[str, Path]:
    """Where each model lies, by the name it was given. Raises BadInput for one that is twice."""
    paths: dict[str, Path] = {}
    places: dict[Path, str] = {}
    for model in models:
        path = model_path(model, store, run_ref)
        same = places.setdefault(path.resolve(), model)
        if model in paths or same != model:
            other = "" if same == model else f" (also as {same!r})"
            raise BadInput(f"The model {model!r} is given twice{other}: name each model once.")
        paths[model] = path
    return paths


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


def _suite(suite: str, names: Sequence[str]) -> Path:
    """The suite's directory, its files looked for before a model is loaded. Raises BadInput."""
    from tercet.tasks.suites import tasks

    folder = Path(suite).expanduser()
    tasks.suite_files(folder, names)
    return folder


def _check(option: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise BadInput(f"{option} {value!r} is none of {', '.join(allowed)}.")


def _table(found: pa.Table, precision: str) -> list[str]:
    """A line a task, a column a model; behind each but the first its difference to the first."""
    rows = found.to_pylist()
    models = list(dict.fromkeys(row["model"] for row in rows))
    known = {(row["model"], row["task"], row["subset"], row["metric"]): row for row in rows}
    lines = []
    for task, subset, metric in _shown(rows):
        first = known[models[0], task, subset, metric]
        cells = [_figure(first)]
        for model in models[1:]:
            # Of two models with other vectors, the same pairs: a figure may lack in one of them.
            cells.append(_figure(known.get((model, task, subset, metric))))
            cells.append(_gain(known.get((model, task, subset, f"{metric}_gain"))))
        lines.append((_label(task, subset), MEASURES[metric], *cells, first["n"]))
    titles = [_title(number, models) for number in range(len(models))]
    heads = [titles[0]]
    for number, title in enumerate(titles[1:], start=2):
        heads += [title, f"{number} − 1"]
    shown, _ = text_table.render(
        ["task", "measure", *heads, "n"],
        lines,
        text_table.terminal_width(),
        right=[False, False, *[True] * len(heads), True],
    )
    return [*shown, *_legend(rows, models, precision)]


def _shown(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    """Task, subset and metric of each line: years as wholes, the averages in all their settings."""
    figures: dict[tuple[str, str, str], None] = {}
    geometry: dict[tuple[str, str, str], None] = {}
    for row in rows:
        name = (row["task"], row["subset"], row["metric"])
        if row["metric"] in GEOMETRY:
            geometry[name] = None
        elif row["metric"] in MEASURES and (row["subset"] == "all" or row["task"] in AVERAGES):
            figures[name] = None
    return [*figures, *geometry]


def _legend(rows: Sequence[Mapping[str, Any]], models: Sequence[str], precision: str) -> list[str]:
    """What the figures are, which models, and on which texts."""
    lines = ["Spearman, accuracy, F1, MAP and AP × 100, with their 95 % bootstrap intervals."]
    if len(models) > 1:
        lines.append(
            "Differences to model 1 with paired intervals; p: two-sided, on the same resamples."
        )
    for number, model in enumerate(models, start=1):
        row = next(row for row in rows if row["model"] == model)
        told = f"version {row['model_version']}, pooling {row['pooling']}, {precision}"
        lines.append(f"{number}: {model}, {told}" if len(models) > 1 else f"{model}, {told}")
    forms: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["task"] not in AVERAGES:
            forms.setdefault(row["text_form"], {})[row["task"]] = row["data_digest"]
    for form, tasks in forms.items():
        told = ", ".join(f"{task} {digest}" for task, digest in tasks.items())
        lines.append(f"Texts {form}, digest of the data: {told}")
    return lines


def _label(task: str, subset: str) -> str:
    if task not in AVERAGES:
        return task
    return f"average of {task}" + ("" if subset == "all" else f" ({subset})")


def _title(number: int, models: Sequence[str]) -> str:
    name = models[number].rstrip("/").rpartition("/")[2] or models[number]
    name = name if len(name) <= _TITLE else f"{name[: _TITLE - 1]}…"
    return f"{number + 1}: {name}" if len(models) > 1 else name


def _figure(row: Mapping[str, Any] | None) -> str | None:
    if row is None:
        return None
    if row["metric"] in GEOMETRY:
        return f"{row['value']:.3f}"
    told = f"{row['value']:.2f}"
    if row["ci_low"] is None:
        return told
    return f"{told} ({row['ci_low']:.1f} to {row['ci_high']:.1f})"


def _gain(row: Mapping[str, Any] | None) -> str | None:
    if row is None:
        return None
    told = f"{row['value']:+.2f}"
    if row["ci_low"] is None:
        return told
    p = "p < 0.001" if row["p"] < 0.001 else f"p {row['p']:.3f}"
    return f"{told} ({row['ci_low']:+.2f} to {row['ci_high']:+.2f}) {p}"
