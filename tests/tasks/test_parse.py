from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from tercet.models import seeding
from tercet.storage.rows import rows_of
from tercet.tasks import parse
from tercet.tasks.parse import CANDIDATES, ParseConfig
from tercet.tasks.stage import REJECTS, Resources, Work
from tercet.tasks.synthesise import GENERATIONS

SOURCE = "The dog  sat on the Mat."
NOTHING: dict[str, Any] = dict.fromkeys(
    ("operation", "old", "new", "mention_id", "node_id", "pool")
)


def parsed(
    folder: Path, rows: list[dict[str, Any]], **config: Any
) -> tuple[pa.Table, dict[int, str]]:
    """Candidates, and the reason of each rejected generation by its number."""
    source_id = seeding.text_id(SOURCE)
    full = [
        dict.fromkeys(GENERATIONS.names)
        | {"generation_id": number, "sentence_id": source_id, "purpose": "negative"}
        | {"method": "m", "finish_reason": "stop", "detail": NOTHING}
        | row
        for number, row in enumerate(rows)
    ]
    pq.write_table(pa.Table.from_pylist(full, GENERATIONS), folder / "g.parquet")
    sentences = pa.table(
        {"sentence_id": pa.array([source_id, 5], pa.uint64()), "text": [SOURCE, "Other."]}
    )
    pq.write_table(sentences, folder / "s.parquet")
    inputs = {
        "generations": rows_of({"generations": [folder / "g.parquet"]}),
        "sentences": rows_of({"sentences": [folder / "s.parquet"]}),
    }
    tables = {"candidates": [CANDIDATES.empty_table()], "rejects": [REJECTS.empty_table()]}
    work = Work(
        ParseConfig(**config),
        1,
        inputs,
        {},
        {},
        Resources(),
        folder,
        lambda name, table: tables[name].append(table),
    )
    parse.run(work)
    rejects = pa.concat_tables(tables["rejects"]).to_pylist()
    assert all(row["stage"] == "parse" and row["detail"] for row in rejects)
    assert all(row["text"] == full[row["row_id"]]["raw"] for row in rejects)
    return pa.concat_tables(tables["candidates"]), {r["row_id"]: r["reason"] for r in rejects}


def test_a_good_generation_becomes_a_candidate(tmp_path: Path) -> None:
    detail = NOTHING | {
        "operation": "swap_entity",
        "old": "dog",
        "new": "Cat",
        "node_id": 2**64 - 1,
    }
    candidates, reasons = parsed(tmp_path, [{"raw": " The cat sat.\n", "detail": detail}])
    assert not reasons
    source_id = seeding.text_id(SOURCE)
    assert candidates.to_pylist() == [
        {
            "candidate_id": seeding.text_id(str(source_id), "m", "negative", "The cat sat."),
            "generation_id": 0,
            "sentence_id": source_id,
            "role": "negative",
            "method": "m",
            "text": "The cat sat.",
            "detail": detail,
        }
    ]


def test_reasons(tmp_path: Path) -> None:
    swap = NOTHING | {"operation": "swap_entity", "old": "dog", "new": "cat"}
    rows: list[tuple[str | None, dict[str, Any]]] = [
        ("cut_off", {"raw": "Something that", "finish_reason": "length"}),
        ("empty", {"raw": ""}),
        ("empty", {"raw": " \n\t"}),
        ("empty", {"raw": None}),
        ("same_as_source", {"raw": SOURCE}),
        ("same_as_source", {"raw": "\nthe DOG sat\ton the mat. "}),
        (None, {"raw": "The dog sat on the mat"}),
        ("too_short", {"raw": "Dog"}),
        ("too_long", {"raw": "one two three four five six seven eight"}),
        ("unchanged_entity", {"raw": "The Dog slept.", "detail": swap}),
        (None, {"raw": "The cat chased a dog.", "detail": swap}),
        (None, {"raw": "The dog is not here.", "detail": swap | {"operation": "other"}}),
        (None, {"raw": "Said twice over."}),
        ("duplicate", {"raw": "said  twice over."}),
        (None, {"raw": "Said twice over.", "purpose": "positive"}),
        (None, {"raw": "Said twice over.", "sentence_id": 5}),
        ("too_short", {"raw": "Different.", "sentence_id": 5}),
        (None, {"raw": "Of no sentence.", "sentence_id": 6}),
    ]
    candidates, reasons = parsed(tmp_path, [row for _, row in rows], min_words=2, max_words=7)
    wanted = [reason for reason, _ in rows]
    assert [reasons.get(number) for number in range(len(rows))] == wanted
    kept = [number for number, (reason, _) in enumerate(rows) if reason is None]
    assert candidates["generation_id"].to_pylist() == kept
    assert len(kept) + len(reasons) == len(rows)


def test_every_row_arrives_or_is_rejected(tmp_path: Path) -> None:
    rows = [{"raw": f"Text number {i % 700}."} for i in range(1000)]
    candidates, reasons = parsed(tmp_path, rows)
    assert len(candidates) == 700
    assert set(reasons.values()) == {"duplicate"}
    assert len(reasons) == 300
    assert len(set(candidates["candidate_id"].to_pylist())) == 700


def test_nothing_to_parse(tmp_path: Path) -> None:
    candidates, reasons = parsed(tmp_path, [])
    assert (len(candidates), reasons) == (0, {})


def test_config() -> None:
    with pytest.raises(ValidationError, match="min_words is larger"):
        ParseConfig(min_words=5, max_words=4)
    with pytest.raises(ValidationError):
        ParseConfig(min_words=0)
