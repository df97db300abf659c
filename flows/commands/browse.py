"""`tercet ls`, `show`, `tag` and `untag`: lists, describes and names the contents of a store."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import typer
import yaml

from tercet.flows.exports.writing import whole_file
from tercet.flows.formatting import count_of, format_bytes, format_duration, waits
from tercet.flows.report.report import render_report
from tercet.flows.results import queries
from tercet.flows.results.queries import find_artifact, named_run
from tercet.flows.results.subject import open_runs
from tercet.flows.results.verdict import verdict_of
from tercet.flows.terminal import text_table
from tercet.storage import runs
from tercet.storage.artifacts import Artifact, open_artifact, warnings_of
from tercet.storage.records import totals
from tercet.storage.store import Store, open_store
from tercet.tasks.stage import BadInput

NEWEST_RUNS = 20
SAMPLE_ROWS = 3
# Vectors and other long values are shown up to this many items.
SAMPLE_MEMBERS = 6


def list_store(store: str, run_ref: str | None) -> None:
    """Prints the newest runs, or the artifacts of one run. Raises StoreError."""
    opened = open_store(store, create=False)
    with opened.as_listed():
        if run_ref is not None:
            _list_run(opened, runs.resolve_run(opened, run_ref))
            return
        listed, names = runs.list_runs(opened), _names_by_target(opened)
    if not listed:
        typer.echo(f"No runs in {opened.location} yet: start one with `tercet run quickstart`.")
        return
    rows = [_run_row(run, names) for run in listed[:NEWEST_RUNS]]
    columns = ["run", "recipe", "with", "state", "started", "took", "steps", "verdict", "tags"]
    _echo(columns, rows)
    if len(listed) > NEWEST_RUNS:
        typer.echo(f"… and {len(listed) - NEWEST_RUNS:,} older ones: tercet sql 'FROM runs'")


def show_ref(ref: str, store: str, run_ref: str | None) -> None:
    """Prints what an artifact is, what it was made from, and a few of its rows.

    Raises: BadInput or StoreError for an unknown name.
    """
    opened = open_store(store, create=False)
    artifact = find_artifact(opened, ref, run_ref)
    manifest = artifact.manifest()
    records = artifact.records()
    _show_head(opened, artifact, manifest, len(records))
    folder = artifact.model_dir()
    if folder is not None:
        typer.echo(f"model     {folder}")
    for line in queries.list_warnings(warnings_of(manifest)):
        typer.echo(line)
    counts = totals(list(records.values()))
    for table, total in counts.items():
        _show_table(artifact, table, total)
    if manifest is not None:
        _show_components(manifest)


def tag_ref(ref: str, name: str, store: str) -> None:
    """Names a run or a version; an existing name is moved, with a message.

    Raises: BadInput for a name that would hide a step or a table, StoreError for an invalid one.
    """
    opened = open_store(store, create=False)
    _check_free(opened, name)
    before = runs.get_tag(opened, name)
    runs.set_tag(opened, name, _target(opened, ref), waits)
    after = runs.get_tag(opened, name)
    moved = f" (was {before})" if before is not None and before != after else ""
    typer.echo(f"{name} is now {after}{moved}")


def untag(names: Sequence[str], store: str) -> None:
    """Removes tags. Raises UnknownRef."""
    opened = open_store(store, create=False)
    for name in dict.fromkeys(names):
        typer.echo(f"{name} no longer names {runs.remove_tag(opened, name)}")


def _target(store: Store, ref: str) -> str:
    """The run's id or step@version that `ref` names, directly or as a tag."""
    tagged = runs.get_tag(store, ref)
    if "@" not in (tagged or ref):
        try:
            return str(runs.resolve_run(store, ref)["run_id"])
        except runs.UnknownRef as error:
            if tagged is not None or isinstance(error, runs.SeveralRuns):
                raise
    artifact = runs.resolve_ref(store, ref)
    return artifact.name


