"""Stage `count_tokens`: what is counted, what it leaves, and what it refuses in one sentence."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failures import fails
from spoilt_models import spoilt
from stages import ran, stored
from transformers import AutoTokenizer

from tercet.models.losses.token_frequencies import read_frequencies
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
    names = ("text", "corpus", "split")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    inputs = stored(tmp_path, sentences=pa.table(columns))
    config = count_tokens.CountTokensConfig(tokenizer="x", name="counts", corpora=corpora)
    models = {"tokenizer": tokenizer}
    folder, tables = ran(count_tokens.STAGE, config, inputs, tmp_path / "scratch", models)
    (table,) = (table for name, table in tables.items() if name != "rejects")
    return folder, table.to_pylist()


# At once, and more than are read at once.
@pytest.mark.parametrize("times", [1, 1_000])
def test_tokens_of_the_training_sentences_alone_are_counted(
    tmp_path: Path, tiny_backbone: Path, times: int
) -> None:
    folder, rows = counted(tmp_path, tiny_backbone, "docs", rows=ROWS * times)
    found = {row["token"]: (row["count"], row["frequency"]) for row in rows}
    # No special tokens; what the vocabulary lacks is one token.
    wanted = {"the": 3, "old": 1, "file": 1, "[UNK]": 1}
    assert found == {token: (n * times, pytest.approx(n / 6)) for token, n in wanted.items()}
    assert [row["token_id"] for row in rows] == sorted(row["token_id"] for row in rows)
    assert {row["model"] for row in rows} == {"counts"}
    tokenizer = AutoTokenizer.from_pretrained(tiny_backbone)
    shares = read_frequencies(folder, tokenizer)
    assert len(shares) == len(tokenizer)
    assert shares.sum() == pytest.approx(1)
    assert shares[tokenizer.convert_tokens_to_ids("the")] == pytest.approx(0.5)
    assert shares[tokenizer.convert_tokens_to_ids("green")] == 0
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
