"""What will be asked is told beforehand (`plan`), and a few prompts are tried (`try`)."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer, Reply, Seen, error
from llm_recipe import repeated, words
from tiny_run import documents, ended_well, query, states, tercet, write_corpus

from tercet.flows.commands.try_method import try_method
from tercet.flows.running.arguments import RunArguments
from tercet.tasks.synthesis.methods import PROMPTED_NAMES

# "synthesise.rewrite asks 120 rows: …", but not what is asked at most.
ASKS = re.compile(r"(\S+) asks ([\d,]+) rows", re.MULTILINE)


def plan_of(path: Path, store: Path, *options: str) -> str:
    return ended_well(tercet("plan", str(path), "--store", str(store), *options)).stdout


def asks(path: Path, store: Path, *options: str) -> dict[str, int]:
    """Step to the rows that a plan says it will ask about."""
    told = ASKS.findall(plan_of(path, store, *options))
    return {step: int(rows.replace(",", "")) for step, rows in told}


def edit(path: Path, **changes: Any) -> None:
    content = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(content | changes, sort_keys=False))


def test_a_plan_tells_what_a_change_costs(recipe: Callable[..., Path], tmp_path: Path) -> None:
    with FaultyServer() as server:
        path, store = recipe(server.url), tmp_path / "store"
        # Before there is a sample nobody knows how many rows there are.
        assert asks(path, store) == {}
        ended_well(tercet(*words(path, store, "--until", "sample")))
        assert asks(path, store) == {"synthesise.rewrite": 120, "synthesise.antisense": 120}
        assert server.log == []
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert asks(path, store) == {}
        # One word of one prompt: that method alone, at the length its answers have had.
        recipe(server.url, prompt="Again: {{ sentence }}")
        assert asks(path, store) == {"synthesise.rewrite": 120}
        assert "240 answer" in plan_of(path, store)
        recipe(server.url)
        # Of another version all may be known: a part of the anchors here.
        assert asks(path, store, "--set", "synthesise.rewrite.weight=0.5") == {}
        # A check that changed asks nothing.
        edit(path, parse={"min_words": 3})
        assert asks(path, store) == {}
        asked = len(server.log)
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert len(server.log) == asked
        assert states(store)["parse"] == "made"


def test_a_plan_counts_what_reads_the_sample_alone(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    """What reads a graph that a language model extracts is known only after that was asked."""
    with FaultyServer() as server:
        path, store = recipe(server.url), tmp_path / "store"
        methods = yaml.safe_load(path.read_text())["synthesise"]
        methods |= {"from_knowledge": None, "entity_revision": None}
        edit(path, extract_generate={}, synthesise=methods)
        ended_well(tercet(*words(path, store, "--until", "sample")))
        steps = ["extract_generate", "synthesise.rewrite", "synthesise.antisense"]
        assert asks(path, store) == dict.fromkeys(steps, 120)
        assert server.log == []


def test_a_plan_of_many_parts_counts_as_many_rows_as_are_asked(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    """Most anchors lie in the first of two corpora, and not all of its parts are looked into."""
    corpora = []
    for number, (name, share) in enumerate((("a", 9), ("b", 1))):
        corpus = tmp_path / f"{name}.jsonl"
        write_corpus(corpus, documents(200, number))
        corpora.append({"name": name, "source": str(corpus), "share": share})
        corpora[-1] |= {"query": "query", "answer": "answer"}
    path, store = recipe("http://127.0.0.1:9/v1"), tmp_path / "store"
    run = yaml.safe_load(path.read_text())["run"] | {"part_rows": 100}
    edit(path, corpora=corpora, sample={"rows": 600}, run=run)
    ended_well(tercet(*words(path, store, "--until", "sample")))
    told = plan_of(path, store)
    looked_at = re.findall(r"asks 600 rows.*\(from (\d+) prompts\)", told)
    assert len(looked_at) == 2, told
    assert all(0 < int(count) < 600 for count in looked_at)


def test_what_was_tried_is_not_paid_again(recipe: Callable[..., Path], tmp_path: Path) -> None:
    refused: list[str] = []

    def behave(seen: Seen) -> Reply | None:
        return error(500, "not this one") if seen.prompts[0] in refused else None

    with FaultyServer(behave) as server:
        path, store = recipe(server.url, tries=1, list_size=1), tmp_path / "store"
        options = ["--method", "rewrite", "--store", str(store), "-n", "4"]
        ended_well(tercet("try", str(path), *options))
        prompts = list(server.times_asked())
        # Its rows are of several parts.
        texts = [text for (text,) in query(store, "SELECT text FROM sentences")]
        assert len({texts.index(prompt.split("\n")[0]) // 150 for prompt in prompts}) >= 3
        refused.append(prompts[0])
        warmer = [*options, "--set", "llm.temperature=0.9"]
        ended_well(tercet("try", str(path), *warmer))
        refused.clear()
        asked = len(server.log)
        ended_well(tercet("try", str(path), *warmer))
        assert [seen.prompts for seen in server.log[asked:]] == [[prompts[0]]]
        # Nor does the run that follows ask about the four again.
        before = repeated(server)
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert repeated(server) == before
        wrong = tercet("try", str(path), "--method", "entity_revision", "--store", str(store))
        assert wrong.returncode == 2


def test_each_prompted_method_can_be_tried(
    recipe: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultyServer() as server:
        path, store = recipe(server.url), tmp_path / "store"
        content = yaml.safe_load(path.read_text())
        edit(
            path,
            synthesise=dict.fromkeys(PROMPTED_NAMES),
            ingest=content["ingest"] | {"passages": {"tokens": 200}},
            select=content["select"] | {"pairing": "relation"},
        )
        for number, method in enumerate(PROMPTED_NAMES, start=1):
            try_method(RunArguments(str(path), str(store)), method, 2)
            # The questions of its three shots, then the two that were asked.
            assert capsys.readouterr().out.count(": asked\n") == 3 + 2
            # Two prompts of this method, and of no other.
            assert sum(server.times_asked().values()) == 2 * number
        # Extraction can be tried, too, where no step of a run reads it.
        edit(path, synthesise=content["synthesise"], extract_generate={})
        try_method(RunArguments(str(path), str(store)), "extract", 2)
        assert capsys.readouterr().out.count("── answered") == 2
