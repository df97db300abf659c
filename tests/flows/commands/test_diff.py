"""How `tercet diff` shows what it finds; what it finds, `test_run_differences` compares."""

import json
import sys
from pathlib import Path

import pytest
from report_store import write_run

from tercet.flows.commands.diff import show_difference


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    """Two runs, the second with a text that a terminal would obey."""
    return [
        write_run(
            tmp_path / "store",
            {table: [{"sentence_id": 1, "text": text}] for table in ("sentences", "anchors")},
            version=f"{place:016x}",
        )
        for place, text in enumerate(("One.", "\u202eOne\x9b."))
    ]


def test_json_is_escaped_for_a_terminal_alone(
    ids: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    show_difference(*ids, "json", str(tmp_path / "store"))
    piped = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_difference(*ids, "json", str(tmp_path / "store"))
    shown = capsys.readouterr().out
    assert "\u202e" in piped
    assert not {"\u202e", "\x9b"} & set(shown)
    assert json.loads(shown) == json.loads(piped)
