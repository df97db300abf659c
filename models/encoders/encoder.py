"""Loads sentence encoders, encodes many texts fast, and saves encoders.

The directory of an encoder with Tercet's modules names their classes `tercet_FILE.CLASS` and holds
the file, so that plain sentence-transformers can load it with trust_remote_code=True. Tercet never
runs that file: these names mean its own classes, whatever the file contains.
"""

import contextlib
import inspect
import json
import math
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router, StaticEmbedding, Transformer
from sentence_transformers.util import import_from_string
from torch import nn
from transformers import modeling_utils
from transformers.utils import logging as transformers_logging

from tercet.models.encoders import forms
from tercet.models.encoders.settings import (
    CNN,
    SIDES,
    PoolingMode,
    Prompts,
    Side,
    cnn_form,
    prompt_of,
)
from tercet.models.encoders.template_encoder import (
    ENDLESS,
    MarkedState,
    TemplateEncoder,
    longest_input,
)
from tercet.models.encoders.token_cnn import TokenCnn
from tercet.models.machine import Precision, computed_in, keep_freed_memory

Vectors: TypeAlias = npt.NDArray[np.float32]

# Tokens of a batch per unit of `batch_size`, so that short texts get larger batches.
_TOKENS_PER_TEXT = 16
# Errors that an incomplete or damaged directory raises.
_FAULTS = (
    AttributeError,
    ImportError,
    KeyError,
    OSError,
    SafetensorError,
    StrictDataclassError,
    TypeError,
    ValueError,
)
# Texts that are tokenised at once, which bounds memory.
_BLOCK = 4_096


def load_encoder(
    path: Path | str,
    pooling: PoolingMode | None = None,
    max_length: int | None = None,
    device: str = "cpu",
    trust_remote_code: bool = False,
    prompt: str | None = None,
    cnn_seed: int | None = None,
    prompts: Prompts | None = None,
) -> SentenceTransformer:
    """The encoder at `path`, in fp32 and in eval mode.

    pooling: how token states become one vector; None keeps the directory's own, or "mean" for a
        plain checkpoint, which has none.
    prompt: the template of pooling "mask", or the text after the sentence for "first_decoder"; None
        keeps the encoder's own, or takes the default.
    max_length: longest input in tokens, including special tokens; None keeps the model's own. It is
        never more than the model's positions allow.
    cnn_seed: seed of the first weights for pooling "token_cnn", at the start of a training; a seed
        of the pooling itself has priority. None: an encoder without such weights is refused.
    prompts: of queries and documents, in place of the model's own.
    trust_remote_code: whether code that came with the model may run. Tercet's own modules need no
        trust.
    Raises ValueError with one sentence if no encoder can be loaded.
    """
    has_modules = (Path(path) / "modules.json").is_file()
    form = None if pooling is None else cnn_form(pooling)
    drawn = form
    if form is not None and form.seed is None:
        drawn = replace(form, seed=cnn_seed or 0)
    remote = {"trust_remote_code": trust_remote_code}
    # Only safetensors: a pickled checkpoint is refused.
    weights = {"dtype": "float32", "use_safetensors": True}
    transformers_logging.disable_progress_bar()
    try:
        check_files(Path(path), trust_remote_code)
        with refused():
            if has_modules and has_own(Path(path)):
                model = load_own(Path(path), device, weights, trust_remote_code)
            elif has_modules:
                model = SentenceTransformer(
                    str(path), device=device, model_kwargs=weights, **remote
                )
            else:
                modules = forms.form_modules(
                    path, drawn or pooling or "mean", prompt, weights, remote
                )
                model = SentenceTransformer(modules=list(modules), device=device)
        check_model(model)
        check_length(model)
    except _FAULTS as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if "custom code" in str(error):
            reason = (
                "it comes with Python code of its own, which runs only if the recipe sets "
                "trust_remote_code: true, and never in a guide, a teacher or `tercet eval`"
            )
        raise ValueError(f"No sentence encoder can be loaded from {path}: {reason}") from error
    has_cnn = has_modules and any(isinstance(module, TokenCnn) for module in model)
    if form is not None and not has_cnn and cnn_seed is None:
        raise ValueError(
            f"The encoder at {path} has no {CNN}, and one with random weights would say nothing: "
            f"train it with pooling: {CNN} first, or leave pooling out."
        )
    for module in filter(forms.is_first_last, model):
        module.requires_grad_(False)
    if has_modules and pooling is not None:
        with refused():
            target = pooling if has_cnn else drawn or pooling
            forms.set_form(model, Path(path), target, prompt, weights, remote)
    # Static embeddings have no longest input, and none can be set.
    if (current := model.max_seq_length) != math.inf:
        chosen = current if max_length is None else max_length
        most = min(longest(model), ENDLESS if chosen is None else chosen)
        if most != current and most < ENDLESS:
            model.max_seq_length = most
    if isinstance(model[0], TemplateEncoder):
        # Raises if the template leaves no token for a sentence.
        model[0].preprocess([""])
    if prompts is not None:
        model.prompts.update(prompts.given())
        for side in SIDES:
            check_room(model, side, model.max_seq_length)
    if model.truncate_dim is not None:
        # The library cuts only in its own `encode`.
        model.register_forward_hook(cut)
    return model.eval()


