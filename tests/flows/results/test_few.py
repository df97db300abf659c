"""Of how many questions a figure must be to tell anything."""

import pytest

from tercet.flows.results.few import FEW, is_few, more_of


@pytest.mark.parametrize(
    ("n", "few"), [(0, True), (1, True), (FEW - 1, True), (FEW, False), (None, False)]
)
def test_few_are_those_below_the_bound_and_an_unknown_number_is_not(
    n: int | None, few: bool
) -> None:
    assert is_few(n) == few


def test_more_questions_come_from_more_text_or_from_files() -> None:
    assert more_of("retrieval", "dev") == ": take more text or a larger `ingest.dev`"
    assert more_of("sts", "test") == ""
