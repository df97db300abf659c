"""From a recipe to vLLM's command line. No server is started."""

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from pydantic import ValidationError

from tercet.models.llm.run_settings import EngineSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.vllm import build as vllm_build
from tercet.models.llm.vllm.build import Plugin, VllmBuild, look
from tercet.models.llm.vllm.engine import command, environment, resolved_dtype

CPU = VllmBuild(Path("/venv/bin/python"), "1.2.3", True)
GPU = VllmBuild(Path("/venv/bin/python"), "1.2.3", False)


def options(build: VllmBuild, settings: dict[str, Any], **llm: Any) -> dict[str, str | None]:
    """The options as a dict; None for a bare flag."""
    model = LlmSettings(**{"model": "/models/some one", **llm})
    words = command(build, Path("/models/some one"), model, EngineSettings(**settings), 8123)
    assert words[:3] == ["/venv/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    found: dict[str, str | None] = {}
    for word, after in zip(words[3:], [*words[4:], "--"], strict=True):
        if word.startswith("--"):
            name, is_one_word, value = word.partition("=")
            assert name not in found
            found[name] = value if is_one_word else None if after.startswith("--") else after
    return found


def test_what_the_recipe_says_becomes_options() -> None:
    settings = {
        "tensor_parallel": 2,
        "data_parallel": 3,
        "max_num_seqs": 64,
        "gpu_memory": 0.5,
        "prefix_caching": False,
        "options": {"swap_space": 4, "enable-log-requests": True, "async_scheduling": False},
    }
    found = options(GPU, settings, dtype="bfloat16", quantization="fp8", max_model_len=2048)
    json_rules = found.pop("--structured-outputs-config")
    assert json_rules is not None
    assert json.loads(json_rules) == {"backend": "xgrammar", "disable_any_whitespace": True}
    assert found == {
        "--model": "/models/some one",
        "--served-model-name": "some-one",
        "--host": "127.0.0.1",
        "--port": "8123",
        "--dtype": "bfloat16",
        "--tensor-parallel-size": "2",
        "--data-parallel-size": "3",
        "--max-num-seqs": "64",
        "--no-enable-prefix-caching": None,
        "--generation-config": "vllm",
        "--disable-uvicorn-access-log": None,
        "--gpu-memory-utilization": "0.5",
        "--quantization": "fp8",
        "--max-model-len": "2048",
        "--swap-space": "4",
        "--enable-log-requests": None,
        "--no-async-scheduling": None,
    }


def test_a_cpu_has_no_share_of_a_gpu() -> None:
    found = options(CPU, {})
    assert found["--dtype"] == "float32"
    assert "--enforce-eager" in found
    assert "--gpu-memory-utilization" not in found
    assert options(CPU, {}, dtype="bfloat16")["--dtype"] == "bfloat16"
    assert options(GPU, {})["--dtype"] == "auto"
    # An option takes the place of ours, and a value is a value whatever it looks like.
    settings = {"options": {"enforce-eager": False, "block-size": "--host=0.0.0.0"}}
    found = options(CPU, settings)
    assert "--no-enforce-eager" in found
    assert "--enforce-eager" not in found
    assert found["--block-size"] == "--host=0.0.0.0"
    assert environment(CPU, {})["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert environment(CPU, {"VLLM_CPU_KVCACHE_SPACE": "4"})["VLLM_CPU_KVCACHE_SPACE"] == "4"
    assert "VLLM_CPU_KVCACHE_SPACE" not in environment(GPU, {})
    assert environment(GPU, {"A": "b"})["VLLM_NO_USAGE_STATS"] == "1"
    # A key of the environment does not lock Tercet out.
    assert "VLLM_API_KEY" not in environment(CPU, {"VLLM_API_KEY": "somebody's"})
    assert resolved_dtype(LlmSettings(model="m"), CPU) == "float32"
    assert resolved_dtype(LlmSettings(model="m"), GPU) == "auto"


@pytest.mark.parametrize(
    "name",
    [
        *("port", "host", "--served_model_name", "api-key", "ssl_keyfile", "config", "uds"),
        *("root-path", "middleware", "seed", "chat-template", "hf-overrides", "kv-cache-dtype"),
        *("rope-scaling", "tokenizer", "revision", "override-generation-config"),
        "no-enable-prefix-caching",
        # vLLM takes these beginnings for the whole names.
        *("hos", "kv-cache-d", "see", "tokeniz", "quant", "api"),
        *("", "a b", "--host=0.0.0.0", "Host", "-q", "hf-overrides.a", "----host"),
    ],
)
def test_an_option_that_changes_answers_or_the_way_to_them_is_refused(name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        EngineSettings(options={"swap-space": 1, name: 1})
    assert [error["loc"] for error in caught.value.errors()] == [("options",)]


def test_an_option_that_has_a_key_of_its_own_names_it() -> None:
    for name, key in (
        ("dtype", "llm.dtype"),
        ("max-model", "llm.max_model_len"),
        ("lora-modules", "llm.adapter"),
        ("generation-config", "llm.temperature"),
    ):
        with pytest.raises(ValidationError, match=key):
            EngineSettings(options={name: 1})


def test_the_environment_of_vllm_is_found_beside_tercets_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "clone" / ".venv"))
    assert vllm_build.interpreter(None) == Path(sys.executable)
    for place in ("clone", "here"):
        python = tmp_path / place / ".venv-vllm" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch()
        assert vllm_build.interpreter(None) == python


def test_an_adapter_has_a_name_and_a_rank(tmp_path: Path) -> None:
    adapter = tmp_path / "polite"
    adapter.mkdir()
    with fails("missing_file", "llm.adapter"):
        options(GPU, {}, adapter=str(adapter))
    for rank, allowed in ((4, "8"), (24, "32")):
        (adapter / "adapter_config.json").write_text(json.dumps({"r": rank}))
        found = options(GPU, {}, adapter=str(adapter))
        assert found["--max-lora-rank"] == allowed
        assert found["--lora-modules"] == f"some-one+polite={adapter}"
        assert "--enable-lora" in found
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 513}))
    with fails("bad_value", "512"):
        options(GPU, {}, adapter=str(adapter))
    (adapter / "adapter_config.json").write_text("{}")
    with fails("unreadable", "rank"):
        options(GPU, {}, adapter=str(adapter))


