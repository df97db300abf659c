"""The report of a run, or of two side by side: all sections, on one page."""

from collections.abc import Callable, Sequence
from datetime import datetime

import duckdb

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
from tercet.flows.report.figures import figures
from tercet.flows.report.subject import Subject, amount, duration, interval, signed

Part = Callable[[Sequence[Subject]], Section]

PARTS: tuple[Part, ...] = (
    measured.before_and_after,
    made.funnel,
    examples.examples,
    made.scores,
    pairs.density,
    pairs.false_pairs,
    trained.curves,
    trained.gate,
    measured.space,
    projection.plane,
    measured.over_seeds,
    kept.contamination,
    kept.cost,
    lineage.lineage,
    kept.recipe,
)


def html(subjects: Sequence[Subject], tell: Callable[[str], None] = lambda said: None) -> str:
    """The page. tell: hears what is being looked at."""
    sections = []
    if len(subjects) > 1:
        a, b = subjects
        sections = [differences.difference(a, b), differences.keys(a, b)]
    for part in PARTS:
        tell(part.__name__.replace("_", " "))
        sections.append(_made(part, subjects))
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
            "is in this one file; it asks for nothing from a network."
        ),
    )


def _made(part: Part, subjects: Sequence[Subject]) -> Section:
    """The section; where files of the store cannot be read, one that says so."""
    try:
        return part(subjects)
    except (
        duckdb.IOException,
        duckdb.InvalidInputException,
        # Stores of other versions may lack a table or a column.
        duckdb.CatalogException,
        duckdb.BinderException,
    ) as error:
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
    """What must be known first of a run that is not done."""
    state = str(subject.run["state"])
    if state == "done":
        return []
    words = {
        "running": "is still going on",
        "crashed": "was killed before its end",
        "failed": "failed",
        "interrupted": "was interrupted",
    }
    named = f"Run {subject.name}" if several else "This run"
    said = f"{named} {words.get(state, state)}: the page shows what it reached."
    error = (subject.run.get("end_info") or {}).get("error")
    if error:
        said += f" It says: {public(str(error))}"
    planned = (subject.run.get("info") or {}).get("steps") or []
    left = [step for step in planned if step not in {entry["step"] for entry in subject.steps}]
    if left:
        said += f" Not reached: {', '.join(left)}."
    return [Note(said, "warning")]


def _verdict(subjects: Sequence[Subject]) -> list[Note]:
    """What a newcomer wants to know, in words; nothing where a run has no end yet."""
    if len(subjects) > 1:
        said = differences.verdict(*subjects)
    elif subjects[0].run["state"] == "done" or figures(subjects[0]):
        said = measured.verdict(subjects[0])
    else:
        said = None
    return [] if said is None else [Note(said, "verdict")]


def _facts(subject: Subject) -> list[Fact]:
    """The figures at the top."""
    facts = []
    found = next(
        (f for f in figures(subject) if f.headline and f.gains and f.before is not None), None
    )
    if found is not None:
        gain, low, high = found.first()
        known = low is not None and high is not None
        note = f"points; 95 %: {interval(low, high)}" if known else "points"
        facts.append(Fact(found.name, signed(gain), note))
    counted = dict(made.counts(subject))
    if counted["triplets"]:
        note = f"from {amount(counted['candidates'])} candidates"
        facts.append(Fact("triplets", amount(counted["triplets"]), note))
    anchors = counted["anchors"]
    note = f"of {amount(counted['sentences'])} sentences" if counted["sentences"] else ""
    facts.append(Fact("anchors", amount(anchors), note))
    states = [step.get("state") for step in subject.steps]
    again = sum(state == "reused" for state in states)
    note = f"{len(states)} steps" + (f", {again} of them reused" if again else "")
    facts.append(Fact("time", duration(subject.seconds), note))
    return facts
