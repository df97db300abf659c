"""A reader or a kind of somebody's own: one module and one line in a registry."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from stages import emitted

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe
from tercet.storage.code import modules_of
from tercet.tasks.corpus import ingest, labelled
from tercet.tasks.corpus.kind_registry import KINDS
from tercet.tasks.corpus.sources import files
from tercet.tasks.corpus.sources.corpora import CorpusConfig, IngestConfig
from tercet.tasks.corpus.sources.discover import describe
from tercet.tasks.corpus.sources.registry import READERS

READER = '''
"""Corpora that are counted: `count:N` has N sentences."""

from tercet.tasks.corpus.sources.corpora import Document
from tercet.tasks.corpus.sources.reader import Reader, Table
from tercet.tasks.corpus.sources.tables import Row


def _texts(corpus):
    return [f"This is sentence number {n}." for n in range(int(corpus.source[6:]))]


def digest(corpus):
    return corpus.source


def read(corpus, max_bytes):
    for n, text in enumerate(_texts(corpus)):
        yield Document("count", f"count:{n}", [[text]], [])


def tables(corpus, max_bytes):
    values = [{"text": text, "twice": 2 * text} for text in _texts(corpus)]
    rows = [Row(number, value, None) for number, value in enumerate(values)]
    yield Table("count", ["text", "twice"], lambda wanted: iter(rows))


READER = Reader("count:", digest, read, tables=tables)
'''
KIND = '''
"""Texts with their doubles."""

from tercet.tasks.corpus.kinds import Kind, Labelled


def row(values):
    return Labelled(values["text"], values["twice"], label=2)


KIND = Kind(("text", "twice"), ({"text": "text", "twice": "twice"},), row)
'''


def made(name: str, text: str) -> Any:
    """The object that a module of this text defines."""
    module: dict[str, Any] = {"__name__": f"toy_{name.lower()}"}
    exec(text, module)
    return module[name]


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(READERS, "count:", made("READER", READER))  # type: ignore[arg-type]
    monkeypatch.setitem(KINDS, "doubles", made("KIND", KIND))  # type: ignore[arg-type]


def test_a_toy_reader_gives_sentences_and_a_description(toys: None, tmp_path: Path) -> None:
    corpus = {"name": "c", "source": "count:9"}
    config = IngestConfig.model_validate({"corpora": [corpus]})
    assert len(emitted(ingest.STAGE, config, {}, tmp_path)["sentences"]) == 9
    assert ingest.externals(config) == {"c": "count:9"}
    assert describe("count:9").rows == 9


def test_a_toy_kind_gives_labelled_rows(toys: None, tmp_path: Path) -> None:
    corpus = {"name": "c", "source": "count:3", "role": "labelled", "kind": "doubles"}
    config = labelled.LabelledConfig.model_validate({"corpora": [corpus]})
    rows = emitted(labelled.STAGE, config, {}, tmp_path)["labelled"].to_pylist()
    assert [row["kind"] for row in rows] == ["doubles"] * 3
    assert rows[0]["positive"] == 2 * rows[0]["anchor"]


def recipe(*corpora: dict[str, Any]) -> Recipe:
    return Recipe.model_validate(
        {"name": "toy", "backbone": "b", "corpora": list(corpora), "train": {},
         "synthesise": {"cutoff": None}, "evaluator": {"model": "e"},
         "evaluate": {"suite": "suite"}}
    )  # fmt: skip


def test_a_step_has_the_code_of_its_own_readers_and_kinds_alone(toys: None) -> None:
    text = {"name": "t", "source": "a.txt"}
    rows = {"name": "r", "source": "count:3", "role": "labelled", "kind": "doubles"}
    steps = {step.name: step for step in compile_steps(resolve(recipe(text, rows)))}
    own = [READERS["count:"], KINDS["doubles"]]
    for name, used in (("ingest", [files.READER]), ("labelled", own)):
        assert steps[name].stage.uses(steps[name].config) == used
    assert modules_of(own) >= {"toy_reader", "toy_kind"}
    assert [corpus.name for corpus in steps["ingest"].config.corpora] == ["t"]
    assert [corpus.name for corpus in steps["sample"].config.corpora] == ["t"]
    assert steps["guard.labelled"].inputs == {"labelled": ("labelled",)}
    assert "labelled" not in {step.name for step in compile_steps(resolve(recipe(text)))}


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"kind": "pairs"}, "kind"),
        ({"columns": {"anchor": "a"}}, "columns"),
        ({"role": "labelled"}, "kind: triplets, pairs"),
        ({"role": "labelled", "kind": "nli"}, "'nli'"),
        ({"role": "labelled", "kind": "pairs", "query": "q", "answer": "a"}, "query .* `columns`"),
        ({"role": "labelled", "kind": "pairs", "share": 2}, "share"),
        ({"role": "labelled", "kind": "pairs", "packages": ["a"]}, "packages"),
        ({"query": "q"}, "query and answer"),
    ],
)
def test_keys_of_a_corpus_that_do_not_go_together(keys: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=f"error, .*{named}"):
        CorpusConfig.model_validate({"name": "c", "source": "c.csv", **keys})
