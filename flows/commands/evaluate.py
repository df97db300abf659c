"""`tercet eval`: the scores of several encoders on a suite of tasks, side by side."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import pyarrow as pa
import typer

from tercet.errors import kind_of
from tercet.flows.cards.facts import find_run
from tercet.flows.commands.export import model_dir
from tercet.flows.exports.writing import print_rows
from tercet.flows.results import metric_names
from tercet.flows.results.metric_names import (
    GAIN,
    GEOMETRY,
    SPELT,
    TOO_FEW,
    WHY_TOO_FEW,
    Metric,
    is_few,
)
from tercet.flows.results.queries import connect, find_artifact
from tercet.flows.results.run_pairs import (
    FACT_ORDER,
    FILES,
    OF_A_RUN,
    OF_FILES,
    RETRIEVAL_SETS,
    STS_SETS,
    RunPairs,
    own_files,
    read_pairs,
)
from tercet.flows.terminal import text_table
from tercet.flows.terminal.progress import reporter
from tercet.models import weights
from tercet.models.encoders.settings import PoolingMode, check_prompt, read_pooling
from tercet.models.machine import Precision, computed_in
from tercet.storage.artifacts import open_artifact
from tercet.storage.runs import TAG_PREFIX, UnknownRef, get_tag
from tercet.storage.store import is_store, open_store
from tercet.tasks.evaluation.suites.beir import read_retrieval_sets
from tercet.tasks.evaluation.suites.fact_order import name_after, read_cases
from tercet.tasks.evaluation.suites.layout import Split
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet
from tercet.tasks.evaluation.suites.reranking import MTEB
from tercet.tasks.evaluation.suites.sts_sets import describe_skipped, read_sets
from tercet.tasks.evaluation.suites.suite import revisions, suite_files, task_names
from tercet.tasks.stage import BadInput, Resources

AVERAGES = ("STS", "transfer", "reranking")
# Suite, task and subset of a figure.
Name: TypeAlias = tuple[str, str, str]
_TITLE = 24


def evaluate_encoders(
    models: Sequence[str],
    suite: str | None,
    tasks: str,
    splits: str,
    pooling: str | None,
    precision: Precision | None,
    format_: str,
    store: str,
    run_ref: str | None = None,
    prompt: str | None = None,
    beir: Sequence[str] = (),
) -> None:
    """Prints the scores of encoders on a suite and on a run's pairs, side by side.

    beir: folders in BEIR's layout.

    csv and json give every row. With a run's pairs, its seed and settings apply to all tasks.
    Raises: BadInput for a missing model, suite, task or run, and for a model given twice.
    """
    mode = _pooling(pooling, prompt)
    chosen = _splits(splits)
    names = _listed(tasks)
    cases, sets, tables = (own_files(names, key) for key in (FACT_ORDER, STS_SETS, RETRIEVAL_SETS))
    of_run = [name for name in names if name in OF_A_RUN]
    of_suite = [n for n in names if n not in OF_A_RUN and not n.startswith(FILES)]
    # An empty list means the suite's default.
    needed = of_suite or not (of_run or cases or sets or tables or beir)
    folder = _suite(suite, of_suite, chosen) if needed else None
    run = read_pairs(store, run_ref, of_run, chosen, tables) if of_run or tables else RunPairs()
    cases |= run.fact_order
    graded = {name: StsSet(source=file) for name, file in sets.items()} | dict(run.sts_sets)
    _check_folders(beir)
    queries = {name_after(folder.rstrip("/")): RetrievalSource(source=folder) for folder in beir}
    queries |= run.retrieval_sets
    read_cases(cases, chosen)
    asked_of = read_retrieval_sets(queries, chosen)
    left_out = [describe_skipped(task) for task in read_sets(graded, chosen) if task.skipped]
    left_out += [message for task in asked_of for _, message, _ in task.left_out()]
    left_out += run.left_out
    paths = _paths(models, store, run_ref)

    from tercet.flows.running.gpus import device
    from tercet.tasks.evaluation.evaluate import EvaluateConfig, evaluate_models

    on = device("auto")
    precise = computed_in(precision or run.settings.precision, on)
    config = EvaluateConfig(
        suite=folder,
        tasks=tuple(of_suite),
        fact_order=cases,
        sts_sets=graded,
        retrieval_sets=queries,
        splits=tuple(chosen),
        pooling=mode,
        prompt=prompt,
        prompts=run.prompts,
        max_length=run.settings.max_length,
        precision=precise,
        bootstrap=run.settings.bootstrap,
    )
    with reporter("evaluate", sys.stderr.isatty()) as progress:
        resources = Resources(on, run.batch_size, progress=progress)
        run_tasks = [*run.awareness, *run.judged]
        figures = evaluate_models(
            paths, config, resources, pairs=run.pairs, tasks=run_tasks, seed=run.seed
        )
    trained_on = {name: _trained_on(name, path, store, run_ref) for name, path in paths.items()}
    figures = _marked(figures, trained_on)
    if format_ == "table":
        lines = [*_table(figures, precise), *_transductive_notes(figures), *_drawn(run)]
        typer.echo("\n".join([*lines, *left_out]))
        return
    print_rows(figures, format_)


def _check_folders(beir: Sequence[str]) -> None:
    """Raises BadInput for a table in place of a folder, and for two folders of one name."""
    for folder in beir:
        if RetrievalSource(source=folder).is_table:
            raise BadInput(
                "missing_file",
                f"--beir {folder!r} is no folder in BEIR's layout; a table of questions to a run's "
                f"passages is asked by --tasks questions:{folder}.",
            )
    if len(set(map(name_after, (folder.rstrip("/") for folder in beir)))) < len(beir):
        raise BadInput("conflict", "--beir names two folders of one name: rename one.")


def _pooling(name: str | None, prompt: str | None) -> PoolingMode | None:
    """The pooling of --pooling. Raises BadInput if it does not exist or does not fit --prompt."""
    try:
        pooling = None if name is None else read_pooling(name)
        if prompt is not None:
            check_prompt(pooling, prompt)
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), f"--pooling and --prompt: {error}.") from None
    return pooling


def _paths(models: Sequence[str], store: str, run_ref: str | None) -> dict[str, Path]:
    """The directory of each model by its name. Raises BadInput for a model given twice."""
    paths: dict[str, Path] = {}
    places: dict[Path, str] = {}
    for model in models:
        path = model_path(model, store, run_ref)
        same = places.setdefault(path.resolve(), model)
        if model in paths or same != model:
            other = "" if same == model else f" (also as {same!r})"
            raise BadInput(
                "conflict", f"The model {model!r} is given twice{other}: name each model once."
            )
        paths[model] = path
    return paths


def model_path(model: str, store: str, run_ref: str | None) -> Path:
    """The model's location: a directory, a ref in the store, a package's folder, or the hub.

    A tag may be written as in a recipe, `tag:NAME`, and is then sought in the store alone.

    Raises: BadInput with one sentence when it is none of these.
    """
    local = Path(model).expanduser().is_dir()
    plain = not local and "/" not in model and not model.startswith(weights.PACKAGE_PREFIX)
    if plain:
        in_store = _in_store(model, store, run_ref)
        if in_store is not None:
            return in_store
    try:
        return weights.fetch(model)
    except weights.ModelMissing as error:
        message = str(error)
        if plain:
            message = (
                f"{model!r} is no step, version or tag of this store, no directory, and cannot be "
                "fetched from the hub: check its name, --store, the network and HF_TOKEN."
            )
        raise BadInput(error.kind, message) from None


def _in_store(model: str, store: str, run_ref: str | None) -> Path | None:
    tagged = model.startswith(TAG_PREFIX)
    if not tagged and not is_store(store):
        return None
    opened = open_store(store, create=False)
    try:
        artifact = find_artifact(opened, model, run_ref)
    except UnknownRef as error:
        # A tag, a version or a run can only be in the store; a plain name may be on the hub.
        tagged = tagged or get_tag(opened, model) is not None
        if tagged or "@" in model or run_ref is not None:
            raise BadInput("unfit_model", str(error)) from None
        return None
    folder = model_dir(artifact)
    # A transformer without modules (such as `pretrain` makes) is pooled like a backbone.
    if not any((folder / file).is_file() for file in ("modules.json", "config.json")):
        raise BadInput("unfit_model", f"{artifact.name} is no encoder: name another model.")
    return folder


def _suite(suite: str | None, names: Sequence[str], splits: Sequence[Split]) -> Path | None:
    """The suite's directory, or None if no task needs one.

    Its files are checked before any model is loaded. Raises: BadInput.
    """
    try:
        tasks = task_names(names)
    except BadInput as error:
        known_of_run = " or ".join(OF_A_RUN)
        raise BadInput(
            "unknown_name",
            f"{str(error).rstrip('.')}, or {known_of_run} of a run, or questions:FILE to a run's "
            f"passages, or {OF_FILES}.",
        ) from None
    inside = [name for name in names or ["sts"] if not name.startswith(MTEB)]
    if not inside:
        revisions(tasks)
        return None
    if suite is None:
        raise BadInput(
            "missing_key",
            f"--tasks {','.join(inside)} needs --suite DIR, a directory in SentEval's layout; "
            f"without a suite only {OF_FILES} and a run's {', '.join(OF_A_RUN)} can be evaluated.",
        )
    folder = Path(suite).expanduser()
    suite_files(folder, names, splits)
    return folder


def _splits(text: str) -> list[Split]:
    names = _listed(text)
    if not names or not set(names) <= {"dev", "test"}:
        raise BadInput("unknown_name", f"--splits {text!r} must be test, dev or dev,test.")
    return cast(list[Split], names)


def _listed(text: str) -> list[str]:
    """The names between the commas, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _table(figures: pa.Table, precision: str) -> list[str]:
    """One line per task, one column per model, each followed by its difference to the first."""
    rows = figures.to_pylist()
    models = list(dict.fromkeys(row["model"] for row in rows))
    by_name = {(row["model"], *_named(row), row["metric"]): row for row in rows}
    lines = []
    for name, metric in _shown(rows):
        first = by_name[models[0], *name, metric]
        cells = [_figure(first)]
        for model in models[1:]:
            # A figure may be undefined for one of two models even on the same pairs.
            cells.append(_figure(by_name.get((model, *name, metric))))
            cells.append(_gain(by_name.get((model, *name, metric + GAIN))))
        lines.append((_label(*name), SPELT[metric], *cells, first["n"]))
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


