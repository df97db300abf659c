"""A model's tokenizer, or one sentence on why there is none."""

from pathlib import Path

from failures import fails

from tercet.tasks.tokenizer import load_tokenizer


def test_a_models_own_is_loaded(tiny_backbone: Path) -> None:
    assert load_tokenizer(tiny_backbone, "k").tokenize("The old file") == ["the", "old", "file"]


def test_a_folder_without_one_is_refused(tmp_path: Path) -> None:
    with fails("unreadable", "ingest.passages"):
        load_tokenizer(tmp_path, "ingest.passages")
