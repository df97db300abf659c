"""Prompted methods, with a function that answers in a language model's place (no server here)."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from stages import emitted, work_of
from synthesis_stage import chain

from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.settings import LlmSettings, Sampling
from tercet.models.prompted import prompt_requests, templates
from tercet.storage.rows import Rows
from tercet.tasks.stage import Resources
from tercet.tasks.synthesis import asking, prompted
from tercet.tasks.synthesis.methods import METHODS, SynthesiseConfig, method_of

NAMES = [n for n, one in METHODS.items() if one.prompted and one.each == "sentences"]
LLM = LlmSettings(name="mirror", temperature=0.3, max_tokens=40)


Store = tuple[Path, dict[str, Rows]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("asking")
    return folder, chain(folder)


def mirror(method: str, requests: Iterable[Request]) -> Iterator[Answer]:
    """Says each prompt's seed and last line, in any order; fails where the seed ends in 3."""
    asked = list(requests)
    random.Random(0).shuffle(asked)
    for request in asked:
        failed = request.seed % 10 == 3
        raw = "" if failed else f"{request.seed} {request.prompt.splitlines()[-1]}"
        reason = "failed" if failed else "stop"
        error = "HTTP 500 after 5 tries" if failed else None
        digest = f"{request.seed:032x}"
        yield Answer(request.place, digest, "mirror", raw, reason, 9, 7, 1, 0.1, "here", error)


def answered(method: str, folder: Path, inputs: Mapping[str, Rows], **params: Any) -> Any:
    config = SynthesiseConfig(method=method, params=params, llm=LLM)
    return emitted(prompted.STAGE, config, inputs, folder, resources=Resources(ask=mirror))


@pytest.mark.parametrize("method", NAMES)
def test_every_answer_stands_with_its_prompt_and_what_was_asked(method: str, store: Store) -> None:
    folder, inputs = store
    tables = answered(method, folder, inputs)
    rows = tables["generations"].to_pylist()
    sentences = inputs["sentences"].table("sentences")
    texts = dict(
        zip(sentences["sentence_id"].to_pylist(), sentences["text"].to_pylist(), strict=True)
    )
    assert len(rows) > 20
    order = [row["sentence_id"] for row in rows]
    assert order == sorted(order, key=sentences["sentence_id"].to_pylist().index)
    for row in rows:
        seed = int(row["request_digest"], 16)
        assert row["raw"] == f"{seed} {row['prompt'].splitlines()[-1]}"
        knowledge = method.endswith("knowledge")
        assert knowledge or texts[row["sentence_id"]] in row["prompt"]
        assert (row["model"], row["finish_reason"], row["n_tokens"]) == ("mirror", "stop", 7)
        assert json.loads(row["sampling"]) == {"temperature": 0.3, "top_p": 0.95, "max_tokens": 40}
        assert row["purpose"] == method_of(method).purpose
        assert row["detail"]["operation"]
    failed = tables["rejects"].to_pylist()
    assert failed
    assert {row["reason"] for row in failed} == {"failed"}
    assert {row["row_id"] for row in failed} <= texts.keys()
    assert all(row["text"] for row in failed)


def test_asking_lists_the_same_requests_and_asks_nobody(store: Store) -> None:
    folder, inputs = store
    stage = prompted.STAGE
    config = SynthesiseConfig(method="entity_revision", llm=LLM)
    work = work_of(config, inputs, folder)
    assert stage.asks is not None
    listed = {(request.seed, request.prompt) for request in stage.asks(work)}
    tables = answered("entity_revision", folder, inputs)
    asked = {(int(r["request_digest"], 16), r["prompt"]) for r in tables["generations"].to_pylist()}
    assert asked < listed
    assert len(listed) == len(asked) + len(tables["rejects"])


def test_several_of_a_sentence_are_asked_with_seeds_of_their_own(store: Store) -> None:
    folder, inputs = store
    one = answered("rewrite", folder, inputs)["generations"]
    three = answered("rewrite", folder, inputs, per_unit=3)
    count = len(three["generations"]) + len(three["rejects"])
    digests = three["generations"]["request_digest"].to_pylist()
    assert len(set(digests)) == len(digests)
    assert count == 3 * (len(one) + len(answered("rewrite", folder, inputs)["rejects"]))
    assert set(one["request_digest"].to_pylist()) < set(digests)


def test_a_method_may_be_sampled_in_its_own_way(store: Store) -> None:
    folder, inputs = store
    rows = answered("rewrite", folder, inputs, temperature=0.0, max_tokens=9)["generations"]
    sampling = json.loads(rows["sampling"][0].as_py())
    assert sampling == {"temperature": 0.0, "top_p": 0.95, "max_tokens": 9}


def test_shots_are_ours_with_our_prompt_and_checked_first(store: Store, tmp_path: Path) -> None:
    folder, inputs = store
    (tmp_path / "own.jinja").write_text("Say {{ sentence }}")
    (tmp_path / "own.jsonl").write_text('{"sentence": "A b.", "answer": "C d."}')
    prompt, shots = str(tmp_path / "own.jinja"), str(tmp_path / "own.jsonl")
    for params, shown in (
        ({}, 3),
        ({"shots": None}, None),
        ({"prompt": prompt}, None),
        ({"prompt": prompt, "shots": shots}, 1),
    ):
        rows = answered("rewrite", folder, inputs, **params)["generations"]
        assert {row and len(row) for row in rows["shots"].to_pylist()} == {shown}
        config = SynthesiseConfig(method="rewrite", params=params, llm=LLM)
        assert ("shots" in prompted.externals(config)) == bool(shown)
    (tmp_path / "own.jsonl").write_text('{"sentence": "A b.", "answer": "a b"}')
    config = SynthesiseConfig(method="rewrite", params={"shots": shots}, llm=LLM)
    with fails("bad_row", "own.jsonl", "line 1"):
        prompted.externals(config)


