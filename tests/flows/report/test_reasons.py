"""Every reason that the docs describe has words in a report."""

import re
from pathlib import Path

import pytest

from tercet.flows.report.reasons import BY_THRESHOLD, REASONS, SPARE, describe_reason

DOCS = Path(__file__).parents[3] / "docs" / "sql.md"


def documented() -> list[str]:
    """The third cells of the table of reasons."""
    section = DOCS.read_text(encoding="utf-8").partition("# Reasons\n")[2].partition("\n#")[0]
    cells = re.findall(r"^\|[^|]*\|[^|]*\| (`[^|]+`) \|", section, re.MULTILINE)
    return sorted({name for cell in cells for name in re.findall(r"`(\w+)`", cell)})


@pytest.mark.parametrize("reason", documented())
def test_a_documented_reason_has_words(reason: str) -> None:
    assert reason in REASONS


def test_groups_are_of_known_reasons_and_others_keep_their_names() -> None:
    assert {*SPARE, *BY_THRESHOLD} <= set(REASONS)
    assert describe_reason("empty") == REASONS["empty"]
    assert describe_reason("never_heard_of") == "never heard of"
