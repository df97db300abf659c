"""Reading of reranking tasks: local files in MTEB's form, and the package mteb by a stand-in."""

import gzip
import sys
from types import SimpleNamespace

import pytest
from failures import fails
from small_suites import query

from tercet.tasks.evaluation.suites import reranking
from tercet.tasks.evaluation.suites.reranking import RankedQuery


@pytest.fixture
def root(tmp_path):
    (tmp_path / "reranking").mkdir()
    return tmp_path


def write(root, *lines, name="AskUbuntu.jsonl"):
    path = root / "reranking" / name
    data = "".join(lines).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["AskUbuntu.jsonl", "AskUbuntu.jsonl.gz"])
def test_reads_queries_in_one_or_several_wordings(root, name):
    write(root, query("how?", ["so", "thus"], ["no"]), query(["a", "b"], ["c"], ["d"]), name=name)
    task = reranking.read_task(root, "AskUbuntu")
    assert task.name == "AskUbuntu"
    assert task.queries == (
        RankedQuery(("how?",), ("so", "thus"), ("no",)),
        RankedQuery(("a", "b"), ("c",), ("d",)),
    )
    assert task.texts() == ["how?", "so", "thus", "no", "a", "b", "c", "d"]


def test_queries_without_one_side_are_left_out_and_counted(root):
    write(root, query(positive=[]), query("why?"), query(negative=[]))
    task = reranking.read_task(root, "AskUbuntu")
    assert [q.wordings for q in task.queries] == [("why?",)]
    assert task.skipped == 2


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("{", ""),
        ("[1]\n", ""),
        ('{"query": "a", "positive": ["b"]}\n', "negative"),
        ('{"positive": ["b"], "negative": ["c"]}\n', "query"),
        (query(text=3), "query"),
        (query(text=[]), "query"),
        (query(text=" "), "query"),
        (query(positive="so"), "positive"),
        (query(negative=["no", ""]), "negative"),
        (query(negative=["no", None]), "negative"),
        (query(negative=[float("nan")]), "negative"),
        (b'{"query": "\xff"}\n{"query": "\xc3\xbc"}\n', "UTF-8"),
    ],
)
def test_bad_lines(root, line, place):
    path = write(root, query())
    path.write_bytes(path.read_bytes() + (line if isinstance(line, bytes) else line.encode()))
    with fails("bad_row", "AskUbuntu.jsonl, line 2", place):
        reranking.read_task(root, "AskUbuntu")


@pytest.mark.parametrize("lines", [[], [query(positive=[])]])
def test_a_file_without_a_ranking_is_refused(root, lines):
    write(root, *lines)
    with fails("no_rows", "AskUbuntu.jsonl"):
        reranking.read_task(root, "AskUbuntu")


def test_a_missing_file_and_two_of_one_name_are_told(root):
    write(root, query())
    with fails("missing_file", "Mind.jsonl"):
        reranking.read_task(root, "Mind")
    write(root, query(), name="AskUbuntu.jsonl.gz")
    with fails("conflict", "'AskUbuntu'"):
        reranking.KIND.find(root, ["test"])


def test_names_are_those_of_the_table_first(root):
    for name in ("Alpha.jsonl", "Mind.jsonl", "SciDocs.jsonl.zst", "readme.txt", ".hidden.jsonl"):
        write(root, query(), name=name)
    assert reranking.KIND.find(root, ["test"]) == ["SciDocs", "Mind", "reranking:Alpha"]


def test_the_digest_tells_positive_from_negative(root):
    def digest(*lines):
        write(root, *lines)
        return reranking.read_task(root, "AskUbuntu").digest()

    found = [
        digest(query("a", ["b"], ["c", "d"])),
        digest(query("a", ["b", "c"], ["d"])),
        digest(query(["a", "b"], ["c"], ["d"])),
        digest(query("a", ["b"], ["c", "e"])),
    ]
    assert len(set(found)) == 4
    assert digest(query("a", ["b"], ["c", "d"])) == found[0]


def stand_in(monkeypatch, dataset, kind="Reranking", load=lambda: None):
    """A module in place of mteb with one task, whose data are these."""
    metadata = SimpleNamespace(
        name="Tiny",
        type=kind,
        eval_splits=["test"],
        dataset={"path": "somebody/tiny", "revision": "abc123"},
    )
    loads = []

    def load_data():
        load()
        loads.append(1)

    task = SimpleNamespace(metadata=metadata, dataset=dataset, load_data=load_data)

    def get_task(name):
        return {"Tiny": task}[name]

    monkeypatch.setitem(sys.modules, "mteb", SimpleNamespace(get_task=get_task))
    return loads


ROWS = [
    {"query": "a", "positive": ["b"], "negative": ["c"]},
    {"query": ["d", "e"], "positive": ["f"], "negative": ["g", "h"]},
    {"query": "i", "positive": [], "negative": ["j"]},
]
JOINED = {
    "corpus": [
        {"id": "1", "text": "b", "title": "T"},
        {"id": "2", "text": "c", "title": ""},
        {"id": "3", "text": "d"},
    ],
    "queries": [{"id": "q", "text": "a"}, {"id": "r", "text": "e"}],
    "relevant_docs": {"q": {"1": 1, "2": 0}, "r": {"3": 2}},
    "top_ranked": {"q": ["1", "2"], "r": ["1", "3"]},
}


@pytest.mark.parametrize("dataset", [{"test": ROWS, "dev": []}, {"default": {"test": ROWS}}])
def test_a_stand_in_for_mteb_with_rows_is_read(monkeypatch, dataset):
    loads = stand_in(monkeypatch, dataset)
    task = reranking.from_mteb("Tiny")
    assert task.name == "mteb:Tiny"
    assert task.queries == (
        RankedQuery(("a",), ("b",), ("c",)),
        RankedQuery(("d", "e"), ("f",), ("g", "h")),
    )
    assert (task.skipped, loads) == (1, [1])


def test_a_stand_in_for_mteb_with_a_corpus_is_joined(monkeypatch):
    stand_in(monkeypatch, {"default": {"test": JOINED}})
    assert reranking.from_mteb("Tiny").queries == (
        RankedQuery(("a",), ("T b",), ("c",)),
        RankedQuery(("e",), ("d",), ("T b",)),
    )


def test_a_stand_in_for_mteb_tells_its_revision_without_loading(monkeypatch):
    loads = stand_in(monkeypatch, {})
    assert reranking.mteb_revision("Tiny") == "somebody/tiny@abc123"
    assert loads == []


def test_what_mteb_cannot_give_is_told(monkeypatch):
    def fail():
        raise ConnectionError("no network\nand a trace")

    stand_in(monkeypatch, {"default": {"test": JOINED | {"top_ranked": None}}})
    with fails("no_rows"):
        reranking.from_mteb("Tiny")
    with fails("unknown_name", "'Huge'"):
        reranking.from_mteb("Huge")
    stand_in(monkeypatch, {}, load=fail)
    with fails("unreachable"):
        reranking.from_mteb("Tiny")
    stand_in(monkeypatch, {}, kind="STS")
    with fails("bad_value", "STS"):
        reranking.from_mteb("Tiny")
    monkeypatch.setitem(sys.modules, "mteb", None)
    with fails("missing_package"):
        reranking.from_mteb("AskUbuntuDupQuestions")
