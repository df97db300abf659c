"""The client against a real vLLM: what the wire says is what vLLM understands."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tercet.models.errors import Unusable
from tercet.models.llm.client.client import Client, Endpoint
from tercet.models.llm.connect import chat_renderer
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.run_settings import AskingSettings, EngineSettings
from tercet.models.llm.settings import LlmSettings, Sampling
from tercet.models.llm.vllm.engine import Engine
from tercet.models.llm.wire import Wire

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["one", "two"]}, "sure": {"type": "boolean"}},
    "required": ["kind", "sure"],
    "additionalProperties": False,
}
CUT, WHOLE = Sampling(max_tokens=6), Sampling(max_tokens=60)


@pytest.fixture(scope="module")
def endpoint(
    tiny_llm: Path, vllm_python: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Endpoint]:
    llm = LlmSettings(model=str(tiny_llm), max_model_len=256)
    settings = EngineSettings(python=vllm_python, start_seconds=3600)
    folder = tmp_path_factory.mktemp("client") / "run"
    engine = Engine(tiny_llm, llm, settings, folder, lambda line: None)
    try:
        yield Endpoint(engine.start(), engine.name)
    finally:
        engine.stop()


def asked(endpoint: Endpoint, wire: Wire, requests: list[Request]) -> list[Answer]:
    recorded = []
    # A busy machine is slow, and no fault of the endpoint's.
    settings = AskingSettings(timeout=3600, patience=3600)
    client = Client(
        [endpoint], wire, settings, "tiny", lambda request, answer: recorded.append(answer)
    )
    try:
        answers = list(client.ask(iter(requests)))
    finally:
        client.close()
    assert answers == recorded
    return sorted(answers, key=lambda answer: answer.place)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["chat", "rendered", "base"])
def test_every_way_of_asking_is_understood(endpoint: Endpoint, tiny_llm: Path, way: str) -> None:
    wire = {
        "chat": Wire("chat", template_kwargs={"enable_thinking": False}),
        "rendered": Wire("completions", lists=True, render=chat_renderer(tiny_llm, {})),
        "base": Wire("completions", lists=True),
    }[way]
    free = [Request(i, f"the row {i}", CUT, i) for i in range(100)]
    formed = [Request(100 + i, f"the row {i}", WHOLE, i, SCHEMA) for i in range(40)]
    too_long = Request(140, "row " * 1000, CUT, 0)
    *answers, long_one = asked(endpoint, wire, [*free, *formed, too_long])
    assert [answer.place for answer in answers] == list(range(140))
    # A model of random weights says nothing now and then.
    said = [answer for answer in answers if answer.error is None]
    assert len(said) > 100
    assert all("without text" in answer.error for answer in answers if answer.error is not None)
    # Of a list the total alone is told: a row's share may be above its own limit.
    # What was blank and asked again spent its tokens too.
    free_said = answers[:100]
    tokens = sum(answer.n_tokens for answer in free_said)
    assert 0 < tokens <= 6 * sum(answer.attempts for answer in free_said)
    assert {answer.finish_reason for answer in said} <= {"stop", "length"}
    for answer in answers[100:]:
        if answer.finish_reason == "stop":
            assert json.loads(answer.raw)["kind"] in ("one", "two")
    assert sum(answer.finish_reason == "stop" for answer in answers[100:]) > 30
    assert long_one.finish_reason == "failed"
    assert long_one.error


@pytest.mark.slow
def test_a_name_that_it_does_not_know_is_unusable(endpoint: Endpoint) -> None:
    other = Endpoint(endpoint.url, "another")
    with pytest.raises(Unusable, match="another"):
        asked(other, Wire("chat"), [Request(0, "row", CUT, 0)])


@pytest.mark.slow
def test_a_schema_that_is_none_is_unusable(endpoint: Endpoint) -> None:
    requests = [Request(i, "row", CUT, i, {"type": "nonsense"}) for i in range(20)]
    with pytest.raises(Unusable, match="nonsense"):
        asked(endpoint, Wire("completions", lists=True), requests)