def _named(row: Mapping[str, Any]) -> Name:
    return row["suite"], row["task"], row["subset"]


def _shown(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Name, str]]:
    """The name and metric of each line: whole STS years, and every kind of average."""
    figures: dict[tuple[Name, str], None] = {}
    geometry: dict[tuple[Name, str], None] = {}
    for row in rows:
        line = (_named(row), row["metric"])
        parted = row["suite"] in ("retrieval", FACT_ORDER)
        whole = row["subset"] == "all" or parted or row["task"] in AVERAGES
        if row["metric"] in GEOMETRY:
            geometry[line] = None
        elif row["metric"] in SPELT and whole:
            figures[line] = None
    return [*figures, *geometry]


def _legend(rows: Sequence[Mapping[str, Any]], models: Sequence[str], precision: str) -> list[str]:
    """Footnotes: what the figures mean, of which models they are, and on which texts."""
    lines = [
        "Spearman, accuracy, F1, nDCG, MAP, AP, recall and MRR × 100, with their 95 % bootstrap "
        "intervals."
    ]
    if len(models) > 1:
        lines.append(
            "Differences from model 1 with paired intervals; p is two-sided, on the same resamples."
        )
    if any(is_few(row["n"]) for row in rows if row["metric"] not in GEOMETRY):
        lines.append(WHY_TOO_FEW)
    for number, model in enumerate(models, start=1):
        row = next(row for row in rows if row["model"] == model)
        details = f"version {row['model_version']}, pooling {row['pooling']}, {precision}"
        lines.append(f"{number}: {model}, {details}" if len(models) > 1 else f"{model}, {details}")
    forms: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["task"] not in AVERAGES:
            forms.setdefault(row["text_form"], {})[_label(*_named(row))] = row["data_digest"]
    for form, tasks in forms.items():
        details = ", ".join(f"{task} {digest}" for task, digest in tasks.items())
        lines.append(f"Texts {form}; digest of the data: {details}")
    return lines


