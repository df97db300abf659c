"""Checkpoints of a training in safetensors and JSON: no pickle is written or read.

A checkpoint is a folder. It is written under another name and renamed once its files are on disk,
so that a folder called `checkpoint-N` is always complete.
"""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

_PREFIX = "checkpoint-"
_WRITING = ".writing"

State = dict[str, Any]


def latest(directory: Path) -> Path | None:
    """The complete checkpoint with the highest step in `directory`, if there is one."""
    paths = [path for path in directory.glob(f"{_PREFIX}*") if _step(path) >= 0]
    return max(paths, key=_step, default=None)


def _step(path: Path) -> int:
    number = path.name.removeprefix(_PREFIX)
    return int(number) if number.isdigit() else -1


def write(directory: Path, step: int, files: Mapping[str, State | dict[str, torch.Tensor]]) -> Path:
    """Writes `checkpoint-<step>` with these files, then removes older checkpoints.

    files: content by file name: tensors by name for `.safetensors`, JSON's types for `.json`.
    """
    target = directory / f"{_PREFIX}{step}"
    draft = directory / f"{target.name}{_WRITING}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    for name, content in files.items():
        path = draft / name
        if name.endswith(".safetensors"):
            _save(path, content)
        else:
            path.write_text(json.dumps(content), encoding="utf-8")
            _sync(path)
    _sync(draft)
    if target.exists():
        shutil.rmtree(target)
    draft.rename(target)
    _sync(directory)
    for old in directory.glob(f"{_PREFIX}*"):
        if old != target:
            shutil.rmtree(old, ignore_errors=True)
    return target


def weights(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and persistent buffers by name; a shared tensor has one name."""
    lasting = module.state_dict().keys()
    named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: tensor for name, tensor in named.items() if name in lasting}


def put_weights(module: nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """The inverse of `weights`."""
    with torch.no_grad():
        for name, tensor in weights(module).items():
            tensor.copy_(tensors[name])


def write_training(
    directory: Path,
    step: int,
    module: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    state: State,
) -> None:
    """Writes a checkpoint; a training resumes only from one with an optimizer."""
    files: dict[str, Any] = {"model.safetensors": weights(module), "log.json": state}
    if optimizer is not None:
        tensors, rest = split_optimizer(optimizer.state_dict())
        files |= {"optimizer.safetensors": tensors, "optimizer.json": rest}
    write(directory, step, files)


def load_weights(module: nn.Module, checkpoint: Path) -> None:
    """Puts the checkpoint's weights into the module."""
    put_weights(module, read_tensors(checkpoint, "model.safetensors"))


def load_optimizer(optimizer: torch.optim.Optimizer, checkpoint: Path) -> None:
    """Puts the checkpoint's state into the optimizer."""
    tensors = read_tensors(checkpoint, "optimizer.safetensors")
    rest = read_json(checkpoint, "optimizer.json")
    optimizer.load_state_dict(join_optimizer(tensors, rest))


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes one file of tensors by name, atomically."""
    draft = path.with_name(f"{path.name}{_WRITING}")
    _save(draft, tensors)
    draft.rename(path)
    _sync(path.parent)


def _save(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    # Copies, since safetensors refuses tensors that share memory (tied weights).
    copies = {key: value.detach().cpu().clone() for key, value in tensors.items()}
    save_file({key: value.contiguous() for key, value in copies.items()}, path)
    _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_tensors(checkpoint: Path, name: str) -> dict[str, torch.Tensor]:
    """Tensors by name from one of the checkpoint's files."""
    return dict(load_file(checkpoint / name))


def read_json(checkpoint: Path, name: str) -> Any:
    """JSON content of one of the checkpoint's files."""
    return json.loads((checkpoint / name).read_text(encoding="utf-8"))


def split_optimizer(state: State) -> tuple[dict[str, torch.Tensor], State]:
    """An optimizer's `state_dict` as tensors by name and the rest in JSON's types."""
    tensors: dict[str, torch.Tensor] = {}
    plain: dict[str, dict[str, Any]] = {}
    for index, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, torch.Tensor):
                tensors[f"{index}.{name}"] = value
            else:
                plain.setdefault(str(index), {})[name] = value
    return tensors, {"state": plain, "param_groups": state["param_groups"]}


def join_optimizer(tensors: Mapping[str, torch.Tensor], rest: State) -> State:
    """The inverse of `split_optimizer`."""
    state: dict[int, dict[str, Any]] = {int(index): dict(e) for index, e in rest["state"].items()}
    for key, tensor in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = tensor
    groups = [
        {key: tuple(v) if key == "betas" else v for key, v in group.items()}
        for group in rest["param_groups"]
    ]
    return {"state": state, "param_groups": groups}
