"""A terminal shows texts and obeys none."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.flows.terminal import failures
from tercet.flows.terminal.lines import say
from tercet.flows.terminal.printable import printable, standard_output
from tercet.tasks.stage import BadInput

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
    assert failures.describe_failure(BadInput(HARM)) == SHOWN
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
