"""Chat templates found and applied without a server."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tercet.models.llm.chat_template import chat_renderer, has_chat_template
from tercet.models.llm.errors import Unusable
from tercet.models.llm.messages import Request, Shot
from tercet.models.llm.settings import Sampling


@pytest.fixture
def model(tiny_llm: Path, tmp_path: Path) -> Path:
    """A copy that may be spoilt."""
    return Path(shutil.copytree(tiny_llm, tmp_path / "model"))


def asked(*prompts: str, **more: Any) -> list[Request]:
    return [Request(0, prompt, Sampling(), 1, **more) for prompt in prompts]


def test_shots_are_turns_of_the_chat(tiny_llm: Path) -> None:
    render = chat_renderer(tiny_llm, {})
    shots = (Shot("blue", "sky"),)
    assert render(asked("red", shots=shots)) == ["<user>blue<user>sky<user>red<assistant>"]


def test_a_prompt_becomes_the_message_of_a_user(tiny_llm: Path) -> None:
    assert has_chat_template(tiny_llm)
    render = chat_renderer(tiny_llm, {})
    assert render(asked("red", "one\ntwo {{ three }}")) == [
        "<user>red<assistant>",
        "<user>one\ntwo {{ three }}<assistant>",
    ]
    assert render([]) == []


def test_the_template_takes_variables(model: Path) -> None:
    (model / "chat_template.jinja").write_text(
        "{% for message in messages %}{{ message.content }}{% endfor %}"
        "{% if not enable_thinking %}<silent>{% endif %}"
    )
    assert chat_renderer(model, {"enable_thinking": True})(asked("red")) == ["red"]
    assert chat_renderer(model, {"enable_thinking": False})(asked("red")) == ["red<silent>"]


def test_a_template_inside_the_tokenizers_config(model: Path) -> None:
    (model / "chat_template.jinja").unlink()
    config = json.loads((model / "tokenizer_config.json").read_text())
    assert not has_chat_template(model)
    config["chat_template"] = "{{ messages[0].content }}!"
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    assert has_chat_template(model)
    assert chat_renderer(model, {})(asked("red")) == ["red!"]


def test_a_model_without_a_template_says_what_to_set(model: Path) -> None:
    (model / "chat_template.jinja").unlink()
    with pytest.raises(Unusable, match=r"no chat template: set llm\.api: completions"):
        chat_renderer(model, {})
    (model / "tokenizer_config.json").unlink()
    assert not has_chat_template(model)


def test_a_template_that_fails_is_told(model: Path) -> None:
    (model / "chat_template.jinja").write_text("{{ raise_exception('no users here') }}")
    with pytest.raises(Unusable, match=r"fails .*no users here.*llm\.template_kwargs"):
        chat_renderer(model, {})(asked("red"))
