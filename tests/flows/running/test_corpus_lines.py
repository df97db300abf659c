"""What `run` says of the columns and the dialects that it found."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from commands_store import make_artifact

from tercet.flows.pipeline.step import Step
from tercet.flows.running import corpus_lines
from tercet.storage.store import open_store
from tercet.tasks.corpus.outcomes import CORPUS_OUTCOMES
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.knowledge.graph import GraphConfig

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
    assert lines({"name": "c", "source": str(tmp_path)}, plain) == [
        "ingest: corpus 'c': text in column 'Remark', fields separated by '|' (set by its text and "
        "dialect)."
    ]
    given = {"text": "id", "dialect": {"delimiter": "|"}}
    assert lines({"name": "c", "source": str(tmp_path / "a.csv"), **given}) == [
        "ingest: corpus 'c': text in column 'id', fields separated by '|' (set by its text and "
        "dialect)."
    ]


def test_other_steps_say_nothing() -> None:
    step: Any = SimpleNamespace(name="sample", config=GraphConfig())
    assert not corpus_lines.guesses_of_tables(step)


PLAIN = {"name": "plain", "source": "package:tercet.recipes/plain_english.txt"}
COUNTS = [
    ("docs", "document", "train", 500),
    ("docs", "document", "large_cluster", 84),
    ("docs", "document", "nothing_kept", 7),
    ("docs", "sentence", "train", 9000),
    ("docs", "parted", "train", 584),
    ("plain", "document", "train", 1000),
    ("plain", "document", "test", 496),
]


def lines_of_own_documents(tmp_path: Path, *corpora: dict[str, str]) -> list[str]:
    columns = [list(column) for column in zip(*COUNTS, strict=True)]
    table = pa.table(columns, schema=CORPUS_OUTCOMES)
    store = open_store(str(tmp_path / "store"))
    artifact = make_artifact(store, "ingest", "aaaa", {"corpus_outcomes": table})
    config = IngestConfig.model_validate({"corpora": corpora})
    step: Any = SimpleNamespace(name="ingest", config=config)
    return list(corpus_lines.own_documents(step, artifact))


def test_documents_that_are_kept_are_counted_apart(tmp_path: Path) -> None:
    docs = {"name": "docs", "source": "docs"}
    assert lines_of_own_documents(tmp_path, docs, PLAIN) == [
        "ingest: 584 documents of yours, 1,496 that come with Tercet."
    ]


def test_nothing_is_said_where_no_corpus_comes_with_tercet(tmp_path: Path) -> None:
    assert (
        lines_of_own_documents(
            tmp_path, {"name": "docs", "source": "docs"}, {**PLAIN, "source": "p.txt"}
        )
        == []
    )


def test_other_steps_and_texts_to_pretrain_on_have_no_such_line(tmp_path: Path) -> None:
    artifact = make_artifact(open_store(str(tmp_path / "store")), "ingest.pretrain", "bbbb", {})
    step: Any = SimpleNamespace(name="graph", config=None)
    assert corpus_lines.own_documents(step, artifact) == ()
    step.config = IngestConfig.model_validate({"corpora": [PLAIN]})
    assert corpus_lines.own_documents(step, artifact) == ()
