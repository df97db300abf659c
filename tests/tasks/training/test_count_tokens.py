"""Stage `count_tokens`: what is counted, what it leaves, and what it refuses in one sentence."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails
from spoilt_models import spoilt
from transformers import AutoTokenizer

from tercet.models.losses.token_frequencies import read_frequencies
from tercet.storage.rows import rows_of
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training import count_tokens

ROWS = [
    ("The old file", "docs", "train"),
    ("the the heron", "docs", "train"),
    ("the green list", "other", "train"),
    ("read read read", "docs", "dev"),
]


def counted(
    tmp_path: Path, tokenizer: Path, *corpora: str, rows: list[Any] = ROWS
) -> tuple[Path, list[dict[str, Any]]]:
    """The directory, and the rows of the table."""
    columns = dict(
        zip(("text", "corpus", "split"), map(list, zip(*rows, strict=True)), strict=True)
    )
    pq.write_table(pa.table(columns), tmp_path / "sentences.parquet")
    (tmp_path / "scratch").mkdir(exist_ok=True)
    emitted: list[pa.Table] = []
    folder = count_tokens.run(
        Work(
            config=count_tokens.CountTokensConfig(tokenizer="x", name="counts", corpora=corpora),
            seed=7,
            inputs={"sentences": rows_of({"sentences": [tmp_path / "sentences.parquet"]})},
            models={"tokenizer": tokenizer},
            spec={},
            resources=Resources(),
            scratch=tmp_path / "scratch",
            emit=lambda table, rows: emitted.append(rows),
        )
    )
    return folder, pa.concat_tables(emitted).to_pylist()


@pytest.mark.parametrize("batch", [1, 2_000])
def test_tokens_of_the_training_sentences_alone_are_counted(
    tmp_path: Path, tiny_backbone: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(count_tokens, "_BATCH", batch)
    folder, rows = counted(tmp_path, tiny_backbone, "docs")
    told = {row["token"]: (row["count"], row["frequency"]) for row in rows}
    # No special tokens; what the vocabulary lacks is one token.
    wanted = {"the": 3, "old": 1, "file": 1, "[UNK]": 1}
    assert told == {token: (n, pytest.approx(n / 6)) for token, n in wanted.items()}
    assert [row["token_id"] for row in rows] == sorted(row["token_id"] for row in rows)
    assert {row["model"] for row in rows} == {"counts"}
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone)
    found = read_frequencies(folder, tokenizer)
    assert len(found) == len(tokenizer)
    assert found.sum() == pytest.approx(1)
    assert found[tokenizer.convert_tokens_to_ids("the")] == pytest.approx(0.5)
    assert found[tokenizer.convert_tokens_to_ids("green")] == 0
    _, both = counted(tmp_path, tiny_backbone, "docs", "other")
    assert sum(row["count"] for row in both) == 9


def test_long_texts_are_counted_to_their_end(tmp_path: Path, tiny_backbone: Path) -> None:
    _, rows = counted(tmp_path, tiny_backbone, "docs", rows=[("red " * 200, "docs", "train")])
    assert [(row["token"], row["count"]) for row in rows] == [("red", 200)]


def test_what_cannot_be_counted_is_told(tmp_path: Path, tiny_backbone: Path) -> None:
    with fails("no_rows", "count_tokens.counts"):
        counted(tmp_path, tiny_backbone, "none")
    voiceless = spoilt(tiny_backbone, "voiceless", tmp_path)
    with fails("missing_file", "tokenizer"):
        counted(tmp_path, voiceless, "docs")
