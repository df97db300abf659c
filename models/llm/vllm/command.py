"""How vLLM's server is called: from what a recipe says to a command line and an environment."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from tercet.models.llm.errors import Unusable
from tercet.models.llm.run_settings import EngineSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.vllm import options as server_options
from tercet.models.llm.vllm.build import VllmBuild, fault, is_vaegpt

HOST = "127.0.0.1"
# vLLM takes these ranks alone.
_LORA_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
_Value: TypeAlias = str | int | float | bool


def served_name(llm: LlmSettings) -> str:
    """What requests call the model: its last name, with the adapter's where there is one."""
    name = _plain(llm.model or "model")
    return name if llm.adapter is None else f"{name}+{_plain(llm.adapter)}"


def resolved_dtype(llm: LlmSettings, build: VllmBuild) -> str:
    """The precision that this build serves in: of `auto` float32 on a CPU, else vLLM's choice."""
    return "float32" if build.cpu and llm.dtype == "auto" else llm.dtype


def command(
    build: VllmBuild, model: Path, llm: LlmSettings, settings: EngineSettings, port: int
) -> list[str]:
    """The command of a server of this model on this port. Raises: Unusable."""
    noisy = is_vaegpt(model)
    if noisy and (lacks := fault(build.plugin, build.python)):
        raise Unusable(
            f"The generator in {model} is a VAEGPT, and {build.python} has {lacks}, or take "
            "backend: transformers."
        )
    options: dict[str, _Value] = {
        "dtype": resolved_dtype(llm, build),
        "tensor-parallel-size": settings.tensor_parallel,
        "data-parallel-size": settings.data_parallel,
        "max-num-seqs": settings.max_num_seqs,
        # A cached prompt would give all its generations the same noise.
        "enable-prefix-caching": settings.prefix_caching and not noisy,
        # The recipe says how answers are drawn; the model's own defaults would add to it unseen.
        "generation-config": "vllm",
        # Random and greedy models alike may write white space between two fields for ever.
        "structured-outputs-config": json.dumps(
            {"backend": "xgrammar", "disable_any_whitespace": True}
        ),
        "disable-uvicorn-access-log": True,
    }
    if build.cpu:
        options["enforce-eager"] = True
    else:
        options["gpu-memory-utilization"] = settings.gpu_memory
    if llm.quantization is not None:
        options["quantization"] = llm.quantization
    if llm.max_model_len is not None:
        options["max-model-len"] = llm.max_model_len
    own = _plain(llm.model or "model")
    if llm.adapter is not None:
        folder = Path(llm.adapter).expanduser().absolute()
        options["enable-lora"] = True
        options["lora-modules"] = f"{served_name(llm)}={folder}"
        options["max-lora-rank"] = _rank(folder)
    for name, value in settings.options.items():
        options[server_options.plain(name)] = value
    words = [str(build.python), "-m", "vllm.entrypoints.openai.api_server"]
    words += ["--model", str(model), "--served-model-name", own]
    words += ["--host", HOST, "--port", str(port)]
    for name, value in options.items():
        words += _words(name, value)
    return words


def environment(build: VllmBuild, given: Mapping[str, str]) -> dict[str, str]:
    """The server's environment: nothing is fetched, nothing is told to anybody."""
    mine = {
        **given,
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
        "VLLM_LOGGING_COLOR": "0",
        "PYTHONUNBUFFERED": "1",
    }
    # What its own processes say to each other stays on this machine.
    mine.setdefault("VLLM_HOST_IP", HOST)
    # A key that is set for another server would lock Tercet out of this one.
    mine.pop("VLLM_API_KEY", None)
    if build.cpu:
        # GiB; without it vLLM takes half of the machine's memory.
        mine.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    return mine


def _words(name: str, value: _Value) -> list[str]:
    """The words of one option: `--name=value`, of a truth `--name` or `--no-name`."""
    if value is True:
        return [f"--{name}"]
    if value is False:
        return [f"--no-{name}"]
    # In one word: a value that begins with a dash would be an option of its own.
    return [f"--{name}={value}"]


def _plain(name: str) -> str:
    """The last name of a path, a package's folder or a hub's name, without odd characters."""
    last = Path(name).name or "model"
    return re.sub(r"[^A-Za-z0-9._-]", "-", last)


def _rank(adapter: Path) -> int:
    """The rank that vLLM must allow for. Raises: Unusable when there is no adapter."""
    try:
        rank = int(json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))["r"])
    except OSError:
        raise Unusable(
            f"llm.adapter: {adapter} holds no LoRA adapter (adapter_config.json is missing)."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise Unusable(
            f"llm.adapter: adapter_config.json in {adapter} names no rank `r`."
        ) from None
    fitting = [allowed for allowed in _LORA_RANKS if allowed >= rank]
    if not fitting:
        raise Unusable(f"llm.adapter: its rank {rank} is above vLLM's highest, {_LORA_RANKS[-1]}.")
    return fitting[0]
