"""From a recipe to vLLM's command line, and from its log to a sentence. No server is started."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from pydantic import ValidationError

from tercet.models.llm.run_settings import EngineSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.vllm import build as vllm_build
from tercet.models.llm.vllm.build import VllmBuild
from tercet.models.llm.vllm.engine import command, environment, resolved_dtype, served_name
from tercet.models.llm.vllm.log import telling_lines

CPU = VllmBuild(Path("/venv/bin/python"), "1.2.3", True)
GPU = VllmBuild(Path("/venv/bin/python"), "1.2.3", False)


def options(build: VllmBuild, settings: dict[str, Any], **llm: Any) -> dict[str, str | None]:
    """The options as a dict; None for a bare flag."""
    said = LlmSettings(**{"model": "/models/some one", **llm})
    words = command(build, Path("/models/some one"), said, EngineSettings(**settings), 8123)
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
    assert environment(CPU, {})["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert environment(CPU, {"VLLM_CPU_KVCACHE_SPACE": "4"})["VLLM_CPU_KVCACHE_SPACE"] == "4"
    assert "VLLM_CPU_KVCACHE_SPACE" not in environment(GPU, {})
    assert environment(GPU, {"A": "b"})["VLLM_NO_USAGE_STATS"] == "1"
    assert resolved_dtype(LlmSettings(model="m"), CPU) == "float32"
    assert resolved_dtype(LlmSettings(model="m"), GPU) == "auto"


def test_a_key_of_the_environment_does_not_lock_tercet_out() -> None:
    assert environment(CPU, {"VLLM_API_KEY": "somebody's", "A": "b"})["A"] == "b"
    assert "VLLM_API_KEY" not in environment(CPU, {"VLLM_API_KEY": "somebody's"})


def test_an_option_takes_the_place_of_ours() -> None:
    assert options(GPU, {"options": {"enforce_eager": True}})["--enforce-eager"] is None
    found = options(CPU, {"options": {"enforce-eager": False, "--swap_space": -1}})
    assert "--no-enforce-eager" in found
    assert "--enforce-eager" not in found
    assert found["--swap-space"] == "-1"
    # A value is a value, whatever it looks like.
    assert options(CPU, {"options": {"block-size": "--host=0.0.0.0"}})["--block-size"] == (
        "--host=0.0.0.0"
    )


@pytest.mark.parametrize(
    "name",
    [
        *("port", "host", "--served_model_name", "api-key", "ssl_keyfile", "config", "uds"),
        *("root-path", "middleware", "seed", "chat-template", "hf-overrides", "kv-cache-dtype"),
        *("rope-scaling", "tokenizer", "revision", "override-generation-config"),
        # These have a place of their own, which the message names.
        *("dtype", "max_model_len", "lora-modules", "generation-config"),
        "no-enable-prefix-caching",
        # vLLM takes these beginnings for the whole names.
        *("hos", "max-model", "kv-cache-d", "see", "tokeniz", "quant", "api"),
        *("", "a b", "--host=0.0.0.0", "Host", "-q", "hf-overrides.a", "----host"),
    ],
)
def test_an_option_that_changes_answers_or_the_way_to_them_is_refused(name: str) -> None:
    places = {"dtype": "dtype", "lora-modules": "adapter", "generation-config": "temperature"}
    places |= dict.fromkeys(("max_model_len", "max-model"), "max_model_len")
    said = f"llm.{places[name]}" if name in places else "option"
    with pytest.raises(ValidationError, match=said) as caught:
        EngineSettings(options={"swap-space": 1, name: 1})
    assert [error["loc"] for error in caught.value.errors()] == [("options",)]


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
    for rank, allowed in [(4, "8"), (8, "8"), (24, "32")]:
        (adapter / "adapter_config.json").write_text(json.dumps({"r": rank}))
        found = options(GPU, {}, adapter=str(adapter))
        assert found["--max-lora-rank"] == allowed
        assert found["--lora-modules"] == f"some-one+polite={adapter}"
        assert found["--served-model-name"] == "some-one"
        assert "--enable-lora" in found
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 513}))
    with fails("bad_value", "512"):
        options(GPU, {}, adapter=str(adapter))
    (adapter / "adapter_config.json").write_text("{}")
    with fails("unreadable", "rank"):
        options(GPU, {}, adapter=str(adapter))


def test_the_served_name_is_the_last_of_the_models() -> None:
    assert served_name(LlmSettings(model="some/Model-7B.v2")) == "Model-7B.v2"
    assert served_name(LlmSettings(model="package:texts/model")) == "model"
    assert served_name(LlmSettings(model="./", adapter="a/b")) == "model+b"


def test_the_cause_is_told_and_not_its_echo(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "(APIServer pid=7) INFO 11-21 16:18:24 [api.py:1] an ordinary line\n"
        "(EngineCore pid=8) ERROR 11-21 16:18:24 [core.py:15] Traceback (most recent call last):\n"
        '(EngineCore pid=8) ERROR 11-21 16:18:24 [core.py:15]   File "core.py", line 9, in run\n'
        "(EngineCore pid=8) ERROR 11-21 16:18:24 [core.py:15] ValueError: heads must be even\n"
        "(EngineCore pid=8) ValueError: heads must be even\n"
        "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert telling_lines(log) == ["ValueError: heads must be even"]
    since = log.stat().st_size
    with log.open("a") as file:
        file.write("only this\nand that\n\n")
    assert telling_lines(log, since) == ["only this", "and that"]
    log.write_text(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, too long [type=value_error, input_value=ArgsKwargs((), {'model': 'x'})]\n"
    )
    assert telling_lines(log) == ["too long"]
    log.write_text("api_server.py: error: unrecognized arguments: --nothing\n")
    assert telling_lines(log) == ["api_server.py: error: unrecognized arguments: --nothing"]
    assert telling_lines(tmp_path / "none") == []


def test_what_every_server_prints_tells_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    noise = (
        "(APIServer pid=7) INFO 11-21 17:08:08 [core_client.py:770] shutdown\n"
        "INFO:     Application shutdown complete.\n"
        "api_server.py:24: DeprecationWarning: `api_server` is deprecated\n  warnings.warn(\n"
        'nanobind: leaked 4 instances!\n - leaked type "location"\n - ... skipped remainder\n'
        "See https://nanobind.readthedocs.io/en/latest/refleaks.html\n\n"
    )
    log.write_text(noise)
    assert telling_lines(log) == []
    before = "(APIServer pid=7) ERROR 11-21 17:08:08 [async_llm.py:906] "
    echo = "EngineDeadError: EngineCore encountered an issue. See stack trace (above)."
    log.write_text(f"{noise}and this\n{before}{echo}\nRuntimeError: cancelled\n{noise}")
    assert telling_lines(log) == [echo, "RuntimeError: cancelled"]
    log.write_text(f"{before}{echo}\n{before}torch.OutOfMemoryError: 3 GiB\n{noise}")
    assert telling_lines(log) == ["torch.OutOfMemoryError: 3 GiB"]