def cut(model: Any, given: object, output: dict[str, Any]) -> dict[str, Any]:
    """Cuts sentence vectors to the length that the model's config asks for (Matryoshka)."""
    vectors = output["sentence_embedding"]
    return {**output, "sentence_embedding": vectors[..., : model.truncate_dim]}


def longest(model: SentenceTransformer) -> int:
    """The longest input in tokens that the positions of the model allow."""
    readers = [m for m in model.modules() if isinstance(m, (Transformer, TemplateEncoder))]
    return min((longest_input(reader.model) for reader in readers), default=ENDLESS)


def dimension(model: SentenceTransformer) -> int:
    """Width of the sentence vectors."""
    return int(model.get_embedding_dimension())


def encode(
    model: SentenceTransformer,
    texts: Sequence[str],
    batch_size: int = 64,
    precision: Precision = "fp32",
    progress: Callable[[int], None] = lambda done: None,
    normalise: bool = True,
    side: Side | None = None,
) -> Vectors:
    """Vectors of shape (texts, dimension), in the order of the texts.

    Texts are sorted by length and put into batches of about `batch_size` * 16 tokens, for little
    padding.
    precision: "bf16" computes under autocast, which moves cosines by up to 4e-3; fp32 on processors
        without it.
    progress: gets the number of texts done.
    normalise: scale vectors to length one; classifiers are fitted on unscaled vectors.
    side: uses the model's prompt for queries or documents, as sentence-transformers'
        `encode_query` and `encode_document`; None: its default prompt.
    """
    arguments = side_arguments(model, side)
    task = {name: value for name, value in arguments.items() if name == "task"}
    vectors = np.zeros((len(texts), dimension(model)), dtype=np.float32)
    was_training, device = model.training, model.device.type
    in_bf16 = computed_in(precision, device) == "bf16"
    keep_freed_memory()
    model.eval()
    done = 0
    try:
        with (
            torch.inference_mode(),
            torch.autocast(device, torch.bfloat16, enabled=in_bf16),
        ):
            for rows, features in _batches(model, texts, batch_size, arguments):
                on_device = {
                    key: value.to(model.device) if torch.is_tensor(value) else value
                    for key, value in features.items()
                }
                output = model(on_device, **task)["sentence_embedding"].float()
                if normalise:
                    output = torch.nn.functional.normalize(output, dim=-1)
                vectors[rows] = output.cpu().numpy()
                done += len(rows)
                progress(done)
    finally:
        model.train(was_training)
    return vectors


def distinct_side(model: SentenceTransformer, side: Side | None) -> Side | None:
    """The side, or None if the model encodes it like texts on neither side."""
    prompt, plain = (prompt_of(model.prompts, model.default_prompt_name, s) for s in (side, None))
    routes = any(isinstance(module, Router) for module in model.modules())
    return side if routes or prompt != plain else None


def side_arguments(model: SentenceTransformer, side: Side | None) -> dict[str, Any]:
    """Arguments of the model's preprocessing for texts of a side: prompt, and task if distinct."""
    side = distinct_side(model, side)
    prompt = {"prompt": prompt_of(model.prompts, model.default_prompt_name, side) or None}
    return prompt if side is None else {**prompt, "task": side}


