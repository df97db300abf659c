"""A model's chat template, applied here, so that prompts can go out as lists of plain texts."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tercet.models.llm.errors import Unusable
from tercet.models.llm.messages import Request
from tercet.models.llm.wire import turns

_FILES = ("chat_template.jinja", "chat_template.json")
_FOLDER = "additional_chat_templates"


def has_chat_template(model: Path) -> bool:
    """Whether a model's directory holds a chat template. Nothing is loaded."""
    if any((model / name).is_file() for name in _FILES) or (model / _FOLDER).is_dir():
        return True
    try:
        config = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and bool(config.get("chat_template"))


def chat_renderer(
    model: Path, template_kwargs: Mapping[str, Any]
) -> Callable[[Sequence[Request]], list[str]]:
    """A function from requests to what the model continues: each is a chat.

    The texts contain the template's special tokens, so no others may be added.

    template_kwargs: further variables of the template.

    Raises: Unusable when the model has no template or no tokenizer; the returned function raises
        it when the template does not take a message.
    """
    from transformers import AutoTokenizer

    if not has_chat_template(model):
        raise Unusable(
            f"The model {model} has no chat template: set llm.api: completions, or use a chat "
            "model."
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise Unusable(f"The tokenizer of {model} cannot be read: {reason}") from None

    def render(requests: Sequence[Request]) -> list[str]:
        if not requests:
            return []
        chats = [turns(request) for request in requests]
        try:
            texts: list[str] = tokenizer.apply_chat_template(
                chats, tokenize=False, add_generation_prompt=True, **template_kwargs
            )
        except Exception as error:
            raise Unusable(
                f"The chat template of {model} fails ({type(error).__name__}: {error}): check "
                "llm.template_kwargs, or set llm.api: completions."
            ) from None
        return texts

    return render
