"""What `tercet run` refuses: exit code 2, one sentence, and the next good run works."""

import gzip
import os
from pathlib import Path

import pytest
from good_and_bad import Place, sentence
from s3_server import free_port
from spoilt_models import spoilt

from tercet.storage.runs import list_runs
from tercet.storage.store import open_store


def _truncated() -> bytes:
    whole = gzip.compress(b"this is a line of many words\n" * 5000 + os.urandom(9000))
    return whole[: len(whole) // 2]


CORPORA: list[tuple[str, bytes | None, list[str]]] = [
    ("nosuch.txt", None, ["nosuch.txt: no such file"]),
    ("nosuch/*.txt", None, ["no file matches"]),
    ("empty.txt", b"", ["empty.txt", "is empty"]),
    ("numbers.csv", b"id,n\n1,2\n3,4\n", ["numbers.csv", "no sentence"]),
    ("binary.csv", bytes(range(256)) * 40, ["binary.csv"]),
    ("broken.parquet", b"PAR1" + b"x" * 100, ["broken.parquet", "Parquet"]),
    ("cut.txt.gz", _truncated(), ["cut.txt.gz", "damaged"]),
    ("notes.docx", b"PK", ["notes.docx", "no sentence", "1 bad_document"]),
    ("hf:glue", None, ["hf:glue", "the network"]),
]


@pytest.mark.parametrize(("source", "data", "told"), CORPORA, ids=[c[0] for c in CORPORA])
def test_a_corpus_that_cannot_be_read(
    place: Place, source: str, data: bytes | None, told: list[str]
) -> None:
    if data is not None:
        (place.folder / source).write_bytes(data)
    said = sentence(place.runs(place.good, "--corpus", source), 2)
    assert all(words in said for words in told), said
    place.goes_on()


def test_a_table_without_the_column_that_the_recipe_names(place: Place) -> None:
    (place.folder / "titles.csv").write_text("title,body\na,b\n")
    recipe = place.recipe("/notes.txt", "/titles.csv\n    text: text")
    assert "has no column 'text'" in sentence(place.runs(recipe), 2)
    place.goes_on()


@pytest.mark.parametrize("case", ["missing", "malformed", "folder"])
def test_a_lexicon_that_cannot_be_read(place: Place, case: str) -> None:
    lexicon = place.folder / f"{case}.tsv"
    if case == "malformed":
        lexicon.write_text("noun\ttypes\nheron\n")
    elif case == "folder":
        lexicon.mkdir()
    recipe = place.recipe("sample:", f"extract: {{lexicon: {lexicon}}}\nsample:")
    said = sentence(place.runs(recipe, "--until", "mentions"), 2)
    assert str(lexicon) in said
    assert "extract" in said
    assert case != "malformed" or "line 2" in said
    place.goes_on(until="mentions")


def test_a_package_that_is_not_installed(place: Place) -> None:
    recipe = place.recipe(f"{place.folder}/notes.txt", "pydocs\n    packages: [no-such-package]")
    message = sentence(place.runs(recipe), 2)
    assert "[missing_package]" in message
    assert "'no-such-package'" in message
    place.goes_on()


@pytest.mark.parametrize(
    ("name", "told"), [("./nosuch", "no model at"), ("weightless", "no weights in safetensors")]
)
def test_a_missing_backbone_is_reported_before_anything_is_made(
    place: Place, tmp_path: Path, name: str, told: str
) -> None:
    backbone = name if name.startswith(".") else str(spoilt(place.backbone, name, tmp_path))
    recipe = place.recipe(f"backbone: {place.backbone}", f"backbone: {backbone}")
    said = sentence(place.types("run", recipe, "--no-server", "--store", tmp_path / "store"), 2)
    assert told in said
    assert backbone in said
    assert not (tmp_path / "store" / "artifacts").exists()


def test_a_recipe_is_kept_once_and_the_command_may_be_repeated(place: Place) -> None:
    kept = place.folder / "kept.yaml"
    bad = place.types("run", place.good, "--no-server", "--write", kept, "--store", "/proc/store")
    assert "/proc/store" in sentence(bad, 2)
    assert not kept.exists()
    for _ in range(2):
        done = place.runs(place.good, "--write", kept)
        assert done.returncode == 0, done.stderr
        assert f"The recipe is in {kept}." in done.stderr
    again = place.runs(place.good, "--write", kept, "--seed", "7")
    assert "[exists]" in sentence(again, 2)
    none = place.runs(place.good, "--write", place.folder / "none" / "kept.yaml")
    assert "no directory" in sentence(none, 2)


@pytest.mark.parametrize("server", [(), ("--no-server",)], ids=["server", "no-server"])
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (("--set", "backbone=./nosuch"), "no model at"),
        (("--set", "evaluator.model=package:nosuch/model"), "not installed"),
        (("--corpus", "nosuch.txt"), "no such file"),
        (("--corpus", "hf:glue"), "check its name and the network"),
        (("--set", "corpora.0.source=titles.csv", "--set", "corpora.0.text=it"), "no column 'it'"),
    ],
    ids=["backbone", "evaluator", "corpus", "hub", "column"],
)
def test_a_bad_input_starts_no_server_and_leaves_no_store(
    place: Place, fault: tuple[str, ...], told: str, server: tuple[str, ...]
) -> None:
    (place.folder / "titles.csv").write_text("title,body\na,b\n")
    store = place.folder / "none"
    result = place.types("run", place.good, *fault, *server, "--store", store)
    assert told in sentence(result, 2)
    assert len(result.stderr.splitlines()) == 1
    assert not store.exists()


def test_a_server_that_is_away_is_one_sentence(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{free_port()}/api")
    result = place.types("run", place.good, "--store", place.folder / "away")
    assert "does not answer" in sentence(result, 2)
    assert list_runs(open_store(str(place.folder / "away"))) == []


@pytest.mark.parametrize(
    ("case", "more"),
    [
        ("file", ["--no-server"]),
        ("other", ["--no-server"]),
        ("forbidden", ["--no-server"]),
        ("forbidden", []),
        ("remote", []),
    ],
)
def test_a_store_that_cannot_be_written(place: Place, case: str, more: list[str]) -> None:
    other = place.folder / "other"
    other.mkdir(exist_ok=True)
    (other / "letter.txt").write_text("dear")
    stores = {
        "file": (str(place.good), "is a file"),
        "other": (str(other), "is not a store"),
        "forbidden": ("/proc/store", "/proc/store"),
        "remote": ("abfs://bucket/store", "not a local directory"),
    }
    store, told = stores[case]
    said = sentence(place.types("run", place.good, "--store", store, *more), 2)
    assert told in said
    assert (other / "letter.txt").read_text() == "dear"
    place.goes_on()


def test_it_is_not_started_as_one_of_several_processes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = sentence(place.types("run", place.good, "--no-server"), 2)
    assert "WORLD_SIZE is 2, but a single process trains" in said
