import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from faulty_server import FaultyServer, silent_port

from tercet.models.errors import Stopped, Unusable
from tercet.models.llm.client.exchange import Endpoint
from tercet.models.llm.connect import difference, find_endpoints, has_chat_template
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import LlmSettings

NAMED, FILES = LlmSettings(name="m"), LlmSettings(model="somewhere")
ONE = {"/v1/models": b'{"data": [{"id": "tiny"}, {"id": "adapter", "parent": "tiny"}]}'}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that stands still for a while is no server that is down."""
    monkeypatch.setattr("tercet.models.llm.connect._SECONDS", 120.0)


def asked_at(*urls: str) -> AskingSettings:
    return AskingSettings(endpoints=urls, key_env="MY_KEY")


def lists(name: str, **about: Any) -> dict[str, bytes]:
    models = {"data": [{"id": name, "parent": None, **about}]}
    return {"/v1/models": json.dumps(models).encode()}


def test_a_key_is_taken_without_the_white_space_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for held, key in ((" word\r\n", "word"), (" \n", None)):
        monkeypatch.setenv("MY_KEY", held)
        (found,) = find_endpoints(asked_at("http://host/v1"), NAMED)
        assert found.endpoint == Endpoint("http://host/v1", "m", key)


@pytest.mark.parametrize("key", ["wörd", "two\nlines"])
def test_a_key_that_no_header_can_carry_is_told_by_its_variable(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    with fails("bad_value", "MY_KEY") as raised:
        find_endpoints(asked_at("http://host/v1"), NAMED)
    assert key not in str(raised.value)


@pytest.mark.parametrize("end", ["", "/", "?code=word", "/?code=word"])
def test_an_endpoint_is_asked_for_its_model_by_its_own_address(end: str) -> None:
    with FaultyServer(pages=ONE) as server:
        (found,) = find_endpoints(asked_at(server.url + end), FILES)
    assert found.endpoint.model == "tiny"
    assert server.looked == ["/v1/models" + end.lstrip("/")]


@pytest.mark.parametrize("llm", [NAMED, FILES])
def test_one_that_is_down_is_taken_to_be_what_the_others_are(llm: LlmSettings) -> None:
    # A proxy answers for what is not there behind it.
    behind = FaultyServer(pages={"/v1/models": b"<html>"}, status=502)
    with silent_port() as port, behind, FaultyServer(pages=lists("m")) as up:
        down = f"http://127.0.0.1:{port}/v1"
        found = find_endpoints(asked_at(down, behind.url, up.url), llm)
    assert [one.endpoint.model for one in found] == ["m"] * 3
    assert "ConnectError" in str(found[0].absent)
    assert "502" in str(found[1].absent)
    assert found[2].absent is None
    assert difference(found) is None


def test_two_models_under_one_name_are_told() -> None:
    one = {"root": "/models/first", "max_model_len": 4096}
    other = {"root": "second/", "max_model_len": 4096}
    with (
        FaultyServer(pages=lists("m", **one)) as first,
        FaultyServer(pages=lists("m", **one | {"root": "org/first"})) as same,
        FaultyServer(pages=lists("n", **other)) as second,
        FaultyServer(pages=lists("m", meta={"n_vocab": 7})) as third,
        FaultyServer() as silent,
    ):
        alike = asked_at(first.url, same.url, third.url, silent.url)
        assert difference(find_endpoints(alike, NAMED)) is None
        message = difference(find_endpoints(asked_at(first.url, same.url, second.url), FILES))
    assert message is not None
    assert all(word in message for word in (first.url, second.url, "first", "second"))
    assert same.url not in message


def test_a_page_of_endless_brackets_is_no_answer() -> None:
    nested = {"/v1/models": b"[" * 200_000}
    with FaultyServer(pages=nested) as server, fails("unreachable", "0"):
        find_endpoints(asked_at(server.url), FILES)


def test_a_query_is_in_no_message() -> None:
    # Nobody else gets the port when the server has let it go.
    with silent_port() as port:
        with FaultyServer(port=port) as server, pytest.raises(Unusable) as nothing:
            find_endpoints(asked_at(server.url + "?code=word"), FILES)
        with pytest.raises(Stopped) as down:
            find_endpoints(asked_at(server.url + "?code=word"), FILES)
    for raised in (nothing, down):
        assert f"127.0.0.1:{port}/v1" in str(raised.value)
    with pytest.raises(Unusable) as hostless:
        find_endpoints(asked_at("http:///v1?code=word"), FILES)
    for raised in (nothing, down, hostless):
        assert "word" not in str(raised.value)


def test_a_proxy_of_an_unknown_kind_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("all_proxy", raising=False)
    monkeypatch.setenv("ALL_PROXY", "socks4://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with fails("bad_value", "proxy"):
        find_endpoints(asked_at("http://10.255.0.1/v1"), FILES)


@pytest.fixture
def model(tiny_llm: Path, tmp_path: Path) -> Path:
    """A copy that may be spoilt."""
    return Path(shutil.copytree(tiny_llm, tmp_path / "model"))


def test_a_template_is_a_file_or_stands_in_the_tokenizers_config(model: Path) -> None:
    assert has_chat_template(model)
    (model / "chat_template.jinja").unlink()
    assert not has_chat_template(model)
    config = json.loads((model / "tokenizer_config.json").read_text())
    config["chat_template"] = "{{ messages[0].content }}{{ mark }}"
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    assert has_chat_template(model)
    (model / "tokenizer_config.json").unlink()
    assert not has_chat_template(model)