def _check_free(store: Store, name: str) -> None:
    """Refuses a tag that would hide a step, table or recipe of the same name."""
    in_use: dict[str, str] = {}
    for run in runs.list_runs(store):
        in_use[run["recipe_name"]] = "a recipe"
        in_use[run["run_id"]] = "a run"
        for entry in run["steps"]:
            in_use |= dict.fromkeys(entry.get("tables", {}), "a table")
            in_use |= {entry.get("stage", entry["step"]): "a stage", entry["step"]: "a step"}
    if name in in_use:
        raise BadInput(
            "conflict",
            f"{name!r} is {in_use[name]} of this store: choose another name for the tag.",
        )


def _names_by_target(store: Store) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for name, target in sorted(runs.list_tags(store).items()):
        names.setdefault(target, []).append(name)
    return names


def _run_row(run: Mapping[str, Any], names: Mapping[str, Sequence[str]]) -> tuple[str | None, ...]:
    states = [entry.get("state") for entry in run["steps"]]
    parts = [
        f"{states.count(state)} {state}"
        for state in ("made", "resumed", "reused")
        if states.count(state)
    ]
    return (
        run["run_id"],
        run["recipe_name"],
        _changes(run),
        run["state"],
        _moment(run["started"]),
        _duration(run),
        ", ".join(parts) or "none",
        _judged(run) or run["end_info"].get("error"),
        ", ".join(names.get(run["run_id"], ())) or None,
    )


def _judged(run: Mapping[str, Any]) -> str | None:
    verdict = verdict_of(run["end_info"])
    if verdict is None:
        return None
    return verdict.word if verdict.figure is None else f"{verdict.word}: {verdict.evidence()}"


def _changes(run: Mapping[str, Any]) -> str | None:
    """How a run differs from others of its recipe: study's arm, changed keys, options, method."""
    info = run["info"]
    if info.get("tried") is not None:
        return f"try {info['tried']}"
    values = info.get("arguments", {})
    names = ("corpus", "seed", "until", "limit")
    options = [f"--{name} {values[name]}" for name in names if values.get(name) is not None]
    # The arm comes first, since a narrow terminal cuts long lines at their end.
    arm = [f"arm {info['arm']}"] if info.get("arm") else []
    return ", ".join([*arm, *(values.get("overrides") or ()), *options]) or None


def _list_run(store: Store, run: Mapping[str, Any]) -> None:
    typer.echo(f"{named_run(run)}, {run['state']}")
    error = (run.get("end_info") or {}).get("error")
    if error:
        typer.echo(f"  {text_table.cell(error)}")
    if not run["steps"]:
        typer.echo("No step has been reached yet.")
        return
    names = _names_by_target(store)
    rows = []
    for entry in run["steps"]:
        version = str(entry["version"])
        gone = open_artifact(store, entry["step"], version).manifest() is None
        tables = [f"{count:,} {table}" for table, count in entry.get("tables", {}).items() if count]
        rows.append(
            (
                entry["step"],
                version,
                "removed" if gone else entry.get("state"),
                entry.get("seconds"),
                ", ".join(tables) or None,
                ", ".join(names.get(f"{entry['step']}@{version}", ())) or None,
            )
        )
    _echo(["step", "version", "state", "seconds", "rows", "tags"], rows)
    if left := runs.steps_left(run):
        typer.echo(f"Not reached: {', '.join(left)}")


def _show_head(
    store: Store, artifact: Artifact, manifest: Mapping[str, Any] | None, parts: int
) -> None:
    name = artifact.name
    typer.echo(name)
    called = _names_by_target(store).get(name)
    if called:
        typer.echo(f"tags      {', '.join(called)}")
    if manifest is None:
        planned = len(artifact.plan() or ())
        typer.echo(f"state     unfinished: {parts} of {planned or '?'} parts exist")
        return
    typer.echo(f"created   {_moment(manifest['created'])}")
    if "seconds" in manifest:
        typer.echo(f"took      {format_duration(float(manifest['seconds']))}")
    if manifest.get("run"):
        typer.echo(f"made by   run {manifest['run']}")
    typer.echo(f"parts     {parts}")


