"""What `run` says of the columns and the dialects that it found."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tercet.flows.pipeline.step import Step
from tercet.flows.running import corpus_lines
from tercet.tasks.corpus.sources.corpora import IngestConfig

LINES = [f"Heron {number} stands in the water." for number in range(20)]


def lines(*corpora: dict[str, object]) -> list[str]:
    config = IngestConfig.model_validate({"corpora": corpora})
    step: Any = SimpleNamespace(name="ingest", config=config)
    return list(corpus_lines.guesses_of_tables(cast(Step, step)))


def test_columns_and_dialects_are_told_once_for_all_files(tmp_path: Path) -> None:
    for name, mark in (("a.csv", "|"), ("b.csv", ","), ("c.csv", ",")):
        rows = [f"{number}{mark}{line}" for number, line in enumerate(LINES)]
        (tmp_path / name).write_text("\n".join([f"id{mark}Remark", *rows]))
    (tmp_path / "plain.txt").write_text("\n".join(LINES))
    plain = {"name": "p", "source": str(tmp_path / "plain.txt")}
    given = {"text": "id", "dialect": {"delimiter": "|"}}
    for source, more, column in ((tmp_path, {}, "Remark"), (tmp_path / "a.csv", given, "id")):
        (line,) = lines({"name": "c", "source": str(source), **more}, plain)
        assert f"'{column}'" in line
        assert "'|'" in line