def check_room(model: SentenceTransformer, side: Side | None, longest: float | None) -> None:
    """Raises ValueError if the side's prompt takes all of the `longest` tokens."""
    side = distinct_side(model, side)
    if side is None or longest is None or longest >= ENDLESS:
        return
    features = model.preprocess([""], **side_arguments(model, side), max_length=int(longest))
    if _is_padded(features, 1) and int(features["attention_mask"].sum()) >= longest:
        raise ValueError(
            f"The prompt before each {side} leaves a text no room in {longest} tokens: raise "
            f"max_length, or shorten prompts.{side}"
        )


def _batches(
    model: SentenceTransformer, texts: Sequence[str], batch_size: int, arguments: dict[str, Any]
) -> Iterator[tuple[npt.NDArray[np.int64], dict[str, Any]]]:
    """Row numbers and padded features, longest texts first."""
    if not len(texts):
        return
    if _is_padded(model.preprocess([texts[0]], **arguments), 1):
        yield from _batches_by_tokens(model, texts, arguments, batch_size * _TOKENS_PER_TEXT)
        return
    # Features of static embeddings and flattened inputs cannot be cut into rows.
    for start in range(0, len(texts), batch_size):
        some = list(texts[start : start + batch_size])
        yield np.arange(start, start + len(some)), model.preprocess(some, **arguments)


