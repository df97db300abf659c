"""What will be asked is told beforehand (`plan`), and a few prompts are tried (`try`)."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer, Reply, Seen, error
from llm_recipe import repeated, words
from tiny_run import Tiny, documents, ended_well, query, states, tercet, write_corpus

from tercet.flows.commands.try_method import try_method
from tercet.flows.planning import plan
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.storage.answers.pool import open_pool
from tercet.tasks.synthesis.methods import PROMPTED_NAMES


def plan_of(path: Path, store: Path, *options: str) -> str:
    return ended_well(tercet("plan", str(path), "--store", str(store), *options)).stdout


def test_a_plan_tells_what_a_change_costs(recipe: Callable[..., Path], tmp_path: Path) -> None:
    with FaultyServer() as server:
        store = tmp_path / "store"
        path = recipe(server.url)
        first = plan_of(path, store)
        assert first.endswith(
            "How many requests synthesise.rewrite and synthesise.antisense will make is known only "
            "after sample, which makes none (tercet run … --until sample).\n"
        )
        ended_well(tercet(*words(path, store, "--until", "sample")))
        before = plan_of(path, store)
        assert re.search(r"synthesise.rewrite asks 120 rows: about [\d,]+ prompt tokens", before)
        assert "at most 15,360 answer tokens" in before
        assert server.log == []
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert "asks" not in plan_of(path, store).split("steps:")[1]
        # One word of one prompt: that method alone, at the length its answers have had.
        recipe(server.url, prompt="Again: {{ sentence }}")
        changed = plan_of(path, store)
        assert re.search(r"synthesise.rewrite +run +file prompt", changed)
        assert re.search(r"synthesise.antisense +reuse", changed)
        assert re.search(r"rewrite asks 120 rows: about [\d,]+ prompt tokens, 240 answer", changed)
        assert "antisense asks" not in changed
        recipe(server.url)
        # Of another version all may be known: a part of the anchors here.
        half = plan_of(path, store, "--set", "synthesise.rewrite.weight=0.5")
        assert re.search(r"rewrite has nothing new to ask: \d+ rows are answered already", half)
        # A check that changed asks nothing.
        checked = yaml.safe_load(path.read_text()) | {"parse": {"min_words": 3}}
        path.write_text(yaml.safe_dump(checked))
        assert "asks" not in plan_of(path, store).split("steps:")[1]
        asked = len(server.log)
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert len(server.log) == asked
        assert states(store)["parse"] == "made"


def test_a_plan_names_what_costs_nothing_before_what_must_be_asked_for(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    with FaultyServer() as server:
        path, store = recipe(server.url), tmp_path / "store"
        content = yaml.safe_load(path.read_text())
        content |= {"extract_generate": {}}
        content["synthesise"] |= {"from_knowledge": None, "entity_revision": None}
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        free, dear = plan_of(path, store).splitlines()[-2:]
        assert free == (
            "How many requests extract_generate, synthesise.rewrite and synthesise.antisense will "
            "make is known only after sample, which makes none (tercet run … --until sample)."
        )
        later = (
            "How many requests synthesise.from_knowledge and synthesise.entity_revision will make "
            "is known only after graph, which makes requests for extract_generate (tercet run … "
            "--until graph)."
        )
        assert dear == later
        ended_well(tercet(*words(path, store, "--until", "sample")))
        told = plan_of(path, store).splitlines()
        exact = [line for line in told if " asks " in line and " asks at most " not in line]
        assert [line.split(" asks ")[0] for line in exact] == [
            "extract_generate",
            "synthesise.rewrite",
            "synthesise.antisense",
        ]
        assert told[-1] == later
        assert server.log == []


def test_a_plan_by_rules_names_all_that_is_lacking(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    """The graph does not read the sample, so that neither command brings the other's step."""
    path = recipe("http://127.0.0.1:9/v1")
    content = yaml.safe_load(path.read_text())
    content["synthesise"] = {"entity_revision": None}
    path.write_text(yaml.safe_dump(content))
    assert plan_of(path, tmp_path / "store").splitlines()[-1] == (
        "How many requests synthesise.entity_revision will make is known only after sample and "
        "graph, which make none (tercet run … --until sample; tercet run … --until graph)."
    )


