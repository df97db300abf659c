"""Compares two runs: figures, counts, and the recipe keys that differ."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tercet.flows.formatting import format_duration, format_number, format_range
from tercet.flows.pages.blocks import Block, Note, Section, Table
from tercet.flows.pages.redaction import public_values
from tercet.flows.report.kept import plain
from tercet.flows.report.made import counts
from tercet.flows.report.subject import Subject
from tercet.flows.results import paired_items
from tercet.flows.results.few import FEW, TOO_FEW, WHY
from tercet.flows.results.figures import Figure, of_tasks, read_figures
from tercet.flows.results.metric_names import COUNTED
from tercet.flows.results.paired_items import Measured

Cells = list[str | int | float | None]

# For older stores, which do not record the number of resamples.
_RESAMPLES = 2_000


@dataclass(frozen=True)
class Gap:
    """B minus A with its 95 % interval, of too few questions without.

    over: what was resampled; seeds: whether that was seeds.
    """

    value: float
    low: float | None
    high: float | None
    over: str
    seeds: bool

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def difference(a: Subject, b: Subject) -> Section:
    """B against A."""
    blocks: list[Block] = [_figures(a, b), _counts(a, b)]
    lead = (
        "B minus A. If both runs have several seeds in common, the interval is paired over these; "
        "with one training each it is over the queries and pairs that both were evaluated on."
    )
    return Section("A and B", blocks, lead)


def verdict(a: Subject, b: Subject) -> str | None:
    """In words, how B's encoder compares with A's by the first figure that both have.

    Those of too few questions come last.
    """
    second = {
        figure.metric: figure for figure in of_tasks(read_figures(b.connection)) if figure.headline
    }
    for one in sorted(of_tasks(read_figures(a.connection)), key=lambda figure: figure.few):
        other = second.get(one.metric)
        mine, theirs = one.mean(), None if other is None else other.mean()
        if not one.headline or other is None or mine is None or theirs is None:
            continue
        name = one.name if one.transductive else other.name
        said = f"{name}: A {mine:.2f}, B {theirs:.2f}, B − A {theirs - mine:+.2f} points"
        if _digest(one) != _digest(other):
            return f"The runs were evaluated on different data and cannot be compared. {said}."
        if _encoders(one) == _encoders(other):
            return f"A and B have the same encoder. {name}: {mine:.2f}."
        gap = _gap(one, other, a, b)
        if gap is not None and (one.few or other.few):
            return (
                f"Whether B is better than A is not known: fewer than {FEW} "
                f"{_counted(one)} were measured. {said}."
            )
        if gap is not None and (gap.low is None or gap.high is None):
            return (
                f"Whether B is better than A is not known: the difference over {gap.over} has no "
                f"interval. {said}."
            )
        if gap is None or gap.low is None or gap.high is None:
            return (
                "Whether B is better than A is not known: they have neither several seeds in "
                f"common nor one training each, evaluated on the same texts. {said}."
            )
        which = "B is better than A" if gap.low > 0 else "B is worse than A"
        if gap.low <= 0 <= gap.high:
            which = "No difference shown between A and B"
        ends = format_range(gap.low, gap.high, sign="+")
        text = f"{which}. {said}, 95 % interval {ends} over {gap.over}."
        if not gap.seeds:
            text += " With one training each, the variation between trainings is not known."
        return text
    return None


def keys(a: Subject, b: Subject) -> Section:
    """The recipe keys that differ."""
    rows = changed(a.recipe, b.recipe)
    title = "Differences between the recipes"
    if not rows:
        return Section(title, [Note("None: both runs used the same recipe.")])
    told = [[row[0], *(_public(str(row[0]), value) for value in row[1:])] for row in rows]
    caption = "– marks a missing key; absolute paths are shortened to file names."
    return Section(title, [Table(["key", "A", "B"], told, caption)])


def _public(key: str, value: Any) -> Any:
    return public_values({key.rpartition(".")[2]: value})[key.rpartition(".")[2]]


def changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Cells]:
    """Key, value in A and value in B of each leaf that differs."""
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
    first = {
        figure.metric: figure for figure in of_tasks(read_figures(a.connection)) if figure.headline
    }
    second = {
        figure.metric: figure for figure in of_tasks(read_figures(b.connection)) if figure.headline
    }
    rows: list[Cells] = []
    strong = set()
    few = False
    for metric, one in first.items():
        other = second.get(metric)
        mine, theirs = one.mean(), None if other is None else other.mean()
        if other is None or mine is None or theirs is None:
            continue
        gap = _gap(one, other, a, b)
        if gap is not None and gap.clear:
            strong.add(len(rows))
        same = _digest(one) == _digest(other)
        few = few or one.few or other.few
        rows.append(
            [
                one.name if one.transductive else other.name,
                f"{mine:.2f}",
                f"{theirs:.2f}",
                format_number(theirs - mine, sign="+"),
                "–" if gap is None else _ends(gap, one.few or other.few),
                None if gap is None else gap.over,
                "same" if same else "different",
            ]
        )
    if not rows:
        return Note("The runs have no figure in common.", "missing")
    heads = ["figure", "A", "B", "B − A", "95 % interval", "over", "data"]
    caption = (
        "The trained encoders, means over seeds. Bold: the interval excludes zero. An interval "
        "over queries or pairs does not include the variation between trainings. Figures on "
        "different data cannot be compared."
    )
    if few:
        caption += f" {WHY}"
    return Table(heads, rows, caption, "lrrrrll", frozenset(strong))


def _gap(one: Figure, other: Figure, a: Subject, b: Subject) -> Gap | None:
    """B minus A, over common seeds or, with one training each, over common queries or pairs."""
    from tercet.models.measures.comparisons import compare_seeds

    if _digest(one) != _digest(other):
        return None
    mine = {seed: value for seed, value in one.values().items() if seed is not None}
    theirs = {seed: value for seed, value in other.values().items() if seed is not None}
    if len(mine.keys() & theirs.keys()) > 1:
        told = compare_seeds(theirs, mine)
        few = one.few or other.few
        low, high = (None, None) if few else (told.low, told.high)
        return Gap(told.mean, low, high, f"{told.n} common seeds", True)
    if len(one.after) > 1 or len(other.after) > 1:
        return None
    ours, seen = (
        Measured(subject.connection, value.model, _resamples(subject))
        for subject, figure in ((b, other), (a, one))
        for value in figure.after.values()
    )
    drawn = paired_items.difference(ours, seen, one.metric, int(b.recipe.get("seed") or 0))
    if drawn is None:
        return None
    n = None if one.first is None else one.first.n
    over = f"{n:,} {_counted(one)}" if n else f"the same {_counted(one)}"
    return Gap(drawn.value, drawn.low, drawn.high, over, False)


def _ends(gap: Gap, few: bool) -> str | None:
    return TOO_FEW if few else format_range(gap.low, gap.high, sign="+")


def _counted(figure: Figure) -> str:
    return COUNTED.get(figure.metric.suite, "examples")


def _resamples(subject: Subject) -> int:
    return int((subject.recipe.get("evaluate") or {}).get("bootstrap", _RESAMPLES))


def _encoders(figure: Figure) -> list[str]:
    return sorted(value.model for value in figure.after.values())


def _digest(figure: Figure) -> str | None:
    return None if figure.first is None else figure.first.digest


def _counts(a: Subject, b: Subject) -> Table:
    rows: list[Cells] = []
    for (name, one), (_, other) in zip(counts(a), counts(b), strict=True):
        rows.append([name, f"{one:,}", f"{other:,}", f"{other - one:+,}".replace("-", "−")])
    rows.append(["time", format_duration(a.seconds), format_duration(b.seconds), None])
    rows.append(["total time", format_duration(a.made_in), format_duration(b.made_in), None])
    return Table(["rows", "A", "B", "B − A"], rows, "Rows of each kind.", "lrrr")
