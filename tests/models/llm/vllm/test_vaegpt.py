"""A VAEGPT is served with the plugin alone, and without prefix caching."""

from pathlib import Path

import pytest

from tercet.models.llm.errors import Unusable
from tercet.models.llm.run_settings import EngineSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.vllm.build import VllmBuild
from tercet.models.llm.vllm.command import command
from tercet.models.llm.vllm.vaegpt import is_vaegpt


def words(folder: Path, vaegpt: bool) -> list[str]:
    build = VllmBuild(Path("/venv/bin/python"), "1.2.3", True, vaegpt)
    return command(build, folder, LlmSettings(model=str(folder)), EngineSettings(), 8123)


def test_it_is_known_by_its_configuration(tmp_path: Path) -> None:
    assert not is_vaegpt(tmp_path)
    (tmp_path / "config.json").write_text("{broken")
    assert not is_vaegpt(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    assert not is_vaegpt(tmp_path)
    assert "--enable-prefix-caching" in words(tmp_path, vaegpt=False)


def test_prefixes_are_not_cached_and_the_plugin_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "vaegpt"}')
    assert "--no-enable-prefix-caching" in words(tmp_path, vaegpt=True)
    with pytest.raises(Unusable, match=r"has no plugin to serve it: run `make vllm`, or .*pip"):
        words(tmp_path, vaegpt=False)