def _drawn(run: RunPairs) -> list[str]:
    """The run that the pairs come from, and the settings taken from its recipe."""
    if run.run_id is None:
        return []
    by = run.settings
    cut = "" if by.max_length is None else f", texts of at most {by.max_length} tokens"
    return [
        f"Pairs of run {run.run_id}, drawn as in that run: seed {run.seed}, "
        f"at most {by.max_pairs} a split, {by.bootstrap} resamples{cut}"
    ]


def _label(suite: str, task: str, subset: str) -> str:
    if suite == "retrieval":
        return f"{task} ({subset})"
    if suite == FACT_ORDER:
        return f"fact order {task}" + ("" if subset == "all" else f" ({subset})")
    if suite == "awareness":
        return f"awareness ({task})"
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
    text = f"{row['value']:.2f}"
    if row["ci_low"] is None or is_few(row["n"]):
        return text
    return f"{text} ({row['ci_low']:.1f} to {row['ci_high']:.1f})"


def _gain(row: Mapping[str, Any] | None) -> str | None:
    if row is None:
        return None
    text = f"{row['value']:+.2f}"
    if is_few(row["n"]):
        return f"{text} ({TOO_FEW})"
    if row["ci_low"] is None:
        return text
    p = "p < 0.001" if row["p"] < 0.001 else f"p {row['p']:.3f}"
    return f"{text} ({row['ci_low']:+.2f} to {row['ci_high']:+.2f}) {p}"


def _trained_on(
    model: str, path: Path, store: str, run_ref: str | None
) -> frozenset[tuple[str, str]]:
    """Suite and task of the sets whose texts a model of the store was trained on.

    path: the model's place; a directory inside the store is a model of the store too.
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
        return metric_names.transductive_sets(connection)


def _marked(figures: pa.Table, sets: Mapping[str, frozenset[tuple[str, str]]]) -> pa.Table:
    """The rows with a column `transductive`: whether the model was trained on texts of the set."""
    marks = [
        metric_names.is_transductive(
            Metric(row["suite"], row["task"], row["subset"], row["metric"]), sets[row["model"]]
        )
        for row in figures.to_pylist()
    ]
    return figures.append_column("transductive", pa.array(marks, pa.bool_()))


def _transductive_notes(figures: pa.Table) -> list[str]:
    """A line for each model with figures of sets that it was trained on, and what that means."""
    tasks: dict[str, dict[str, None]] = {}
    for row in figures.to_pylist():
        if row["transductive"]:
            tasks.setdefault(row["model"], {})[row["task"]] = None
    lines = [f"{model}: transductive on {', '.join(of)}" for model, of in tasks.items()]
    return [*lines, metric_names.WHY_TRANSDUCTIVE] if lines else []
