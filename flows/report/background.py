"""The background of a run: warnings, contamination, time and cost, the recipe."""

from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
import yaml

from tercet.flows.formatting import format_duration, shorten
from tercet.flows.pages import charts
from tercet.flows.pages.blocks import (
    Block,
    Cell,
    Chart,
    Code,
    Fold,
    Grid,
    Item,
    Items,
    Note,
    Section,
    Table,
)
from tercet.flows.recipe.secrets import public, public_values
from tercet.flows.results import metric_names, queries
from tercet.flows.results.measures import CONTAMINATION, USAGE
from tercet.flows.results.subject import Row, Subject, of_each_run

_EXAMPLES = 6


@of_each_run(CONTAMINATION.title, CONTAMINATION.absent, CONTAMINATION.lead)
def contamination(subject: Subject) -> list[Block]:
    """Texts of evaluation sets found among the training rows."""
    if not subject.reached("guard"):
        return []
    table = CONTAMINATION.read(subject)
    if table is None:
        return [Note("No text of the evaluation sets was found in training.")]
    stayed = metric_names.transductive_sets(subject.connection)
    items = [
        Item(
            shorten(row["text"]),
            f"{row['task']}: {shorten(row['evaluation_text'])}",
            f"· {row['level']}",
            "bad" if row["removed"] else "",
            "removed" if row["removed"] else "kept",
        )
        for row in subject.rows(
            "SELECT task, level, removed, text, evaluation_text FROM contamination "
            f"ORDER BY level <> 'exact', text_id LIMIT {_EXAMPLES}"
        )
    ]
    notes = [Note(metric_names.WHY_TRANSDUCTIVE, "warning")] if stayed else []
    return [*notes, *table.on_page(), Fold(f"{len(items)} of them", [Items(items)])]


def cost(subjects: Sequence[Subject]) -> Section:
    """Seconds by step, and the use of language models."""
    several = len(subjects) > 1
    shown: list[Block] = []
    usage_blocks: list[Block] = []
    for subject in subjects:
        values = [_step_time(subject, step) for step in subject.steps]
        named = f"Run {subject.name}" if several else ""
        if not values:
            shown.append(Note(f"{named or 'The run'} has reached no step yet.", "missing"))
            continue
        spec = charts.bars(values, of="step", amount="seconds", title="seconds", row=26)
        alt = "Time by step: " + "; ".join(f"{value['step']} {value['label']}" for value in values)
        shown.append(Chart(spec, _time_caption(values), alt, named))
        if (usage := USAGE.read(subject)) is not None:
            usage_blocks += usage.on_page(f"{named}." if named else "")
    if not usage_blocks:
        usage_blocks = [Note(USAGE.absent, "missing")]
    return Section("Time and cost", [Grid(shown, least=24), *usage_blocks], "Where the time went.")


def _step_time(subject: Subject, step: Mapping[str, Any]) -> Row:
    """The time of a step; for a reused one, the time it took when it was made."""
    if step.get("state") != "reused":
        seconds = float(step.get("seconds") or 0.0)
        return {
            "step": step["step"],
            "seconds": seconds,
            "label": format_duration(seconds),
            "in_run": True,
        }
    noted = subject.manifest(step["step"], str(step["version"])).get("seconds")
    label = "reused" if noted is None else f"reused: {format_duration(float(noted))} when made"
    return {"step": step["step"], "seconds": float(noted or 0.0), "label": label, "in_run": False}


def _time_caption(values: Sequence[Row]) -> str:
    seconds_in_run = sum(value["seconds"] for value in values if value["in_run"])
    if all(value["in_run"] for value in values):
        return f"{format_duration(seconds_in_run)} in all."
    seconds_reused = sum(value["seconds"] for value in values if not value["in_run"])
    return (
        f"{format_duration(seconds_in_run)} in this run. The steps it reused took "
        f"{format_duration(seconds_reused)} when they were made."
    )


@of_each_run(
    "Recipe",
    "",
    "With all defaults filled in. To keep this machine's layout private, absolute paths are "
    "shortened to file names, and keys are removed.",
)
def recipe(subject: Subject) -> list[Block]:
    """The run's recipe, with defaults filled in."""
    text = yaml.safe_dump(
        public_values(subject.recipe), sort_keys=False, allow_unicode=True, width=100
    ).rstrip()
    code = Code(text, f"Recipe {subject.recipe.get('name', '')}")
    return [Fold(f"{len(text.splitlines())} lines of YAML", [code])]


def warnings(subjects: Sequence[Subject]) -> Section:
    """The table `warnings`; empty without one."""
    several = len(subjects) > 1
    rows = [
        [
            *([subject.name] if several else []),
            row["step"],
            public(
                row["message"] + (f": {shorten(row['example'], 120)!r}" if row["example"] else "")
            ),
            f"{row['count']:,} of {row['total']:,}",
            public(row["remedy"]),
        ]
        for subject in subjects
        for row in queries.read_warnings(subject.connection)
    ]
    heads = [*(["run"] if several else []), "step", "what was found", "rows", "what to do"]
    return Section("Warnings", [Table(heads, rows)] if rows else [])


_MEGABYTE = 1_000_000


