"""Which options of vLLM's server a recipe may set: those that say how fast and where, not what.

An option that changes the answers would have to enter fingerprints, and the server's options do
not. Only Tercet sets those that change how the server is reached, or what it shows to others.
"""

import re

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_OURS = "is Tercet's own to say, leave it out"
_CHANGES = "would change answers without changing their fingerprints, leave it out"

# By prefix. vLLM takes any prefix of an option's name for the option, so prefixes of these are
# refused as well as names that begin with one of them.
_REFUSED = {
    "model": _OURS,
    "served-model-name": _OURS,
    "host": _OURS,
    "port": _OURS,
    "uds": _OURS,
    "root-path": _OURS,
    "api-key": _OURS,
    "ssl-": _OURS,
    "enable-ssl-refresh": _OURS,
    "config": _OURS,
    "headless": _OURS,
    "grpc": _OURS,
    "help": _OURS,
    "version": _OURS,
    "middleware": _OURS,
    "tokens-only": _OURS,
    "structured-outputs-config": _OURS,
    "dtype": "belongs under `llm`, as `llm.dtype`",
    "quantization": "belongs under `llm`, as `llm.quantization`",
    "max-model-len": "belongs under `llm`, as `llm.max_model_len`",
    "lora-": "belongs under `llm`, as `llm.adapter`",
    "enable-lora": "belongs under `llm`, as `llm.adapter`",
    "max-lora-rank": "belongs under `llm`, as `llm.adapter`",
    "default-mm-loras": "belongs under `llm`, as `llm.adapter`",
    "default-chat-template-kwargs": "belongs under `llm`, as `llm.template_kwargs`",
    "generation-config": "belongs under `llm`, as `llm.temperature` and the like",
    "override-": _CHANGES,
    "chat-template": _CHANGES,
    "trust-request-chat-template": _CHANGES,
    "tokenizer": _CHANGES,
    "skip-tokenizer-init": _CHANGES,
    "revision": _CHANGES,
    "code-revision": _CHANGES,
    "hf-": _CHANGES,
    "rope-": _CHANGES,
    "seed": _CHANGES,
    "kv-cache-dtype": _CHANGES,
    "calculate-kv-scales": _CHANGES,
    "mamba-cache-dtype": _CHANGES,
    "mamba-ssm-cache-dtype": _CHANGES,
    "allow-deprecated-quantization": _CHANGES,
    "disable-sliding-window": _CHANGES,
    "logits-processor": _CHANGES,
    "load-format": _CHANGES,
    "ignore-patterns": _CHANGES,
    "runner": _CHANGES,
    "convert": _CHANGES,
    "task": _CHANGES,
    "pooler-config": _CHANGES,
    "diffusion-config": _CHANGES,
    "guided-decoding": _CHANGES,
    "reasoning-": _CHANGES,
    "enable-reasoning": _CHANGES,
    "enable-auto-tool-choice": _CHANGES,
    "tool-": _CHANGES,
}


def plain(name: str) -> str:
    """An option's name as vLLM writes it, without the dashes before it."""
    return name.removeprefix("--").replace("_", "-")


def fault(name: str) -> str | None:
    """What is wrong with an option of this name, in words that follow it; None if nothing."""
    asked = plain(name)
    if not _NAME.fullmatch(asked):
        return "is not an option's name: lower-case letters, digits and hyphens"
    if asked.startswith("no-"):
        return f"is written as {asked.removeprefix('no-')}: false"
    for begin, reason in _REFUSED.items():
        if asked.startswith(begin) or begin.startswith(asked):
            return reason
    return None
