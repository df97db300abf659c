"""An encoder's form: which modules turn a text into a vector, and how one form becomes another."""

import json
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Module, Normalize
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from tercet.models.encoders.pooling import PoolingMode, pooling_name, template_of
from tercet.models.encoders.template_encoder import MarkedState, TemplateEncoder


def form_modules(
    checkpoint: Path | str,
    pooling: PoolingMode,
    prompt: str | None,
    model_kwargs: dict[str, Any],
    remote: dict[str, bool],
) -> tuple[Module, Module]:
    """The module that reads a text with a checkpoint's weights, and the one that pools its states.

    prompt: None takes the form's default.
    Raises: ValueError, OSError or KeyError where the checkpoint cannot have this form.
    """
    reader: Module
    if pooling == "mask" or pooling == "first_decoder":
        reader = TemplateEncoder.from_checkpoint(
            str(checkpoint),
            template_of(pooling, prompt),
            pooling,
            model_kwargs={**model_kwargs, **remote},
            processor_kwargs=remote,
        )
        return reader, MarkedState(reader.get_embedding_dimension(), pooling)
    reader = Transformer(
        str(checkpoint),
        model_kwargs={**model_kwargs, **remote},
        processor_kwargs=remote,
        config_kwargs=remote,
    )
    return reader, Pooling(reader.get_embedding_dimension(), pooling)


def set_form(
    model: SentenceTransformer,
    path: Path,
    pooling: PoolingMode,
    prompt: str | None,
    model_kwargs: dict[str, Any],
    remote: dict[str, bool],
) -> None:
    """Gives an encoder that was loaded from `path` another form; modules after it stay.

    Raises: ValueError with one sentence where that cannot be.
    """
    modes = [getattr(module, "pooling_mode", None) for module in model]
    place = next((number for number, mode in enumerate(modes) if mode), None)
    said = f"pooling: {pooling_name(pooling)}"
    if place is None:
        raise ValueError(
            f"The encoder at {path} has no pooling module, so {said} cannot be set: "
            "leave pooling out."
        )
    reader, held = model[0], model[place]
    if held.pooling_mode == pooling:
        asked = None if prompt is None else template_of(pooling, prompt)  # type: ignore[arg-type]
        if asked is None or asked == reader.template:
            return
    made: Module
    if isinstance(held, Pooling) and pooling not in ("mask", "first_decoder"):
        made = Pooling(held.embedding_dimension, pooling, held.include_prompt)
    else:
        if place != 1:
            raise ValueError(
                f"The encoder at {path} has modules between its transformer and its pooling, "
                f"so {said} cannot be set: leave pooling out."
            )
        longest = model.max_seq_length
        reader, made = form_modules(_checkpoint(path), pooling, prompt, model_kwargs, remote)
        reader.max_seq_length = longest
        model[0] = reader.to(model.device)
    behind = list(model)[place + 1 :]
    if _width(made) != _width(held) and not all(isinstance(one, Normalize) for one in behind):
        raise ValueError(
            f"The encoder at {path} has layers after its pooling that fit vectors of "
            f"{_width(held)} numbers, and {said} makes {_width(made)}: leave pooling out."
        )
    model[place] = made


def _checkpoint(path: Path) -> Path:
    """The folder of the transformer in a SentenceTransformer directory."""
    entries = json.loads((path / "modules.json").read_text(encoding="utf-8"))
    return path / str(entries[0]["path"])


def _width(module: Any) -> int:
    if isinstance(module, Pooling):
        return int(module.pooling_output_dimension)
    return int(module.get_embedding_dimension())
