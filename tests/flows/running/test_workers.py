"""Whom `run.workers` names, and how each fault of that is told."""

import socket
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
from failures import fails
from toy_executor import Backwards

from tercet.flows.recipe.model import RunSettings
from tercet.flows.running import workers
from tercet.flows.running.executors import Processes
from tercet.flows.running.workers import find_workers, open_executor
from tercet.models import plugins


def say(text: str) -> None:
    """Nobody listens."""


def test_a_number_is_so_many_processes() -> None:
    assert find_workers(RunSettings(workers=3)) is None
    assert isinstance(open_executor(RunSettings(workers=3), say), Processes)


def test_an_installed_package_adds_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("backwards", "toy_executor:WORKERS", workers.GROUP)
    vars(point)["dist"] = SimpleNamespace(name="toys", version="1.2")
    monkeypatch.setattr(plugins, "installed", lambda group: [point] * (group == workers.GROUP))
    assert isinstance(open_executor(RunSettings(workers="backwards"), say), Backwards)
    with fails("unknown_name", "'ways'"):
        find_workers(RunSettings(workers="ways"))


@pytest.mark.parametrize("address", ["ray://head:10001", "http://head:8265"])
def test_an_address_of_a_cluster_elsewhere_is_refused(
    address: str, ray_package: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with fails("bad_value", "RAY_ADDRESS", address):
        find_workers(RunSettings(workers="ray"))


def test_an_address_at_which_nobody_answers_is_told(
    ray_package: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
    with fails("unreachable", "127.0.0.1", port):
        open_executor(RunSettings(workers="ray"), say)


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with fails("missing_package"):
        find_workers(RunSettings(workers="ray"))
