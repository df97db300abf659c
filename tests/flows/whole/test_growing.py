"""A folder that grows: new documents cost their share, and those that go are gone.

Splits, graph and sample are those of the first run; the endpoint counts what it is asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer
from tiny_run import Tiny, documents, ended_well, query, record_of, tercet

from tercet.storage import runs
from tercet.storage.store import open_store

DOCUMENTS = 90
GONE = "page041.md"  # no other document has a sentence of it
# Steps whose parts are of some documents each.
METHODS = ("next_sentences", "entity_swap", "title", "question")
SYNTHESIS = tuple(f"synthesise.{name}" for name in METHODS)


@dataclass
class Growing:
    """A folder, its recipe and its store. asked: requests of each run, by rows."""

    folder: Path
    server: FaultyServer
    recipe: dict[str, Any]
    asked: list[int] = field(default_factory=list)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def put(self, name: str, row: dict[str, str], more: dict[str, str]) -> None:
        text = f"# Report {name}\n\n{row['query']} {row['answer']}\n\n{more['query']}\n"
        (self.folder / "pages" / name).write_text(text)

    def call(self, command: str, *options: str) -> str:
        file = self.folder / "growing.yaml"
        file.write_text(yaml.safe_dump(self.recipe, sort_keys=False))
        words = [command, str(file), "--store", str(self.store), "--until", "select", *options]
        return ended_well(tercet(*words)).stdout

    def run(self) -> None:
        before = sum(self.server.times_asked().values())
        self.call("run", "--no-server")
        self.asked.append(sum(self.server.times_asked().values()) - before)

    def rows(self, table: str) -> list[Any]:
        return query(self.store, f"SELECT * FROM {table} ORDER BY ALL")

    def made(self, step: str) -> tuple[int, int]:
        """How many parts with rows the newest run made, and how many parts there are."""
        run = runs.resolve_run(open_store(str(self.store)), None)
        (entry,) = [one for one in run["steps"] if one["step"] == step]
        records = record_of(self.store, step).values()
        folder = f"artifacts/{step}/{entry['version']}/"
        files = [[f["path"] for table in r["tables"].values() for f in table] for r in records]
        made = sum(any(path.startswith(folder) for path in paths) for paths in files)
        return made if entry["state"] != "reused" else 0, len(files)


@pytest.fixture(scope="module")
def growing(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Growing]:
    """After the first run, whose graph and sample are kept."""
    folder = tmp_path_factory.mktemp("growing")
    (folder / "pages").mkdir()
    content = yaml.safe_load(tiny.recipe.read_text())
    del content["select"]["pairing"], content["select"]["methods"]
    with FaultyServer() as server:
        content |= {
            "name": "growing",
            "corpora": [{"name": "pages", "source": str(folder / "pages")}],
            "ingest": {"min_words": 3, "max_words": 60, "passages": {"tokens": 24}},
            "sample": {"rows": 300},
            "llm": {"name": "capitals", "api": "completions"},
            "synthesise": dict.fromkeys(METHODS) | {"question": {"weight": 0.3}},
        }
        content["run"] |= {"part_rows": 100, "llm": {"endpoints": [server.url]}}
        begun = Growing(folder, server, content)
        rows = documents(2 * DOCUMENTS, seed=5)
        for number in range(DOCUMENTS):
            begun.put(f"page{number:03}.md", rows[number], rows[-number])
        begun.run()
        (run_id,) = query(begun.store, "SELECT max(run_id) FROM runs")[0]
        ended_well(tercet("tag", str(run_id), "corpus", "--store", str(begun.store)))
        begun.recipe["graph"] = {"keep": "tag:corpus"}
        for step in ("ingest", "sample"):
            begun.recipe[step]["keep"] = "tag:corpus"
        yield begun


def test_a_new_document_costs_its_share(growing: Growing) -> None:
    graph, anchors = growing.rows("kg_nodes"), growing.rows("anchors")
    vectors = {row[0] for row in query(growing.store, "SELECT text_id FROM embeddings")}
    first, second = documents(2, seed=6)
    second["query"] += " The river was old."
    # It is read before all others.
    growing.put("aaa.md", first, second)
    growing.run()
    assert growing.rows("kg_nodes") == graph
    assert growing.rows("anchors") == anchors
    # The last part takes it in; of `parse` and of scores the last of each method.
    for steps, most in ((("extract", *SYNTHESIS), 1), (("parse", "score.evaluator"), 4)):
        for step in steps:
            made, count = growing.made(step)
            assert made <= most < count / 2, (step, made, count)
    assert growing.made("extract")[0] == 1
    # The first part of the vectors hands on those that were known; the others hold the new ones.
    texts = {row[0] for row in query(growing.store, "SELECT text_id FROM embeddings")}
    parts = record_of(growing.store, "embed").values()
    rows = [sum(f["rows"] for f in record["tables"]["embeddings"]) for record in parts]
    assert 0 < sum(rows[1:]) == len(texts - vectors) < len(vectors) / 2
    (passages,) = query(growing.store, "SELECT count(*) FROM passages WHERE path LIKE '%aaa.md%'")
    assert 0 < growing.asked[1] <= passages[0]
    assert growing.asked[0] > 20 * growing.asked[1]


def test_a_kept_version_says_what_it_lacks(growing: Growing) -> None:
    warnings = query(growing.store, "SELECT step, kind, count, example FROM warnings")
    assert [row[2] > 0 for row in warnings if row[:2] == ("sample", "kept_sample")] == [True]
    assert [row[2:] for row in warnings if row[:2] == ("graph", "kept_graph")] == [(1, "river")]
    planned = growing.call("plan").splitlines()
    for step in ("graph", "sample", "ingest"):
        (line,) = [line for line in planned if line.split()[0] == step]
        assert f"keeps {step}@" in line
        assert line.endswith("(0 days old)")


def test_a_document_that_goes_is_gone(growing: Growing) -> None:
    of = f"(SELECT doc_id FROM documents WHERE path LIKE '%{GONE}%')"
    lost = f"SELECT text FROM sentences WHERE doc_id IN {of}"
    texts = [text for (text,) in query(growing.store, lost)]
    held = f"SELECT count(*) FROM passages WHERE path LIKE '%{GONE}%'"
    titles = "SELECT count(*) FROM triplets WHERE anchor = 'Report page041.md'"
    were = dict(query(growing.store, "SELECT path, split FROM documents"))
    assert len(texts) > 4
    assert query(growing.store, held) != [(0,)]
    assert query(growing.store, titles) != [(0,)]
    (growing.folder / "pages" / GONE).unlink()
    first, second = documents(2, seed=7)
    growing.put("page045a.md", first, second)
    growing.run()
    assert query(growing.store, held) == query(growing.store, titles) == [(0,)]
    listed = ", ".join("'" + text.replace("'", "''") + "'" for text in texts)
    for table, columns in {
        "sentences": ("text",),
        "candidates": ("anchor", "text"),
        "triplets": ("anchor", "positive", "negative"),
    }.items():
        for column in columns:
            count = f"SELECT count(*) FROM {table} WHERE {column} IN ({listed})"
            assert query(growing.store, count) == [(0,)], (table, column)
    now = dict(query(growing.store, "SELECT path, split FROM documents"))
    assert {path: now.get(path) for path in were if GONE not in path}.items() <= were.items()
    made, parts = growing.made("extract")
    # That of the one that went, perhaps filled from the next, and the last.
    assert made <= 3 < parts


def test_which_rows_there_are_does_not_depend_on_what_was_there(growing: Growing) -> None:
    tables, fresh = ("sentences", "passages", "documents"), growing.folder / "fresh"
    words = ("--no-server", "--until", "passages", "--store", str(fresh))
    drawn = [f"--set={step}.keep=null" for step in ("ingest", "graph", "sample")]
    ended_well(tercet("run", str(growing.folder / "growing.yaml"), *words, *drawn))
    for table in tables:
        assert query(fresh, f"SELECT * FROM {table} ORDER BY ALL") == growing.rows(table)
