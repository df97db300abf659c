"""An encoder's form: the modules that turn a text into a vector, and changes from one form to
another.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Module, Normalize
from sentence_transformers.sentence_transformer.modules import (
    Pooling,
    Transformer,
    WeightedLayerPooling,
)
from torch import nn

from tercet.models.encoders.settings import (
    FIRST_LAST,
    TOKEN_POOLINGS,
    PoolingMode,
    TokenCnnForm,
    cnn_form,
    pooling_name,
    template_of,
)
from tercet.models.encoders.template_encoder import MarkedState, TemplateEncoder
from tercet.models.encoders.token_cnn import TokenCnn


def form_modules(
    checkpoint: Path | str,
    pooling: PoolingMode,
    prompt: str | None,
    model_kwargs: dict[str, Any],
    remote: dict[str, bool],
) -> tuple[Module, ...]:
    """The module with the checkpoint's weights, and the modules that pool its states.

    prompt: None: the form's default.
    Raises: ValueError, OSError or KeyError if the checkpoint cannot have this form.
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
    if pooling == FIRST_LAST:
        return reader, _first_last(reader), Pooling(reader.get_embedding_dimension(), "mean")
    if (form := cnn_form(pooling)) is not None:
        return reader, _token_cnn(reader, form)
    return reader, Pooling(reader.get_embedding_dimension(), pooling)


def pooling_of(model: SentenceTransformer) -> PoolingMode | None:
    """The encoder's pooling; None if none of its modules has one."""
    modes = [mode for module in model if (mode := getattr(module, "pooling_mode", None))]
    if modes and any(map(is_first_last, model)):
        return FIRST_LAST
    return modes[0] if modes else None


def is_first_last(module: Any) -> bool:
    """Whether the module averages the first and the last layer's states, and nothing else."""
    if not isinstance(module, WeightedLayerPooling) or module.layer_start != 1:
        return False
    return bool(torch.equal(module.layer_weights.detach().cpu(), _ends(len(module.layer_weights))))


def _first_last(reader: Any) -> WeightedLayerPooling:
    """The library's module, with frozen weights; makes the reader return all layers."""
    config = reader.model.config
    config.output_hidden_states = True
    layers = int(config.num_hidden_layers)
    # Layer 0 is the embeddings, as in SimCSE.
    averaged = WeightedLayerPooling(reader.get_embedding_dimension(), layers, layer_start=1)
    averaged.layer_weights = nn.Parameter(_ends(layers), requires_grad=False)
    return averaged


def _token_cnn(reader: Any, form: TokenCnnForm) -> TokenCnn:
    """The form's module with new weights, drawn by its seed."""
    assert form.seed is not None, "the loader names one"
    tokenizer = reader.tokenizer
    special = [getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "bos", "eos")]
    left_out = sorted({number for number in special if number is not None})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(form.seed)
        return TokenCnn(
            int(reader.get_embedding_dimension()),
            form.channels,
            form.filters,
            form.activation,
            form.seed,
            left_out,
        )


def _check_same(held: TokenCnn, form: TokenCnnForm, path: Path) -> None:
    """Raises ValueError if the encoder's trained token_cnn has other numbers than the form."""
    for key in ("channels", "filters", "activation", "seed"):
        old, new = getattr(held, key), getattr(form, key)
        if new is not None and old != new:
            raise ValueError(
                f"The encoder at {path} has a token_cnn of {key}: {old}, so {key}: {new} cannot "
                "be set: leave pooling out, or name these numbers."
            )


def _ends(layers: int) -> torch.Tensor:
    weights = torch.zeros(layers)
    weights[0] = weights[-1] = 1.0
    return weights


def set_form(
    model: SentenceTransformer,
    path: Path,
    pooling: PoolingMode,
    prompt: str | None,
    model_kwargs: dict[str, Any],
    remote: dict[str, bool],
) -> None:
    """Gives an encoder that was loaded from `path` another form; modules after the pooling stay.

    Raises: ValueError with one sentence if the form does not fit.
    """
    if pooling == FIRST_LAST and pooling_of(model) == FIRST_LAST:
        return
    form = cnn_form(pooling)
    for held in model:
        if form is not None and isinstance(held, TokenCnn):
            _check_same(held, form, path)
            return
    setting = f"pooling: {pooling_name(pooling)}"
    fitted = pooling_of(model)
    if fitted is not None and fitted != pooling and any(map(is_whitening, model)):
        raise ValueError(
            f"The encoder at {path} is whitened, which was fitted to vectors of pooling: "
            f"{pooling_name(fitted)}, so {setting} cannot be set: leave pooling out."
        )
    for averaged in [number for number, module in enumerate(model) if is_first_last(module)]:
        del model[averaged]
        model[0].model.config.output_hidden_states = False
    modes = [getattr(module, "pooling_mode", None) for module in model]
    place = next((number for number, mode in enumerate(modes) if mode), None)
    if place is None:
        raise ValueError(
            f"The encoder at {path} has no pooling module, so {setting} cannot be set: "
            "leave pooling out."
        )
    reader, held = model[0], model[place]
    chosen = pooling if isinstance(pooling, tuple) else (pooling,)
    if getattr(reader, "model", None) is None and not set(chosen) <= set(TOKEN_POOLINGS):
        raise ValueError(
            f"The encoder at {path} has no transformer, which {setting} needs: leave pooling out."
        )
    if held.pooling_mode == pooling and (
        prompt is None or template_of(pooling, prompt) == reader.template  # type: ignore[arg-type]
    ):
        return
    pooled: Module
    layers: list[Module] = []
    if isinstance(held, Pooling) and pooling == FIRST_LAST and place == 1:
        layers = [_first_last(reader)]
        pooled = Pooling(held.embedding_dimension, "mean", held.include_prompt)
    elif isinstance(held, Pooling) and form is not None and place == 1:
        pooled = _token_cnn(reader, form).to(model.device)
    elif (
        isinstance(held, Pooling)
        and form is None
        and pooling not in ("mask", "first_decoder", FIRST_LAST)
    ):
        pooled = Pooling(held.embedding_dimension, pooling, held.include_prompt)
    else:
        if place != 1:
            raise ValueError(
                f"The encoder at {path} has modules between its transformer and its pooling, "
                f"so {setting} cannot be set: leave pooling out."
            )
        longest = model.max_seq_length
        entries = json.loads((path / "modules.json").read_text(encoding="utf-8"))
        checkpoint = path / str(entries[0]["path"])
        reader, *layers, pooled = form_modules(checkpoint, pooling, prompt, model_kwargs, remote)
        reader.max_seq_length = longest
        model[0] = reader.to(model.device)
    behind = list(model)[place + 1 :]
    if _width(pooled) != _width(held) and not all(isinstance(one, Normalize) for one in behind):
        raise ValueError(
            f"The encoder at {path} has layers after its pooling that fit vectors of "
            f"{_width(held)} numbers, and {setting} makes {_width(pooled)}: leave pooling out."
        )
    model[place] = pooled
    for layer in layers:
        model.insert(place, layer.to(model.device))


