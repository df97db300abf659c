"""Times, sizes and figures as people read them."""

import pytest

from tercet.flows.formatting import (
    format_bytes,
    format_clock,
    format_duration,
    format_number,
    format_range,
    format_rate,
    shorten,
)


@pytest.mark.parametrize(
    ("rate", "text"), [(1234.4, "1,234"), (85.2, "85"), (3.24, "3.2"), (0.251, "0.25")]
)
def test_format_rate(rate: float, text: str) -> None:
    assert format_rate(rate) == text


@pytest.mark.parametrize(("seconds", "text"), [(33, "0:33"), (725, "12:05"), (10800, "3:00:00")])
def test_format_clock(seconds: float, text: str) -> None:
    assert format_clock(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.44, "0.4 s"), (123, "2 min 03 s"), (3720, "1 h 02 min")],
)
def test_format_duration(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(512, "512 B"), (1500, "1.5 KB"), (2e13, "20.0 TB")])
def test_format_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_figures_that_are_unknown_stay_so() -> None:
    assert format_number(None) is None
    assert format_number(-1.234, sign="+") == "−1.23"
    assert format_range(1.0, None) is None
    assert format_range(-1.0, 2.0, digits=1, sign="+") == "−1.0 to +2.0"


def test_a_long_text_ends_in_an_ellipsis() -> None:
    assert shorten("a word too many", 8) == "a word…"
    assert shorten("a word", 8) == "a word"
    assert shorten(None) == ""
