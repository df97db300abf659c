"""The report of one run, or two side by side: all sections on one page, and what differs."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import duckdb

from tercet.flows.formatting import format_duration, format_range
from tercet.flows.pages.blocks import Block, Fact, Note, Section, Table
from tercet.flows.pages.page import page
from tercet.flows.recipe.secrets import public, public_path, public_values
from tercet.flows.report import (
    background,
    examples,
    figures,
    pairs,
    projection,
    synthesis,
    training,
)
from tercet.flows.results.figure_differences import compare_figures, difference_table
from tercet.flows.results.measures import all_measures
from tercet.flows.results.metric_names import FEW
from tercet.flows.results.run_differences import compare_recipes, compare_steps, describe_step
from tercet.flows.results.subject import Part, Subject
from tercet.flows.results.verdict import verdict_of
from tercet.storage import runs

# Measures that other sections show, beside charts or texts.
_IN_SECTIONS = {
    *("evaluations", "seeds", "space", "entries", "funnel", "acceptance", "contamination", "usage"),
}


def parts() -> list[Part]:
    """The sections in their order, the measures of installed packages among them."""
    others = [measure for name, measure in all_measures().items() if name not in _IN_SECTIONS]
    return [
        background.warnings,
        figures.before_and_after,
        figures.questions,
        synthesis.funnel,
        examples.examples,
        synthesis.neighbourhoods,
        *map(figures.measure_section, others),
        synthesis.scores,
        pairs.density,
        pairs.false_pairs,
        training.curves,
        training.gate,
        figures.entries,
        figures.space,
        projection.candidate_map,
        figures.over_seeds,
        background.contamination,
        background.cost,
        background.lineage,
        background.recipe,
    ]


def render_report(
    subjects: Sequence[Subject], tell: Callable[[str], None] = lambda message: None
) -> str:
    """The page. tell: called with the section in progress."""
    sections = []
    if len(subjects) > 1:
        a, b = subjects
        sections = [difference(a, b), compare_keys(a, b)]
    for part in parts():
        tell(part.__name__.replace("_", " "))
        section = _build_section(part, subjects)
        if any(not isinstance(one, Note) or one.tone != "missing" for one in section.blocks):
            sections.append(section)
    names = dict.fromkeys(str(subject.run["recipe_name"]) for subject in subjects)
    title = " and B: ".join(names)
    if len(subjects) > 1:
        title = f"A: {title}" if len(names) > 1 else f"Two runs of {title}"
    return page(
        title,
        sections,
        subtitle=_subtitle(subjects),
        facts=_facts(subjects[0]) if len(subjects) == 1 else (),
        notices=[
            *(notice for subject in subjects for notice in _notices(subject, len(subjects) > 1)),
            *_verdict(subjects),
        ],
        footer=(
            f"Made by `tercet report` from {public_path(subjects[0].store.location)}. Everything "
            "is in this one file; it needs no network."
        ),
    )


def _build_section(part: Part, subjects: Sequence[Subject]) -> Section:
    """The section, or an explanation if files of the store cannot be read."""
    try:
        return part(subjects)
    except (duckdb.IOException, duckdb.InvalidInputException, duckdb.BinderException) as error:
        message = public(str(error).splitlines()[0])
        title = part.__name__.replace("_", " ").capitalize()
        return Section(
            title, [Note(f"This could not be read from the store: {message}", "warning")]
        )


def _subtitle(subjects: Sequence[Subject]) -> str:
    sentences = []
    for subject in subjects:
        began = datetime.fromisoformat(subject.run["started"])
        sentence = f"run `{subject.run_id}`, started {began:%Y-%m-%d %H:%M} UTC"
        if len(subjects) > 1:
            sentence = f"{subject.name}: {sentence}"
        else:
            description = public(str(subject.recipe.get("description") or "").strip())
            ended = "" if not description or description[-1] in ".!?" else "."
            sentence = f"{description}{ended} R{sentence[1:]}".strip()
        sentences.append(sentence)
    return "; ".join(sentences) + "."


def _notices(subject: Subject, several: bool) -> list[Note]:
    """A notice about an unfinished run."""
    state = str(subject.run["state"])
    if state == "done":
        return []
    words = {
        "running": "is still in progress",
        "crashed": "was killed before it finished",
        "failed": "failed",
        "interrupted": "was interrupted",
    }
    named = f"Run {subject.name}" if several else "This run"
    message = f"{named} {words.get(state, state)}: this page shows its results so far."
    error = (subject.run.get("end_info") or {}).get("error")
    if error:
        message += f" Error: {public(str(error))}"
    if left := runs.steps_left(subject.run):
        message += f" Not reached: {', '.join(left)}."
    return [Note(message, "warning")]


def _verdict(subjects: Sequence[Subject]) -> list[Note]:
    """The result in words; empty for an unfinished run."""
    if len(subjects) > 1:
        sentence = compare_verdicts(*subjects)
    else:
        verdict = verdict_of(subjects[0].run["end_info"])
        sentence = None if verdict is None else verdict.sentence()
    return [] if sentence is None else [Note(sentence, "verdict")]


def _facts(subject: Subject) -> list[Fact]:
    """The headline figures."""
    facts = []
    verdict = verdict_of(subject.run["end_info"])
    if verdict is not None and verdict.figure is not None:
        has_interval = verdict.low is not None and verdict.high is not None
        note = f"points; 95 %: {format_range(verdict.low, verdict.high, sign='+')}"
        note = note if has_interval else "points"
        facts.append(Fact(verdict.figure, f"{verdict.gain:+.2f}", note))
    counted = synthesis.counts(subject)
    if counted["triplets"]:
        note = f"from {counted['candidates']:,} candidates"
        facts.append(Fact("triplets", f"{counted['triplets']:,}", note))
    anchors = counted["anchors"]
    note = f"of {counted['sentences']:,} sentences" if counted["sentences"] else ""
    facts.append(Fact("anchors", f"{anchors:,}", note))
    states = [step.get("state") for step in subject.steps]
    again = sum(state == "reused" for state in states)
    note = f"{len(states)} steps" + (f", {again} of them reused" if again else "")
    if again and subject.made_in is not None:
        note += f"; {format_duration(subject.made_in)} when made"
    facts.append(Fact("time", format_duration(subject.seconds), note))
    return facts


Cells = list[str | int | float | None]


def difference(a: Subject, b: Subject) -> Section:
    """B against A."""
    figures = compare_figures(a, b)
    blocks: list[Block] = [Note("The runs have no figure in common.", "missing")]
    if figures:
        blocks = difference_table(figures).on_page()
    blocks.append(_count_table(a, b))
    lead = (
        "B minus A. If both runs have several seeds in common, the interval is paired over these; "
        "with one training each it is over the queries and pairs that both were evaluated on."
    )
    return Section("A and B", blocks, lead)


def compare_verdicts(a: Subject, b: Subject) -> str | None:
    """A sentence that compares B's encoder with A's by the first figure that both have.

    Figures of too few questions come last.
    """
    first = min(compare_figures(a, b), key=lambda figure: figure.one.few, default=None)
    if first is None:
        return None
    values = (
        f"{first.name}: A {first.a:.2f}, B {first.b:.2f}, B − A {first.b - first.a:+.2f} points"
    )
    if not first.same_data:
        return f"The runs were evaluated on different data and cannot be compared. {values}."
    if first.same_encoder:
        return f"A and B have the same encoder. {first.name}: {first.a:.2f}."
    gap = first.gap
    if gap is None:
        return (
            "Whether B is better than A is not known: they have neither several seeds in "
            f"common nor one training each, evaluated on the same texts. {values}."
        )
    if first.few:
        return (
            f"Whether B is better than A is not known: fewer than {FEW} "
            f"{first.counted} were measured. {values}."
        )
    if gap.low is None or gap.high is None:
        return (
            f"Whether B is better than A is not known: the difference over {gap.over} has no "
            f"interval. {values}."
        )
    which = "B is better than A" if gap.low > 0 else "B is worse than A"
    if gap.low <= 0 <= gap.high:
        which = "No difference shown between A and B"
    ends = format_range(gap.low, gap.high, sign="+")
    text = f"{which}. {values}, 95 % interval {ends} over {gap.over}."
    if not gap.seeds:
        text += " With one training each, the variation between trainings is not known."
    return text


def compare_keys(a: Subject, b: Subject) -> Section:
    """The recipe keys that differ, and what else makes steps differ."""
    rows = compare_recipes(a.recipe, b.recipe)
    cells: list[Cells] = [[row[0], *(_public(row[0], value) for value in row[1:])] for row in rows]
    caption = "– marks a missing key; absolute paths are shortened to file names."
    same = "No key differs: both runs used the same recipe."
    blocks: list[Block] = [Table(["key", "A", "B"], cells, caption) if cells else Note(same)]
    steps: list[Cells] = [
        [step.step, describe_step(step)] for step in compare_steps(a.store, a.run, b.run)
    ]
    if steps:
        caption = "The steps that both runs do not share, and what in them differs."
        blocks.append(Table(["step", "difference"], steps, caption))
    return Section("Differences between the recipes", blocks)


def _public(key: str, value: Any) -> Any:
    return public_values({key.rpartition(".")[2]: value})[key.rpartition(".")[2]]


def _count_table(a: Subject, b: Subject) -> Table:
    rows: list[Cells] = []
    counted = synthesis.counts(b)
    for name, one in synthesis.counts(a).items():
        other = counted[name]
        rows.append([name, f"{one:,}", f"{other:,}", f"{other - one:+,}".replace("-", "−")])
    rows.append(["time", format_duration(a.seconds), format_duration(b.seconds), None])
    rows.append(["total time", format_duration(a.made_in), format_duration(b.made_in), None])
    return Table(["rows", "A", "B", "B − A"], rows, "Rows of each kind.", "lrrr")
