"""The report of one run, or two side by side: all sections on one page."""

from collections.abc import Callable, Sequence
from datetime import datetime

import duckdb

from tercet.flows.formatting import format_duration, format_range
from tercet.flows.pages.blocks import Fact, Note, Section
from tercet.flows.pages.page import page
from tercet.flows.pages.redaction import public, public_path
from tercet.flows.report import (
    differences,
    examples,
    kept,
    lineage,
    made,
    measured,
    pairs,
    projection,
    trained,
)
from tercet.flows.report.subject import Subject
from tercet.flows.results.verdict import verdict_of
from tercet.storage import runs

Part = Callable[[Sequence[Subject]], Section]

PARTS: tuple[Part, ...] = (
    kept.warned,
    measured.before_and_after,
    measured.questions,
    made.funnel,
    examples.examples,
    made.neighbourhoods,
    measured.generators,
    measured.discriminators,
    made.scores,
    pairs.density,
    pairs.false_pairs,
    trained.curves,
    trained.gate,
    measured.entries,
    measured.space,
    projection.plane,
    measured.over_seeds,
    kept.contamination,
    kept.cost,
    lineage.lineage,
    kept.recipe,
)


def render_report(
    subjects: Sequence[Subject], tell: Callable[[str], None] = lambda said: None
) -> str:
    """The page. tell: called with the section in progress."""
    sections = []
    if len(subjects) > 1:
        a, b = subjects
        sections = [differences.difference(a, b), differences.keys(a, b)]
    for part in PARTS:
        tell(part.__name__.replace("_", " "))
        section = _made(part, subjects)
        if _shows(section):
            sections.append(section)
    return page(
        _title(subjects),
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


def _shows(section: Section) -> bool:
    """Whether there is more in it than words about what is missing."""
    return any(not isinstance(block, Note) or block.tone != "missing" for block in section.blocks)


def _made(part: Part, subjects: Sequence[Subject]) -> Section:
    """The section, or an explanation if files of the store cannot be read."""
    try:
        return part(subjects)
    except (duckdb.IOException, duckdb.InvalidInputException, duckdb.BinderException) as error:
        said = public(str(error).splitlines()[0])
        title = part.__name__.replace("_", " ").capitalize()
        return Section(title, [Note(f"This could not be read from the store: {said}", "warning")])


def _title(subjects: Sequence[Subject]) -> str:
    names = [str(subject.run["recipe_name"]) for subject in subjects]
    if len(names) == 1:
        return names[0]
    return f"A: {names[0]} and B: {names[1]}" if names[0] != names[1] else f"Two runs of {names[0]}"


def _subtitle(subjects: Sequence[Subject]) -> str:
    told = []
    for subject in subjects:
        began = datetime.fromisoformat(subject.run["started"])
        said = f"run `{subject.run_id}`, started {began:%Y-%m-%d %H:%M} UTC"
        if len(subjects) > 1:
            said = f"{subject.name}: {said}"
        else:
            description = public(str(subject.recipe.get("description") or "").strip())
            ended = "" if not description or description[-1] in ".!?" else "."
            said = f"{description}{ended} R{said[1:]}".strip()
        told.append(said)
    return "; ".join(told) + "."


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
    said = f"{named} {words.get(state, state)}: this page shows its results so far."
    error = (subject.run.get("end_info") or {}).get("error")
    if error:
        said += f" Error: {public(str(error))}"
    if left := runs.steps_left(subject.run):
        said += f" Not reached: {', '.join(left)}."
    return [Note(said, "warning")]


def _verdict(subjects: Sequence[Subject]) -> list[Note]:
    """The result in words; empty for an unfinished run."""
    if len(subjects) > 1:
        sentence = differences.verdict(*subjects)
    else:
        verdict = verdict_of(subjects[0].run["end_info"])
        sentence = None if verdict is None else verdict.sentence()
    return [] if sentence is None else [Note(sentence, "verdict")]


def _facts(subject: Subject) -> list[Fact]:
    """The headline figures."""
    facts = []
    verdict = verdict_of(subject.run["end_info"])
    if verdict is not None and verdict.figure is not None:
        known = verdict.low is not None and verdict.high is not None
        note = f"points; 95 %: {format_range(verdict.low, verdict.high, sign='+')}"
        note = note if known else "points"
        facts.append(Fact(verdict.figure, f"{verdict.gain:+.2f}", note))
    counted = dict(made.counts(subject))
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