@of_each_run(
    "Lineage",
    "The run has reached no step yet.",
    "Every figure on this page comes from these versions; `tercet show` describes each.",
)
def lineage(subject: Subject) -> list[Block]:
    """The version of each step, and its inputs."""
    steps = {str(step["version"]): str(step["step"]) for step in subject.steps}
    parents: dict[str, list[str]] = {}
    for row in subject.rows("SELECT child, parent FROM lineage ORDER BY child, parent"):
        if row["child"] in steps:
            parents.setdefault(row["child"], []).append(row["parent"])
    graph = _graph(subject, parents, steps)
    drawing = [_drawing(graph)] if graph.number_of_edges() else []
    return [*drawing, _versions(subject, parents, steps)] if steps else []


def _graph(
    subject: Subject, parents: Mapping[str, Sequence[str]], steps: Mapping[str, str]
) -> "nx.DiGraph[str]":
    """The families of steps and their dependencies, without edges that other edges imply."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    for step in subject.steps:
        family = _family(step["step"])
        graph.add_node(family)
        node = graph.nodes[family]
        node["steps"] = node.get("steps", 0) + 1
        node["made"] = node.get("made", 0) + (step.get("state") != "reused")
    for child, parent_versions in parents.items():
        for parent in parent_versions:
            one, other = _family(steps.get(parent, "")), _family(steps[child])
            if parent in steps and one != other:
                graph.add_edge(one, other)
    # Families may depend on each other in circles, where single steps do not.
    if not nx.is_directed_acyclic_graph(graph):
        return nx.DiGraph()
    reduced = nx.transitive_reduction(graph)
    reduced.add_nodes_from(graph.nodes(data=True))
    return reduced


def _drawing(graph: "nx.DiGraph[str]") -> Chart:
    """Steps from top to bottom, each below all its inputs."""
    places: dict[str, tuple[float, int]] = {}
    for depth, layer in enumerate(nx.topological_generations(graph)):
        # A step stands below the middle of its inputs, so that few lines cross.
        wish = {n: [places[parent][0] for parent in graph.predecessors(n)] for n in layer}
        ordered = sorted(layer, key=lambda n: (sum(wish[n]) / max(1, len(wish[n])), n))
        for rank, name in enumerate(ordered):
            # Names are to the right of their marks, on a phone too.
            alone = len(ordered) == 1
            places[name] = (0.42 if alone else (rank + 0.25) / len(ordered), depth)
    nodes: list[Row] = []
    for name, (x, depth) in places.items():
        count, made_count = graph.nodes[name]["steps"], graph.nodes[name]["made"]
        label = f"{name} × {count}" if count > 1 else name
        state = {0: "reused", count: "made"}.get(made_count, f"{made_count} of {count} made")
        nodes.append(
            {"name": label, "x": x, "depth": depth, "state": state, "reused": not made_count}
        )
    edges: list[Row] = [
        {"x": places[one][0], "depth": places[one][1], "x2": places[other][0]}
        | {"depth2": places[other][1], "name": f"{one} → {other}"}
        for one, other in graph.edges
    ]
    dependencies = "; ".join(
        f"{name} from {', '.join(sorted(graph.predecessors(name)))}"
        for name in places
        if graph.in_degree(name)
    )
    caption = (
        "Each step is below the steps that it is made from. Filled marks were made in "
        "this run, hollow ones reused. Lines implied by others are left out."
    )
    return Chart(
        charts.flow(nodes, edges), caption, f"Which step is made from which: {dependencies}."
    )


def _versions(
    subject: Subject, parents: Mapping[str, Sequence[str]], steps: Mapping[str, str]
) -> Table:
    sizes = {
        (row["step"], row["version"]): row
        for row in subject.rows("SELECT step, version, created, rows, bytes FROM artifacts")
    }
    rows: list[list[Cell]] = []
    for step in subject.steps:
        version = str(step["version"])
        artifact = sizes.get((step["step"], version), {})
        created = artifact.get("created")
        seconds = subject.manifest(step["step"], version).get("seconds")
        rows.append(
            [
                step["step"],
                version,
                step.get("state"),
                None if created is None else f"{created:%Y-%m-%d}\u00a0{created:%H:%M}",
                None if seconds is None else format_duration(float(seconds)),
                artifact.get("rows"),
                None if not artifact else f"{artifact['bytes'] / _MEGABYTE:.1f}",
                _parent_names(parents.get(version, []), steps),
            ]
        )
    heads = ["step", "version", "state", "made (UTC)", "took", "rows", "MB", "made from"]
    caption = "A version is a digest of everything that a step's result depends on."
    return Table(heads, rows, caption, "nnlnrrrl")


def _parent_names(parents: Sequence[str], steps: Mapping[str, str]) -> str | None:
    """The parents' families with their numbers of steps; weights by the start of their digest."""
    names: dict[str, int] = {}
    for parent in parents:
        name = steps.get(parent)
        label = f"weights {parent[:8]}" if name is None else _family(name)
        names[label] = names.get(label, 0) + 1
    return ", ".join(f"{n} × {c}" if c > 1 else n for n, c in sorted(names.items())) or None


def _family(step: str) -> str:
    """The name that the steps of all methods, or of all seeds, share."""
    name, _, last = step.rpartition(".")
    if step.startswith("synthesise."):
        return "synthesise"
    return name if last.startswith("seed") and last.removeprefix("seed").isdigit() else step
