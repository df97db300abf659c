"""Blocks of a section, however deep they lie."""

from collections.abc import Sequence
from typing import Any

from tercet.flows.pages.blocks import Fold, Grid, Section, Table, Tabs


def flat(blocks: Sequence[Any]) -> list[Any]:
    found = []
    for block in blocks:
        found.append(block)
        if isinstance(block, Grid | Fold):
            found += flat(block.blocks)
        if isinstance(block, Tabs):
            found += [inner for panel in block.panels for inner in flat(panel.blocks)]
    return found


def of(section: Section, kind: type) -> list[Any]:
    return [block for block in flat(section.blocks) if isinstance(block, kind)]


def table(section: Section, place: int = 0) -> list[list[Any]]:
    return [list(row) for row in of(section, Table)[place].rows]