def _batches_by_tokens(
    model: SentenceTransformer, texts: Sequence[str], arguments: dict[str, Any], budget: int
) -> Iterator[tuple[npt.NDArray[np.int64], dict[str, Any]]]:
    """`_batches` for features padded to (texts, tokens). budget: tokens of a batch."""
    by_letters = np.argsort([-len(text) for text in texts], kind="stable")
    for first in range(0, len(texts), _BLOCK):
        block = np.sort(by_letters[first : first + _BLOCK])
        features = model.preprocess([texts[int(row)] for row in block], **arguments)
        mask = features["attention_mask"]
        lengths = mask.sum(dim=1).numpy()
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            # The first is the longest of its batch, and so its width.
            chosen = order[start : start + max(budget // max(int(lengths[order[start]]), 1), 1)]
            yield block[chosen], _rows(features, chosen)
            start += len(chosen)


def _is_padded(features: dict[str, Any], texts: int) -> bool:
    """Whether the features have one row of tokens for each text."""
    mask: Any = features.get("attention_mask")
    return torch.is_tensor(mask) and mask.ndim == 2 and len(mask) == texts


def _rows(features: dict[str, Any], rows: npt.NDArray[np.int64]) -> dict[str, Any]:
    """The features of these rows, without columns of padding only."""
    mask = features["attention_mask"]
    used = torch.nonzero(mask[rows].any(dim=0))
    columns = slice(int(used[0]), int(used[-1]) + 1) if len(used) else slice(0, 1)
    chosen: dict[str, Any] = {}
    for key, value in features.items():
        if torch.is_tensor(value) and value.ndim and len(value) == len(mask):
            value = value[rows]
            if value.ndim > 1 and value.shape[1] == mask.shape[1]:
                value = value[:, columns]
        chosen[key] = value
    return chosen


# Files that only a SentenceTransformer directory has, beside its modules.json.
_OF_MODULES = (
    "config_sentence_transformers.json",
    "template_encoder.json",
    "[0-9]_*/config.json",
    "[0-9][0-9]_*/config.json",
)
_ROLES = ("pad", "unk", "cls", "sep", "bos", "eos", "mask")


def check_files(path: Path, trust_remote_code: bool) -> None:
    """Raises ValueError for a directory that the library would silently load in another form."""
    listed = path / "modules.json"
    if not listed.is_file():
        file = next((file for glob in _OF_MODULES for file in sorted(path.glob(glob))), None)
        if file is not None:
            raise ValueError(
                f"it has {file.relative_to(path)}, but the modules.json that says how its vectors "
                "are made is missing"
            )
        return
    modules = json.loads(listed.read_text(encoding="utf-8"))
    if not isinstance(modules, list) or not all(map(_is_entry, modules)):
        raise ValueError("its modules.json is no list of modules, each with its type and path")
    # The layers of a router lie in subfolders.
    dense = {*path.rglob("*Dense*/config.json")}
    dense |= {path / m["path"] / "config.json" for m in modules if m["type"].endswith(".Dense")}
    for file in () if trust_remote_code else sorted(filter(Path.is_file, dense)):
        config = json.loads(file.read_text(encoding="utf-8"))
        name = config.get("activation_function", "torch.")
        # Without trust, the library would silently take Tanh instead.
        if not isinstance(name, str) or not name.startswith("torch."):
            raise ValueError(
                f"its layer {file.parent.relative_to(path)} has the activation {name!r}, not one "
                "of torch, which runs only if the recipe sets trust_remote_code: true"
            )


def check_model(model: SentenceTransformer) -> None:
    """Raises ValueError for a tokenizer that does not fit, and for weights that are not finite."""
    for name, weights in model.named_parameters():
        # Checked here since NaN in the attention may still give finite vectors. 8-bit numbers have
        # no isfinite.
        values = weights.float() if weights.element_size() == 1 else weights
        if not bool(values.isfinite().all()):
            raise ValueError(f"its weights are damaged: {name} has NaN or infinity")
    tokenizer: Any = getattr(model, "tokenizer", None)
    special = getattr(tokenizer, "all_special_tokens", None)
    # If its files are missing, transformers makes a tokenizer with only special tokens.
    if special is not None and len(tokenizer) <= len(special):
        raise ValueError("its tokenizer is missing (tokenizer.json, or the files it is made from)")
    for tokens, rows in _vocabularies(model):
        if beyond := {name: number for name, number in tokens.items() if number >= rows}:
            first = min(beyond, key=lambda name: beyond[name])
            raise ValueError(
                f"its tokenizer has tokens that its weights do not know: {first!r} is number "
                f"{beyond[first]}, and they have {rows} rows"
            )


def check_length(model: SentenceTransformer) -> None:
    """Raises ValueError if `truncate_dim` is not a number of dimensions."""
    length: Any = model.truncate_dim
    if length is not None and (type(length) is not int or length < 1):
        raise ValueError(
            f"its config_sentence_transformers.json has truncate_dim {length!r}, which is no "
            "number of dimensions: write a whole one, 1 or more, or take the key out"
        )


def _is_entry(module: Any) -> bool:
    return isinstance(module, dict) and all(
        isinstance(module.get(key), str) for key in ("type", "path")
    )


def _vocabularies(model: SentenceTransformer) -> Iterator[tuple[dict[str, int], int]]:
    """For each module that reads texts: the numbers of tokens in texts, and rows of embeddings."""
    for module in model.modules():
        table: Any = None
        if isinstance(module, StaticEmbedding):
            yield module.tokenizer.get_vocab(), module.embedding.num_embeddings
        elif isinstance(module, (Transformer, TemplateEncoder)):
            tokenizer: Any = module.tokenizer
            try:
                table = module.model.get_input_embeddings()
            except (AttributeError, NotImplementedError):
                continue  # CANINE has no embeddings; a module without `model` reads no tokens
            rows = getattr(table, "num_embeddings", None)
            if rows is None or not hasattr(tokenizer, "get_vocab"):
                continue
            # Special tokens without a role occur in no text: Gemma's image token has no row.
            used = {getattr(tokenizer, f"{role}_token_id", None) for role in _ROLES}
            added = getattr(tokenizer, "added_tokens_decoder", {})
            unused = {number for number, token in added.items() if token.special} - used
            vocabulary = tokenizer.get_vocab()
            yield {name: n for name, n in vocabulary.items() if n not in unused}, int(rows)


_THEIRS = modeling_utils.log_state_dict_report
_WITHIN = threading.local()


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Raises ValueError if a checkpoint that this thread loads in the block lacks weights.

    A missing pooler is removed from the model, since vectors are made of states. Superfluous heads
    are ignored.
    """
    before = getattr(_WITHIN, "refused", False)
    _WITHIN.refused = True
    try:
        yield
    except RuntimeError as error:
        # torch's error for a layer after the transformer.
        if "loading state_dict" not in str(error):
            raise
        raise ValueError(" ".join(str(error).split())) from error
    finally:
        _WITHIN.refused = before


def _report(model: nn.Module, *args: Any, **named: Any) -> None:
    """Replaces the function of transformers that logs what a checkpoint lacked."""
    if not getattr(_WITHIN, "refused", False):
        _THEIRS(model, *args, **named)
        return
    info: Any = named["loading_info"]
    if errors := [*info.error_msgs, *info.conversion_errors.values()]:
        raise ValueError(" ".join(str(errors[0]).split()))
    lacking, wrong = sorted(info.missing_keys), sorted(key for key, *_ in info.mismatched_keys)
    # A random pooler would be saved as if it were the backbone's.
    for name in {name for name in map(_pooler, (*lacking, *wrong)) if name is not None}:
        model.set_submodule(name, nn.Identity())
    lacking, wrong = ([n for n in names if _pooler(n) is None] for names in (lacking, wrong))
    if lacking:
        raise ValueError(f"its weights lack {lacking[0]}{_more(lacking)}")
    if wrong:
        raise ValueError(
            f"its weights have another shape than its config.json says: {wrong[0]}{_more(wrong)}"
        )


def _pooler(weight: str) -> str | None:
    """The name of the pooler with this weight; None for other weights."""
    parts = weight.split(".")
    return ".".join(parts[: parts.index("pooler") + 1]) if "pooler" in parts[:-1] else None


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


modeling_utils.log_state_dict_report = _report


# Tercet's modules. Their files import nothing of Tercet, since they are copied beside encoders.
OWN: tuple[type[nn.Module], ...] = (TemplateEncoder, MarkedState, TokenCnn)

_LIBRARY = "sentence_transformers."
# The package under which transformers loads code that came with a model.
_FOREIGN = "transformers_modules."


def save_encoder(model: SentenceTransformer, directory: Path) -> Path:
    """Writes the encoder as a SentenceTransformer directory of safetensors and JSON.

    Source files of Tercet's modules, and of code that came with the model, are copied beside it.
    """
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(str(directory), create_model_card=False)
    kinds = {type(module) for module in model if type(module) in OWN}
    if kinds:
        listed = directory / "modules.json"
        entries = json.loads(listed.read_text(encoding="utf-8"))
        names = {_written(kind): _exported(kind) for kind in kinds}
        for entry in entries:
            entry["type"] = names.get(entry["type"], entry["type"])
        listed.write_text(json.dumps(entries, indent=2), encoding="utf-8")
        for source in {Path(inspect.getfile(kind)) for kind in kinds}:
            shutil.copyfile(source, directory / f"tercet_{source.name}")
    for source in _foreign(model):
        shutil.copyfile(source, directory / source.name)
    return directory


def _foreign(model: SentenceTransformer) -> set[Path]:
    """Files of code that came with the model and was loaded by trust_remote_code."""
    parts = [*model.modules(), *(getattr(module, "config", None) for module in model.modules())]
    kinds = {type(part) for part in parts if type(part).__module__.startswith(_FOREIGN)}
    # With the files that they import, which lie beside them.
    folders = {Path(inspect.getfile(kind)).parent for kind in kinds}
    return {path for folder in folders for path in folder.glob("*.py") if path.stem != "__init__"}


def has_own(path: Path) -> bool:
    """Whether all modules are Tercet's or the library's, and at least one is Tercet's."""
    names = [entry["type"] for entry in _entries(path)]
    kinds = _by_name()
    return any(name in kinds for name in names) and all(
        name in kinds or name.startswith(_LIBRARY) for name in names
    )


def load_own(
    path: Path, device: str, model_kwargs: dict[str, Any], trust_remote_code: bool
) -> SentenceTransformer:
    """The encoder of a directory for which `has_own` is true.

    trust_remote_code: whether the transformer's own code may run; that of the modules never does.
    Raises: ValueError, OSError or KeyError for a damaged one.
    """
    kinds, modules = _by_name(), OrderedDict()
    for entry in _entries(path):
        kind = kinds.get(entry["type"]) or import_from_string(entry["type"])
        if not (path / entry["path"]).resolve().is_relative_to(path.resolve()):
            raise ValueError(
                f"modules.json names {entry['path']!r}, which is outside the directory"
            )
        modules[entry["name"]] = kind.load(
            str(path),
            subfolder=entry["path"],
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            model_kwargs=model_kwargs,
        )
    settings = json.loads((path / "config_sentence_transformers.json").read_text(encoding="utf-8"))
    names = ("prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim")
    return SentenceTransformer(
        modules=modules, device=device, **{key: settings.get(key) for key in names}
    )


def _entries(path: Path) -> list[dict[str, Any]]:
    return list(json.loads((path / "modules.json").read_text(encoding="utf-8")))


def _written(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


def _exported(kind: type) -> str:
    return f"tercet_{kind.__module__.rpartition('.')[2]}.{kind.__name__}"


def _by_name() -> dict[str, type[nn.Module]]:
    return {name(kind): kind for kind in OWN for name in (_written, _exported)}
