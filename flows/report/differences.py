"""Two runs against each other: figures, counts, and the recipe keys that differ."""

from collections.abc import Iterator, Mapping
from typing import Any

from tercet.flows.cards.redaction import public_values
from tercet.flows.report.blocks import Block, Note, Section, Table
from tercet.flows.report.figures import Figure, figures
from tercet.flows.report.kept import plain
from tercet.flows.report.made import counts
from tercet.flows.report.subject import Subject, duration, interval, signed

Cells = list[str | int | float | None]


def difference(a: Subject, b: Subject) -> Section:
    """B against A."""
    blocks: list[Block] = [_figures(a, b), _counts(a, b)]
    lead = "B less A. Where both trained with the same seeds, the interval is paired over them."
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
        low, high, n = _paired(one, other)
        if low is None or high is None:
            return (
                f"Whether B is better than A is not known: without several seeds in both, a "
                f"difference may be the seed's. {said}."
            )
        which = "B is better than A" if low > 0 else "B is worse than A"
        if low <= 0 <= high:
            which = "No difference shown between A and B"
        return f"{which}. {said}, 95 % interval {interval(low, high)} over {n} seeds of both."
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
        low, high, n = _paired(one, other)
        if low is not None and high is not None and (low > 0 or high < 0):
            strong.add(len(rows))
        same = _digest(one) == _digest(other)
        rows.append(
            [
                one.name,
                f"{mine:.2f}",
                f"{theirs:.2f}",
                signed(theirs - mine),
                interval(low, high),
                n or None,
                "the same" if same else "not the same",
            ]
        )
    if not rows:
        return Note("No figure was measured in both runs.", "missing")
    heads = ["figure", "A", "B", "B − A", "95 % interval", "seeds", "data"]
    caption = (
        "The trained encoders, means over seeds. Without an interval (one seed) a difference may "
        "be the seed's. Data that are not the same make figures that cannot be compared."
    )
    return Table(heads, rows, caption, "lrrrrrl", frozenset(strong))


def _paired(one: Figure, other: Figure) -> tuple[float | None, float | None, int]:
    from tercet.models.comparisons import paired_over_seeds

    mine = {seed: value for seed, value in one.values().items() if seed is not None}
    theirs = {seed: value for seed, value in other.values().items() if seed is not None}
    common = mine.keys() & theirs.keys()
    if len(common) < 2:
        return None, None, len(common)
    told = paired_over_seeds(theirs, mine)
    return told.low, told.high, told.n


def _digest(figure: Figure) -> str | None:
    return next((row.get("data_digest") for row in figure.after.values()), None)


def _counts(a: Subject, b: Subject) -> Table:
    rows: list[Cells] = []
    for (name, one), (_, other) in zip(counts(a), counts(b), strict=True):
        rows.append([name, f"{one:,}", f"{other:,}", f"{other - one:+,}".replace("-", "−")])
    rows.append(["time", duration(a.seconds), duration(b.seconds), None])
    return Table(["rows", "A", "B", "B − A"], rows, "How much there was of each.", "lrrr")
