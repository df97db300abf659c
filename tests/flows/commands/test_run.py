"""What `tercet run` refuses: exit code 2, one sentence, and the next good run works."""

import gzip
import os
from pathlib import Path

import pytest
from good_and_bad import Place, sentence
from s3_server import free_port
from spoilt_models import spoilt

from tercet.errors import ErrorKind
from tercet.storage.runs import list_runs
from tercet.storage.store import open_store


def _truncated() -> bytes:
    whole = gzip.compress(b"this is a line of many words\n" * 5000 + os.urandom(9000))
    return whole[: len(whole) // 2]


CORPORA: list[tuple[str, bytes | None, ErrorKind]] = [
    ("nosuch/*.txt", None, "missing_file"),
    ("empty.txt", b"", "no_rows"),
    ("numbers.csv", b"id,n\n1,2\n3,4\n", "no_rows"),
    ("binary.csv", bytes(range(256)) * 40, "unreadable"),
    ("broken.parquet", b"PAR1" + b"x" * 100, "unreadable"),
    ("cut.txt.gz", _truncated(), "unreadable"),
    ("notes.docx", b"PK", "no_rows"),
]


@pytest.mark.parametrize(("source", "data", "kind"), CORPORA, ids=[c[0] for c in CORPORA])
def test_a_corpus_that_cannot_be_read(
    place: Place, source: str, data: bytes | None, kind: ErrorKind
) -> None:
    if data is not None:
        (place.folder / source).write_bytes(data)
    message = sentence(place.runs(place.good, "--corpus", source), 2)
    assert f"[{kind}]" in message
    assert source in message
    place.goes_on()


@pytest.mark.parametrize("case", ["missing", "malformed", "folder"])
def test_a_lexicon_that_cannot_be_read(place: Place, case: str) -> None:
    lexicon = place.folder / f"{case}.tsv"
    if case == "malformed":
        lexicon.write_text("noun\ttypes\nheron\n")
    elif case == "folder":
        lexicon.mkdir()
    recipe = place.recipe("sample:", f"extract: {{lexicon: {lexicon}}}\nsample:")
    message = sentence(place.runs(recipe, "--until", "mentions"), 2)
    assert all(name in message for name in (str(lexicon), "extract"))
    assert case != "malformed" or "line 2" in message
    place.goes_on(until="mentions")


def test_a_package_that_is_not_installed(place: Place) -> None:
    recipe = place.recipe(f"{place.folder}/notes.txt", "pydocs\n    packages: [no-such-package]")
    message = sentence(place.runs(recipe), 2)
    assert "[missing_package]" in message
    assert "'no-such-package'" in message
    place.goes_on()


def test_a_recipe_is_kept_once_and_the_command_may_be_repeated(place: Place) -> None:
    kept = place.folder / "kept.yaml"
    bad = place.types("run", place.good, "--no-server", "--write", kept, "--store", "/proc/store")
    assert "/proc/store" in sentence(bad, 2)
    assert not kept.exists()
    for _ in range(2):
        done = place.runs(place.good, "--write", kept)
        assert done.returncode == 0, done.stderr
    again = place.runs(place.good, "--write", kept, "--seed", "7")
    assert "[exists]" in sentence(again, 2)
    none = place.runs(place.good, "--write", place.folder / "none" / "kept.yaml")
    assert "[missing_file]" in sentence(none, 2)


@pytest.mark.parametrize("server", [(), ("--no-server",)], ids=["server", "no-server"])
@pytest.mark.parametrize(
    ("fault", "kind", "name"),
    [
        (("--set", "backbone=./nosuch"), "missing_file", "./nosuch"),
        (("--set", "backbone=WEIGHTLESS"), "unreadable", "weightless"),
        (("--set", "evaluator.model=package:nosuch/model"), "missing_package", "nosuch"),
        (("--corpus", "nosuch.txt"), "missing_file", "nosuch.txt"),
        (("--corpus", "hf:glue"), "unreachable", "hf:glue"),
        (
            ("--set", "corpora.0.source=titles.csv", "--set", "corpora.0.text=it"),
            "missing_column",
            "'it'",
        ),
    ],
    ids=["backbone", "weightless", "evaluator", "corpus", "hub", "column"],
)
def test_a_bad_input_starts_no_server_and_leaves_no_store(
    place: Place,
    tmp_path: Path,
    fault: tuple[str, ...],
    kind: ErrorKind,
    name: str,
    server: tuple[str, ...],
) -> None:
    (place.folder / "titles.csv").write_text("title,body\na,b\n")
    weightless = str(spoilt(place.backbone, "weightless", tmp_path))
    words = [word.replace("WEIGHTLESS", weightless) for word in fault]
    store = place.folder / "none"
    result = place.types("run", place.good, *words, *server, "--store", store)
    message = sentence(result, 2)
    assert f"[{kind}]" in message
    assert name in message
    assert len(result.stderr.splitlines()) == 1
    assert not store.exists()


def test_a_server_that_is_away_is_one_sentence(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{free_port()}/api")
    result = place.types("run", place.good, "--store", place.folder / "away")
    assert "[unreachable]" in sentence(result, 2)
    assert list_runs(open_store(str(place.folder / "away"))) == []


@pytest.mark.parametrize(
    ("store", "kind", "more"),
    [
        ("good.yaml", "exists", ["--no-server"]),
        ("other", "exists", ["--no-server"]),
        ("/proc/store", "refused", ["--no-server"]),
        ("/proc/store", "refused", []),
        ("abfs://bucket/store", "bad_value", []),
    ],
)
def test_a_store_that_cannot_be_written(
    place: Place, store: str, kind: ErrorKind, more: list[str]
) -> None:
    letter = place.folder / "other" / "letter.txt"
    letter.parent.mkdir(exist_ok=True)
    letter.write_text("dear")
    message = sentence(place.types("run", place.good, "--store", store, *more), 2)
    assert f"[{kind}]" in message
    assert store in message
    assert letter.read_text() == "dear"
    place.goes_on()


def test_it_is_not_started_as_one_of_several_processes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "WORLD_SIZE" in sentence(place.types("run", place.good, "--no-server"), 2)
