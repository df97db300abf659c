"""Data sets in the hub's layout, from a local directory; the hub itself is out of reach here."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails

from tercet.errors import ErrorKind
from tercet.tasks.corpus.sources import hub
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, Fault
from tercet.tasks.corpus.sources.discover import describe

TEXTS = ["The cat sat on the mat. It was warm.", "Rain fell all day long."]


def corpus(source: str, **more: Any) -> CorpusConfig:
    return CorpusConfig.model_validate({"name": "c", "source": source, **more})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data set of one configuration with two splits and class labels."""
    home = tmp_path / "some-set"
    (home / "parquet").mkdir(parents=True)
    (home / "README.md").write_text(
        "---\nconfigs:\n"
        "- config_name: nli\n  default: true\n  data_files:\n"
        "  - {split: train, path: parquet/train.parquet}\n"
        "  - {split: dev, path: parquet/dev.parquet}\n"
        "dataset_info:\n- config_name: nli\n  features:\n"
        "  - {name: text, dtype: string}\n  - {name: other, dtype: string}\n"
        "  - name: label\n    dtype:\n      class_label:\n"
        "        names: {'0': contradiction, '1': entailment}\n"
        "---\n"
    )
    table = pa.table({"text": TEXTS, "other": ["a", "b"], "label": pa.array([1, -1], pa.int64())})
    pq.write_table(table, home / "parquet" / "train.parquet")
    pq.write_table(table.slice(0, 1), home / "parquet" / "dev.parquet")
    return home


def test_a_source_names_owner_configuration_and_split(folder: Path) -> None:
    assert hub.place_of("hf:squad") == ("squad", None, "train", False)
    assert hub.place_of("hf:a/b:dev") == ("a/b", None, "dev", False)
    assert hub.place_of("hf:a/b/c") == ("a/b", "c", "train", False)
    assert hub.place_of(f"hf:{folder}") == (str(folder), None, "train", True)
    assert hub.place_of(f"hf:{folder}/nli:dev") == (str(folder), "nli", "dev", True)
    assert hub.place_of(f"hf:{folder}/nli:dev").shown == "some-set/nli:dev"
    for source in ("hf:", "hf:a//b", "hf:a/b/c/d"):
        with fails("bad_value", "hf:OWNER/NAME"):
            hub.place_of(source)


def test_rows_become_documents(folder: Path) -> None:
    one = corpus(f"hf:{folder}/nli")
    hub.READER.check(one, 1000)
    read = list(hub.READER.read(one, 1000))
    paragraphs = [["The cat sat on the mat.", "It was warm."]]
    assert read[0] == Document("some-set/nli:train", "some-set/nli:train:1", paragraphs, [])
    assert len(read) == 2
    assert len(list(hub.READER.read(corpus(f"hf:{folder}/nli:dev"), 1000))) == 1
    assert len(list(hub.READER.read(corpus(f"hf:{folder}/nli", limit=1), 1000))) == 1
    paired = corpus(f"hf:{folder}/nli", query="other", answer="text")
    assert hub.READER.has_pairs(paired)
    assert isinstance(read := next(hub.READER.read(paired, 1000)), Document)
    assert read.pairs == [("a", TEXTS[0])]


def test_faulty_rows_are_faults(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"id": 1, "body": "One two three."}\n{"id": 2, "body": null}\n'
        '{"id": 3, "body": "' + "x" * 5000 + '"}\n'
    )
    read = list(hub.READER.read(corpus(f"hf:{tmp_path}"), 1000))
    assert [type(one) for one in read] == [Document, Fault, Fault]
    reasons = [one.reason for one in read if isinstance(one, Fault)]
    assert reasons == ["missing_text", "line_too_long"]


def test_class_labels_come_by_name(folder: Path) -> None:
    (table,) = hub.tables(corpus(f"hf:{folder}/nli"), 1000)
    assert table.columns == ["text", "other", "label"]
    assert [row.values for row in table.rows(["label"])] == [
        {"label": "entailment"},
        {"label": None},
    ]


def test_the_digest_follows_content_configuration_and_split(folder: Path, tmp_path: Path) -> None:
    source = f"hf:{folder}/nli"
    first = hub.digest(corpus(source))
    assert first == hub.digest(corpus(f"{source}:train"))
    assert first != hub.digest(corpus(f"{source}:dev"))
    assert first != hub.digest(corpus(f"hf:{folder}"))
    moved = folder.rename(tmp_path / "elsewhere")
    assert first == hub.digest(corpus(f"hf:{moved}/nli"))
    (moved / "parquet" / "dev.parquet").unlink()
    assert first != hub.digest(corpus(f"hf:{moved}/nli"))


@pytest.mark.parametrize(
    ("tail", "keys", "kind", "named"),
    [
        (":test", {}, "unreachable", "hf:"),
        ("/none", {}, "unreachable", "hf:"),
        ("/nli", {"text": "body"}, "missing_column", "'body'"),
    ],
)
def test_what_is_not_there(folder: Path, tail: str, keys: Any, kind: ErrorKind, named: str) -> None:
    with fails(kind, named):
        hub.READER.check(corpus(f"hf:{folder}{tail}", **keys), 1000)


def test_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    class Offline:
        def dataset_info(self, name: str) -> None:
            raise ConnectionError("no route\nto the host")

    monkeypatch.setattr(huggingface_hub, "HfApi", Offline)
    hub._revision.cache_clear()
    for ask in (hub.digest, lambda one: hub.READER.check(one, 1000)):
        with fails("unreachable"):
            ask(corpus("hf:some/name"))


def test_the_hubs_revision_is_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets
    import huggingface_hub

    class Info:
        sha = "abc123"

    class Hub:
        def dataset_info(self, name: str) -> Info:
            return Info()

    asked: dict[str, Any] = {}

    def load(name: str, config: str | None, **keys: Any) -> Any:
        asked.update(name=name, config=config, **keys)
        return datasets.Dataset.from_dict({"text": TEXTS}).to_iterable_dataset()

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    monkeypatch.setattr(datasets, "load_dataset", load)
    hub._revision.cache_clear()
    first = hub.digest(corpus("hf:a/b/c"))
    assert len(list(hub.READER.read(corpus("hf:a/b/c:dev"), 1000))) == 2
    assert asked == {
        "name": "a/b", "config": "c", "split": "dev", "streaming": True, "revision": "abc123"
    }  # fmt: skip
    Info.sha = "def456"
    hub._revision.cache_clear()
    assert hub.digest(corpus("hf:a/b/c")) != first
    hub._revision.cache_clear()


def test_another_directory_finds_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert hub.portable("hf:some-set/nli:dev") == f"hf:{folder}/nli:dev"
    assert hub.portable("hf:a/b") == "hf:a/b"


def test_init_looks_at_its_first_rows(folder: Path) -> None:
    found = describe(f"hf:{folder}/nli")
    assert (found.format, found.files, found.unit, found.rows) == ("hf", None, "rows", 2)
    assert (found.columns, found.text) == (("text", "other", "label"), "text")