def served(folder: Path, plugin: Plugin) -> list[str]:
    build = VllmBuild(Path("/venv/bin/python"), "1.2.3", True, plugin)
    return command(build, folder, LlmSettings(model=str(folder)), EngineSettings(), 8123)


def test_prefixes_are_not_cached_and_the_plugin_must_be_there(tmp_path: Path) -> None:
    """Of a VAEGPT; others need neither."""
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    assert "--enable-prefix-caching" in served(tmp_path, "missing")
    (tmp_path / "config.json").write_text('{"model_type": "vaegpt"}')
    assert "--no-enable-prefix-caching" in served(tmp_path, "current")
    for plugin in ("missing", "stale"):
        with fails("missing_package", "plugin"):
            served(tmp_path, plugin)


def test_a_plugin_with_other_code_is_seen(tmp_path: Path) -> None:
    """A package stands in for vLLM, which `look` does not import."""
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    where = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    packages = Path(where.stdout.strip())
    assert look(python) is None
    (packages / "vllm").mkdir()
    (packages / "vllm/__init__.py").touch()
    assert look(python) == VllmBuild(python, "unknown", False, "missing")
    plugin = Path(sys.modules["tercet.models.vaegpt"].__path__[0]) / "plugin"
    shutil.copytree(plugin, packages / "tercet_vaegpt")
    assert look(python) == VllmBuild(python, "unknown", False, "current")
    with (packages / "tercet_vaegpt/latent.py").open("a") as file:
        file.write("# mended since\n")
    assert look(python) == VllmBuild(python, "unknown", False, "stale")