def test_a_plan_of_many_parts_counts_as_many_rows_as_are_asked(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    """Most anchors lie in the first of two corpora, and not all of its parts are looked into."""
    corpora = []
    for number, (name, share) in enumerate((("a", 9), ("b", 1))):
        path = tmp_path / f"{name}.jsonl"
        write_corpus(path, documents(200, number))
        corpora.append({"name": name, "source": str(path), "share": share})
        corpora[-1] |= {"query": "query", "answer": "answer"}
    with FaultyServer() as server:
        path, store = recipe(server.url), tmp_path / "store"
        content = yaml.safe_load(path.read_text())
        content |= {"corpora": corpora, "sample": {"rows": 600}}
        content["run"]["part_rows"] = 100
        path.write_text(yaml.safe_dump(content))
        ended_well(tercet(*words(path, store, "--until", "sample")))
        told = plan_of(path, store)
        for method in ("rewrite", "antisense"):
            asks = re.search(rf"{method} asks 600 rows.*\(from (\d+) prompts\)", told)
            assert asks, told
            assert 0 < int(asks[1]) < 600
        assert server.log == []


def test_the_pool_is_opened_once_and_only_where_something_is_asked(
    recipe: Callable[..., Path], tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def counted(*arguments: Any) -> Any:
        opened.append(arguments)
        return open_pool(*arguments)

    monkeypatch.setattr(plan, "open_pool", counted)
    store = tmp_path / "store"
    path = recipe("http://127.0.0.1:9/v1")
    ended_well(tercet(*words(path, store, "--until", "sample")))
    plan.plan(prepare(RunArguments(str(tiny.recipe), str(store))))
    assert opened == []
    steps = plan.plan(prepare(RunArguments(str(path), str(store))))
    assert [step.asking is not None for step in steps].count(True) == 2
    assert len(opened) == 1


def test_try_takes_rows_of_several_parts_and_says_which_answers_are_kept(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    def behave(seen: Seen) -> Reply | None:
        return error(500, "not this one") if seen.prompts[0] in refused else None

    refused: list[str] = []
    with FaultyServer(behave) as server:
        path, store = recipe(server.url, tries=1, list_size=1), tmp_path / "store"
        options = ("--method", "rewrite", "--store", str(store), "-n", "4")
        ended_well(tercet("try", str(path), *options))
        prompts = list(server.times_asked())
        texts = [text for (text,) in query(store, "SELECT text FROM sentences")]
        assert len({texts.index(prompt.split("\n")[0]) // 150 for prompt in prompts}) >= 3
        refused.append(prompts[0])
        options = (*options, "--set", "llm.temperature=0.9")
        done = ended_well(tercet("try", str(path), *options))
        assert re.search(r"^3 answers, \d+ tokens: kept, and", done.stdout, re.MULTILINE)
        assert done.stdout.endswith("1 failed: a run asks again.\n")
        refused.clear()
        asked = len(server.log)
        done = ended_well(tercet("try", str(path), *options))
        assert [seen.prompts for seen in server.log[asked:]] == [[prompts[0]]]
        assert "failed" not in done.stdout


def test_try_shows_prompts_with_answers_that_are_not_paid_again(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    with FaultyServer() as server:
        store = tmp_path / "store"
        path = recipe(server.url)
        options = ("--store", str(store))
        done = ended_well(tercet("try", str(path), "--method", "antisense", "-n", "3", *options))
        # The answers of its three shots, then the model's.
        assert done.stdout.count("── answered") == 3 + 3
        assert sum(server.times_asked().values()) == 3
        ended_well(tercet("try", str(path), "--method", "antisense", "-n", "5", *options))
        assert sum(server.times_asked().values()) == 5
        wrong = tercet("try", str(path), "--method", "entity_revision", *options)
        assert wrong.returncode == 2
        assert "it has: rewrite, antisense" in wrong.stderr
        ended_well(tercet(*words(path, store, "--until", "triplets")))
        assert repeated(server) == 0


def test_extraction_can_be_tried_where_no_step_of_a_run_reads_it(
    recipe: Callable[..., Path], tmp_path: Path
) -> None:
    with FaultyServer() as server:
        path, store = recipe(server.url), tmp_path / "store"
        content = yaml.safe_load(path.read_text()) | {"extract_generate": {}}
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        assert "nothing in this recipe reads it: extract_generate" in plan_of(path, store)
        options = ("--method", "extract", "-n", "2", "--store", str(store))
        done = ended_well(tercet("try", str(path), *options))
        assert done.stdout.count("── answered") == 2
        assert sum(server.times_asked().values()) == 2


def test_each_prompted_method_can_be_tried(
    recipe: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultyServer() as server:
        path, store = recipe(server.url), tmp_path / "store"
        content = yaml.safe_load(path.read_text())
        content["synthesise"] = dict.fromkeys(PROMPTED_NAMES)
        content["ingest"] |= {"passages": {"tokens": 200}}
        content["select"]["pairing"] = "relation"
        path.write_text(yaml.safe_dump(content))
        for number, method in enumerate(PROMPTED_NAMES, start=1):
            try_method(RunArguments(str(path), str(store)), method, 2)
            out = capsys.readouterr().out
            assert [line for line in out.splitlines() if line.endswith(": asked")] == [
                *(
                    f"── {method}, shot {place} of 3, before each prompt: asked"
                    for place in (1, 2, 3)
                ),
                *(f"── {method} {place} of 2: asked" for place in (1, 2)),
            ]
            assert re.search(r"^2 answers, \d+ tokens: kept, and", out, re.MULTILINE)
            # Two prompts of this method, and of no other.
            assert sum(server.times_asked().values()) == 2 * number
