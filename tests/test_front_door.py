"""`import tercet`: what docs/python.md shows works, and loads nothing heavy by itself."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from report_store import write_run

import tercet

GUIDE = Path(__file__).parents[1] / "docs" / "python.md"
REVIEWS = [
    f"The {animal} in {town} {verb} {number} visitors before noon, and the keeper was glad."
    for animal, number in (("lion", 12), ("owl", 40), ("bear", 7), ("otter", 31))
    for town, verb in (("Delft", "met"), ("Modena", "saw"), ("Vienna", "scared"))
]


def test_importing_it_loads_nothing_heavy() -> None:
    code = "import tercet, sys; print({name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert "'tercet'" in loaded
    heavy = ("torch", "transformers", "prefect", "duckdb", "pyarrow", "pydantic")
    assert [name for name in heavy if f"'{name}'" in loaded] == []


def test_every_example_of_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text("\n".join(["text", *(f'"{one}"' for one in REVIEWS)]))
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    assert (names["run"].recipe, names["run"].state) == ("quickstart", "done")
    assert "sentences" in capsys.readouterr().out  # The suggestion for the misspelt table.
    steps = names["run"].steps()
    assert steps["step"].to_pylist()[0] == "ingest"
    assert set(steps["state"].to_pylist()) == {"made"}
    again = tercet.run("quickstart", corpus="reviews.csv", until="sentences")
    assert again.steps()["state"].to_pylist() == ["reused"]
    assert again.id != names["run"].id
    assert {"kind", "count", "remedy"} <= set(again.warnings().column_names)
    assert again.table("candidates").num_rows == 0 < names["store"].table("candidates").num_rows


def test_faults_are_sentences(tmp_path: Path) -> None:
    with fails("missing_file"):
        tercet.open(str(tmp_path / "none"))
    write_run(tmp_path / "store", {})
    store = tercet.open(str(tmp_path / "store"))
    with fails("not_read_only", "SELECT"):
        store.sql("DROP TABLE sentences")
    with fails("unfit_model"):
        store.run().model("everything")
    with fails("unknown_key"):
        tercet.run("quickstart", str(tmp_path / "store"), {"select.per_sentense.x": 1})
