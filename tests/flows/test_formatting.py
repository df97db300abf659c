"""Times, sizes and figures as people read them."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.flows.formatting import (
    format_bytes,
    format_clock,
    format_duration,
    format_number,
    format_range,
    format_rate,
    printable,
    shorten,
    standard_output,
)
from tercet.flows.terminal import failures
from tercet.flows.terminal.progress import say
from tercet.tasks.stage import BadInput


@pytest.mark.parametrize(
    ("written", "text"),
    [
        *((format_rate(rate), text) for rate, text in ((1234.4, "1,234"), (3.24, "3.2"))),
        *((format_clock(seconds), text) for seconds, text in ((725, "12:05"), (10800, "3:00:00"))),
        (format_duration(None), "–"),
        (format_duration(0.44), "0.4 s"),
        (format_duration(123), "2 min 03 s"),
        (format_duration(3720), "1 h 02 min"),
        (format_bytes(512), "512 B"),
        (format_bytes(1500), "1.5 KB"),
        (shorten("a word too many", 8), "a word…"),
        (shorten(None), ""),
    ],
)
def test_numbers_and_texts_are_written_for_people(written: str, text: str) -> None:
    assert written == text


def test_figures_that_are_unknown_stay_so() -> None:
    assert format_number(None) is None
    assert format_number(-1.234, sign="+") == "−1.23"
    assert format_range(1.0, None) is None
    assert format_range(-1.0, 2.0, digits=1, sign="+") == "−1.0 to +2.0"


HARM = "a\x1b[31mb\x00c\x07d\x9be\u200bf\u202eg\ufeffh\udce9i\x7f"
SHOWN = "a\\x1b[31mb\\x00c\\x07d\\x9be\\u200bf\\u202eg\\ufeffh\\udce9i\\x7f"


@given(st.text(st.characters()))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert not [c for c in shown if (c < " " and c not in "\t\n") or "\x7f" <= c <= "\x9f"]


@pytest.mark.parametrize("text", ["naïve\n\tcafé", "5\u00a0km", "می\u200cروم", "👩\u200d🔬"])
def test_what_is_text_stays(text: str) -> None:
    assert printable(text) == text


def test_messages_and_failures_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    say(HARM)
    assert capsys.readouterr().err == f"{SHOWN}\n"
    assert failures.describe_failure(BadInput("bad_value", HARM)) == SHOWN
    assert SHOWN in failures.describe_failure(ValueError(HARM))


def test_rows_of_data_are_as_they_are_in_a_pipe_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    standard_output().write("a\x1b[31m,é\n".encode())
    assert screen.getvalue() == "a\\x1b[31m,é\n"
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", pipe)
    standard_output().write("a\x1b[31m,é\n".encode())
    assert pipe.buffer.getvalue() == "a\x1b[31m,é\n".encode()  # type: ignore[attr-defined]