def asked_with(
    prompt: str, rows: list[tuple[int, dict[str, Any]]], folder: Path, ask: Any, **sampling: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Generations and rejects of rows (sentence id, values), in an order of emits."""
    path = folder / "own.jinja"
    path.write_text(prompt)
    table = prompt_requests.table(
        prompt_requests.PromptRequest(row_id, values) for row_id, values in rows
    )
    tables: dict[str, list[dict[str, Any]]] = {"generations": [], "rejects": []}
    emit = lambda name, made: tables[name].extend(made.to_pylist())  # noqa: E731
    resources = Resources(ask=ask)
    work = work_of(None, {}, folder, resources=resources, emit=emit, stage="synthesise")
    asking.ask(
        work,
        method="rewrite",
        purpose="positive",
        relation="keeps",
        questions=table,
        template=templates.load(path, ("sentence", "words")),
        sampling=Sampling(**sampling),
    )
    return tables["generations"], tables["rejects"]


class Echo:
    """Says each prompt back, the last first, and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[list[Request]] = []

    def __call__(self, method: str, requests: Iterable[Request]) -> Iterator[Answer]:
        self.calls.append(list(requests))
        for request in reversed(self.calls[-1]):
            raw = request.prompt
            yield Answer(request.place, "d", "echo", raw, "stop", 9, 7, 1, 0.1, "here", None)


def test_few_requests_are_in_memory_at_once_and_nothing_else_changes(tmp_path: Path) -> None:
    rows = [(number // 3, {"sentence": f"s{number}"}) for number in range(45_000)]
    echo = Echo()
    made, rejects = asked_with("{{ sentence }}", rows, tmp_path, echo)
    # A sentence's rows stay together: 19,998 is the greatest multiple of 3 up to 20,000.
    assert [len(call) for call in echo.calls] == [19_998, 19_998, 5_004]
    assert [row["raw"] for row in made] == [values["sentence"] for _, values in rows]
    assert rejects == []
    seeds = [request.seed for call in echo.calls for request in call]
    few = Echo()
    again, _ = asked_with("{{ sentence }}", rows[19_992:20_004], tmp_path, few)
    assert [request.seed for request in few.calls[0]] == seeds[19_992:20_004]
    ids = [row["generation_id"] for row in made]
    assert [row["generation_id"] for row in again] == ids[19_992:20_004]
    assert len(set(ids)) == len(ids)


def test_without_temperature_nothing_is_drawn_and_the_same_is_asked_once(tmp_path: Path) -> None:
    rows = [(number, {"sentence": text}) for number, text in enumerate(["a", "b", "a", "c"])]
    cold, warm = Echo(), Echo()
    made, _ = asked_with("Say {{ sentence }}", rows, tmp_path, cold, temperature=0)
    assert [(r.seed, r.prompt) for r in cold.calls[0]] == [(0, "Say a"), (0, "Say b"), (0, "Say c")]
    assert [(r["sentence_id"], r["raw"]) for r in made] == [
        *((0, "Say a"), (1, "Say b"), (2, "Say a"), (3, "Say c"))
    ]
    asked_with("Say {{ sentence }}", rows, tmp_path, warm, temperature=0.1)
    assert len({request.seed for request in warm.calls[0]}) == 4


def test_rows_that_no_prompt_comes_of_are_rejects(tmp_path: Path) -> None:
    prompt = "{% if words %}{{ sentence }} {{ words[1] }}{% endif %}\n "
    rows = [
        (7, {"sentence": "one", "words": ["a", "b"]}),
        (8, {"sentence": "two", "words": []}),
        (9, {"sentence": "three", "words": ["a"]}),
    ]
    echo = Echo()
    made, rejects = asked_with(prompt, rows, tmp_path, echo)
    assert [request.prompt for request in echo.calls[0]] == ["one b"]
    assert [(row["sentence_id"], row["raw"]) for row in made] == [(7, "one b")]
    assert [(row["stage"], row["row_id"], row["reason"]) for row in rejects] == [
        ("synthesise", 8, "empty_prompt"),
        ("synthesise", 9, "error"),
    ]
    assert "line 1" in rejects[1]["detail"]
    assert json.loads(rejects[1]["text"]) == rows[2][1]


@pytest.mark.parametrize(("good", "broken"), [(1000, 101), (0, 10)])
def test_a_prompt_that_breaks_at_many_rows(good: int, broken: int, tmp_path: Path) -> None:
    values = [["a", "b"]] * good + [[]] * broken
    rows = [(n, {"sentence": "s", "words": words}) for n, words in enumerate(values)]
    with fails("unreadable", "own.jinja"):
        asked_with("{{ sentence }} {{ words[1] }}", rows, tmp_path, Echo())
    made, rejects = asked_with("{{ sentence }} {{ words[1] }}", rows[:-1], tmp_path, Echo())
    assert (len(made), len(rejects)) == (good, broken - 1)