def _show_components(manifest: Mapping[str, Any]) -> None:
    """The data that the version is a digest of, as YAML."""
    components = dict(manifest.get("components", {}))
    if not components:
        return
    shown: dict[str, Any] = {"stage": components.pop("stage", manifest.get("stage"))}
    config = components.pop("config", None)
    shown |= {"config": _set_keys(config)} if config else {}
    shown |= {key: value for key, value in components.items() if value not in (None, {}, [])}
    modules = manifest.get("modules", {})
    if modules:
        shown["modules"] = f"{len(modules)} of Tercet's (`tercet plan` names those that change)"
    text = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100)
    typer.echo("\nmade from")
    typer.echo("\n".join(f"  {line}" for line in text.rstrip().splitlines()))


def _set_keys(value: Any) -> Any:
    """The settings without keys that are null."""
    if isinstance(value, list):
        return [_set_keys(member) for member in value]
    if isinstance(value, dict):
        return {key: _set_keys(member) for key, member in value.items() if member is not None}
    return value


def _show_table(artifact: Artifact, table: str, total: Mapping[str, int]) -> None:
    rows = artifact.rows()
    schema = rows.schema(table)
    typer.echo(f"\n{table}: {count_of(total['rows'], 'row')}, {format_bytes(total['bytes'])}")
    width = text_table.terminal_width() or 100
    typer.echo("  " + ", ".join(f"{field.name} {field.type}" for field in schema))
    if not total["rows"]:
        return
    sample = next(rows.batches(table, rows=SAMPLE_ROWS)).slice(0, SAMPLE_ROWS)
    columns = [[_short(value) for value in column.to_pylist()] for column in sample.columns]
    lines, _ = text_table.render(schema.names, list(zip(*columns, strict=True)), width - 2)
    typer.echo("\n".join(f"  {line}" for line in lines))


def _short(value: Any) -> Any:
    if isinstance(value, list) and len(value) > SAMPLE_MEMBERS:
        begin = ", ".join(text_table.cell(member) for member in value[:SAMPLE_MEMBERS])
        return f"[{begin}, … {len(value)} in all]"
    return value


def _echo(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    # Columns that are empty in every row are left out.
    filled = [i for i in range(len(columns)) if any(row[i] is not None for row in rows)]
    lines, _ = text_table.render(
        [columns[i] for i in filled],
        [[row[i] for i in filled] for row in rows],
        text_table.terminal_width(),
    )
    typer.echo("\n".join(lines))


def _moment(text: str) -> str:
    """A moment in local time, to the minute."""
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")


def _duration(run: Mapping[str, Any]) -> str | None:
    began = datetime.fromisoformat(run["started"])
    if run["ended"]:
        return format_duration((datetime.fromisoformat(run["ended"]) - began).total_seconds())
    if run["state"] == "running":
        return format_duration((datetime.now(began.tzinfo) - began).total_seconds()) + " so far"
    return None


def make_report(refs: Sequence[str | None], output: str, store: str) -> None:
    """Writes the report of one run or two; by default of the newest run.

    The store is only read. Raises: UnknownRef for an unknown run, BadInput or StoreError for an
    output that cannot be written.
    """
    path = Path(output).expanduser()
    with open_runs(open_store(store, create=False), refs) as subjects:
        try:
            with whole_file(path, replaces=True) as sink:
                data = render_report(subjects).encode("utf-8", "replace")
                sink.write(data)
        except FileNotFoundError as error:
            raise BadInput(
                "refused", f"{path} cannot be written: name another file (-o FILE)."
            ) from error
    typer.echo(f"{path}: {len(data) / 1_000_000:.1f} MB; it opens without a network connection.")
