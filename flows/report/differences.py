"""Two runs against each other: figures, counts, and the recipe keys that differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tercet.flows.pages.blocks import Block, Note, Section, Table
from tercet.flows.pages.redaction import public_values
from tercet.flows.report.figures import COUNTED, Figure, figures
from tercet.flows.report.kept import plain
from tercet.flows.report.made import counts
from tercet.flows.report.subject import Subject, duration, interval, signed
from tercet.flows.results import paired_items
from tercet.flows.results.metric_names import Metric
from tercet.flows.results.paired_items import Measured

Cells = list[str | int | float | None]

# Where an older store does not say how often a run drew for its intervals.
_RESAMPLES = 2_000


@dataclass(frozen=True)
class Gap:
    """B less A with its 95 % interval. over: what was drawn for it; seeds: whether trainings."""

    value: float
    low: float | None
    high: float | None
    over: str
    seeds: bool

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def difference(a: Subject, b: Subject) -> Section:
    """B against A."""
    blocks: list[Block] = [_figures(a, b), _counts(a, b)]
    lead = (
        "B less A. Where both trained with several of the same seeds, the interval is paired over "
        "them; of one training each it is over the queries and pairs that both were measured on."
    )
    return Section("A and B", blocks, lead)


def verdict(a: Subject, b: Subject) -> str | None:
    """In words, how B's encoder does against A's by the first figure that both have."""
    second = {figure.key: figure for figure in figures(b) if figure.headline}
    for one in figures(a):
        other = second.get(one.key)
        mine, theirs = one.mean(), None if other is None else other.mean()
        if not one.headline or other is None or mine is None or theirs is None:
            continue
        said = f"{one.name}: A {mine:.2f}, B {theirs:.2f}, B − A {signed(theirs - mine)} points"
        if _digest(one) != _digest(other):
            return f"The runs were measured on different data, so they cannot be compared. {said}."
        if _encoders(one) == _encoders(other):
            return f"A and B have the same encoder. {one.name}: {mine:.2f}."
        gap = _gap(one, other, a, b)
        if gap is not None and (gap.low is None or gap.high is None):
            return (
                f"Whether B is better than A is not known: the difference over {gap.over} has no "
                f"interval. {said}."
            )
        if gap is None or gap.low is None or gap.high is None:
            return (
                "Whether B is better than A is not known: they have neither several seeds in "
                f"common nor one training each over the same texts. {said}."
            )
        which = "B is better than A" if gap.low > 0 else "B is worse than A"
        if gap.low <= 0 <= gap.high:
            which = "No difference shown between A and B"
        text = f"{which}. {said}, 95 % interval {interval(gap.low, gap.high)} over {gap.over}."
        if not gap.seeds:
            text += " One training of each: how far another would differ is not known."
        return text
    return None


def keys(a: Subject, b: Subject) -> Section:
    """Which keys of the recipes differ."""
    rows = changed(a.recipe, b.recipe)
    title = "What differs in the recipes"
    if not rows:
        return Section(title, [Note("Nothing: both runs had the same recipe.")])
    told = [[row[0], *(_public(str(row[0]), value) for value in row[1:])] for row in rows]
    caption = "– stands for a key that is not there; paths are cut to their last names."
    return Section(title, [Table(["key", "A", "B"], told, caption)])


def _public(key: str, value: Any) -> Any:
    return public_values({key.rpartition(".")[2]: value})[key.rpartition(".")[2]]


def changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Cells]:
    """Key, value in A, value in B, for each leaf that differs."""
    one, other = dict(_leaves(plain(a))), dict(_leaves(plain(b)))
    return [
        [key, one.get(key), other.get(key)]
        for key in dict.fromkeys([*one, *other])
        if one.get(key) != other.get(key)
    ]


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, member in value.items():
            yield from _leaves(member, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list) and any(isinstance(member, Mapping | list) for member in value):
        for number, member in enumerate(value):
            yield from _leaves(member, f"{place}.{number}")
    elif isinstance(value, list):
        yield place, ", ".join(str(member) for member in value) or "none"
    else:
        yield place, "null" if value is None else str(value)


def _figures(a: Subject, b: Subject) -> Block:
    first = {figure.key: figure for figure in figures(a) if figure.headline}
    second = {figure.key: figure for figure in figures(b) if figure.headline}
    rows: list[Cells] = []
    strong = set()
    for key, one in first.items():
        other = second.get(key)
        mine, theirs = one.mean(), None if other is None else other.mean()
        if other is None or mine is None or theirs is None:
            continue
        gap = _gap(one, other, a, b)
        if gap is not None and gap.clear:
            strong.add(len(rows))
        same = _digest(one) == _digest(other)
        rows.append(
            [
                one.name,
                f"{mine:.2f}",
                f"{theirs:.2f}",
                signed(theirs - mine),
                "–" if gap is None else interval(gap.low, gap.high),
                None if gap is None else gap.over,
                "the same" if same else "not the same",
            ]
        )
    if not rows:
        return Note("No figure was measured in both runs.", "missing")
    heads = ["figure", "A", "B", "B − A", "95 % interval", "over", "data"]
    caption = (
        "The trained encoders, means over seeds. Bold: the interval leaves out zero. An interval "
        "over queries or pairs does not hold what another training would change. Data that are "
        "not the same make figures that cannot be compared."
    )
    return Table(heads, rows, caption, "lrrrrll", frozenset(strong))


def _gap(one: Figure, other: Figure, a: Subject, b: Subject) -> Gap | None:
    """B less A, over the seeds that both have or, of one training each, over what they saw."""
    from tercet.models.measures.comparisons import paired_over_seeds

    if _digest(one) != _digest(other):
        return None
    mine = {seed: value for seed, value in one.values().items() if seed is not None}
    theirs = {seed: value for seed, value in other.values().items() if seed is not None}
    if len(mine.keys() & theirs.keys()) > 1:
        told = paired_over_seeds(theirs, mine)
        return Gap(told.mean, told.low, told.high, f"{told.n} seeds of both", True)
    if len(one.after) > 1 or len(other.after) > 1:
        return None
    ours, seen = (
        Measured(subject.connection, row["model_version"], _resamples(subject))
        for subject, figure in ((b, other), (a, one))
        for row in figure.after.values()
    )
    metric = Metric(one.suite, one.task, one.subset, one.metric)
    drawn = paired_items.difference(ours, seen, metric, int(b.recipe.get("seed") or 0))
    if drawn is None:
        return None
    n = next(iter(one.after.values()))["n"]
    counted = COUNTED.get(one.suite, "examples")
    over = f"{n:,} {counted}" if n else f"the same {counted}"
    return Gap(drawn.value, drawn.low, drawn.high, over, False)


def _resamples(subject: Subject) -> int:
    return int((subject.recipe.get("evaluate") or {}).get("bootstrap", _RESAMPLES))


def _encoders(figure: Figure) -> list[str]:
    return sorted(str(row["model_version"]) for row in figure.after.values())


def _digest(figure: Figure) -> str | None:
    return next((row.get("data_digest") for row in figure.after.values()), None)


def _counts(a: Subject, b: Subject) -> Table:
    rows: list[Cells] = []
    for (name, one), (_, other) in zip(counts(a), counts(b), strict=True):
        rows.append([name, f"{one:,}", f"{other:,}", f"{other - one:+,}".replace("-", "−")])
    rows.append(["time", duration(a.seconds), duration(b.seconds), None])
    return Table(["rows", "A", "B", "B − A"], rows, "How much there was of each.", "lrrr")