def _width(module: Any) -> int:
    if isinstance(module, Pooling):
        return int(module.pooling_output_dimension)
    return int(module.get_embedding_dimension())


# Soft whitening of an encoder's vectors: scales down the directions in which texts vary most.
#
# BERT-whitening (Su et al. 2021, arXiv:2103.15316, section 3) with a power: 0 only rotates and
# truncates, 1 whitens, so that all directions have the same variance.

# Directions with less than this share of the largest variance are noise, and are scaled as if
# they had this share.
_LEAST = 1e-9


@dataclass(frozen=True)
class Whitening:
    """y = (x - mean) @ directions * factors, cut to the first `dimensions` numbers.

    mean: (d,). directions: (d, d), in columns, by falling variance. variances: (d,), of the texts
    along the directions. factors: (d,), variance ** (-power / 2).
    """

    mean: npt.NDArray[np.float64]
    directions: npt.NDArray[np.float64]
    variances: npt.NDArray[np.float64]
    factors: npt.NDArray[np.float64]
    dimensions: int


def whitening(vectors: npt.NDArray[np.float32], dimensions: int | None, power: float) -> Whitening:
    """The whitening of these vectors, of shape (texts, d).

    dimensions: directions to keep; None: all. power: in [0, 1].
    Raises: ValueError with one sentence if there are too few texts or dimensions, or all texts have
        the same vector.
    """
    texts, width = vectors.shape
    target = width if dimensions is None else dimensions
    if target > width:
        raise ValueError(
            f"whiten.dimensions is {target}, but the encoder's vectors have only {width} numbers: "
            f"lower it to {width} or less"
        )
    if texts <= target:
        raise ValueError(
            f"whiten.dimensions is {target}, but only {texts} texts are there to fit it on, and it "
            "needs more texts than dimensions: lower it, or add texts to the domain corpora"
        )
    wide = vectors.astype(np.float64)
    mean = wide.mean(axis=0)
    values, directions = np.linalg.eigh(np.cov(wide - mean, rowvar=False).reshape(width, width))
    # eigh gives directions by rising variance and of undefined sign: make the largest number
    # positive.
    variances, directions = values[::-1], directions[:, ::-1]
    largest = np.abs(directions).argmax(axis=0)
    directions = directions * np.sign(directions[largest, np.arange(width)])
    if not variances[0] > 0:
        raise ValueError("the encoder gives all texts the same vector, which cannot be whitened")
    factors = np.maximum(variances, _LEAST * variances[0]) ** (-power / 2)
    return Whitening(mean, directions, np.maximum(variances, 0.0), factors, target)


def whiten(model: SentenceTransformer, fitted: Whitening) -> None:
    """Appends the whitening to the encoder as a module `Dense`.

    An encoder that ends in a normalisation gets another one. `truncate_dim` is removed: the new
    module ignores the numbers that it cut off.
    """
    scaled = (fitted.directions * fitted.factors)[:, : fitted.dimensions].T
    model.truncate_dim = None
    width = int(model.get_embedding_dimension() or len(fitted.mean))
    weight = np.zeros((fitted.dimensions, width))
    weight[:, : len(fitted.mean)] = scaled
    dense = Dense(
        in_features=width,
        out_features=fitted.dimensions,
        bias=True,
        activation_function=torch.nn.Identity(),
        init_weight=torch.tensor(weight, dtype=torch.float32),
        init_bias=torch.tensor(-scaled @ fitted.mean, dtype=torch.float32),
    )
    normal = isinstance(list(model)[-1], Normalize)
    for module in (dense, *([Normalize()] if normal else [])):
        model.append(module.to(model.device))


def is_whitening(module: Any) -> bool:
    """Whether `whiten` made the module: it is linear, with orthogonal rows."""
    if not isinstance(module, Dense) or module.linear.bias is None:
        return False
    if not isinstance(module.activation_function, torch.nn.Identity):
        return False
    rows = torch.nn.functional.normalize(module.linear.weight.detach().double())
    return bool(((rows @ rows.T).abs() < 1e-3).sum() == len(rows) * (len(rows) - 1))
