"""Checkpoints without pickle, whole or not there."""

from pathlib import Path

import pytest
import torch

from tercet.models.training import checkpoints


def stepped() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_an_optimizer_comes_back_exactly(tmp_path: Path) -> None:
    model, optimizer = stepped()
    tensors, rest = checkpoints.split_optimizer(optimizer.state_dict())
    files = {"optimizer.safetensors": tensors, "optimizer.json": rest}
    path = checkpoints.write(tmp_path, 1, files)
    other = torch.optim.AdamW(model.parameters(), lr=0.5)
    other.load_state_dict(
        checkpoints.join_optimizer(
            checkpoints.read_tensors(path, "optimizer.safetensors"),
            checkpoints.read_json(path, "optimizer.json"),
        )
    )
    before, after = optimizer.state_dict(), other.state_dict()
    assert after["param_groups"] == before["param_groups"]
    assert after["state"].keys() == before["state"].keys()
    for index, entries in before["state"].items():
        for name, value in entries.items():
            assert torch.equal(after["state"][index][name], value)


def test_tied_tensors_can_be_written(tmp_path: Path) -> None:
    tied = torch.arange(4.0)
    path = checkpoints.write(tmp_path, 1, {"model.safetensors": {"a": tied, "b": tied}})
    assert torch.equal(checkpoints.read_tensors(path, "model.safetensors")["b"], tied)


def test_only_the_last_is_kept_and_no_pickle_is_written(tmp_path: Path) -> None:
    for step in (2, 10):
        checkpoints.write(
            tmp_path, step, {"m.safetensors": {"a": torch.ones(1)}, "log.json": {"step": step}}
        )
    found = checkpoints.latest(tmp_path)
    assert found is not None
    assert checkpoints.read_json(found, "log.json") == {"step": 10}
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-10"]
    assert sorted(path.name for path in found.iterdir()) == ["log.json", "m.safetensors"]


def test_a_half_written_checkpoint_is_never_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.write(tmp_path, 1, {"log.json": {"step": 1}})

    def fail(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", fail)
        with pytest.raises(OSError, match="no space"):
            checkpoints.write(tmp_path, 2, {"log.json": {"step": 2}})
    found = checkpoints.latest(tmp_path)
    assert found is not None
    assert found.name == "checkpoint-1"
    checkpoints.write(tmp_path, 2, {"log.json": {"step": 2}})
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-2"]
