"""The two sides of a search, and the prompts that a model puts before the texts of each.

Separate from the encoder, so that a config can name them without torch.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field

Side: TypeAlias = Literal["query", "document"]
# A text, and the side that it is encoded on; None: on neither.
Sided: TypeAlias = tuple[str, Side | None]
SIDES: tuple[Side, ...] = get_args(Side)

# A side's prompt is the first of these that a model has: as in sentence-transformers'
# `encode_query` and `encode_document`.
_NAMES: Mapping[Side, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}


class Prompts(BaseModel):
    """What stands before queries and before documents, in place of the model's own prompts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    query: str | None = Field(
        default=None,
        max_length=1_000,
        description="Before each query; null: the model's own, an empty text: none.",
    )
    document: str | None = Field(
        default=None,
        max_length=1_000,
        description="Before each document; null: the model's own, an empty text: none.",
    )

    def given(self) -> dict[str, str]:
        """Those that replace a model's own, by their names there."""
        return self.model_dump(exclude_none=True)


def prompt_of(prompts: Mapping[str, str], default: str | None, side: Side | None) -> str:
    """What stands before a text on this side; "" if nothing does.

    prompts: a model's, by name. default: the name of the one for texts on neither side.
    """
    name = default
    if side is not None:
        name = next((name for name in _NAMES[side] if name in prompts), default)
    return prompts.get(name or "") or ""


def has_sides(directory: Path, given: Prompts) -> bool:
    """Whether the encoder in a directory has another prompt for queries or documents than by
    default. given: in place of its own.
    """
    try:
        path = directory / "config_sentence_transformers.json"
        said = json.loads(path.read_text(encoding="utf-8"))
        own, default = dict(said.get("prompts") or {}), said.get("default_prompt_name")
    except (OSError, ValueError, AttributeError):
        own, default = {}, None  # whoever loads the model says what is wrong with it
    # sentence-transformers gives every model these two.
    prompts = {"query": "", "document": "", **own, **given.given()}
    plain = prompt_of(prompts, default, None)
    return any(prompt_of(prompts, default, side) != plain for side in SIDES)
