"""The device that `auto` stands for goes by what torch was built for, and then by torch itself."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from tercet.flows.running.device import device, torch_build

CPU = "cuda: Optional[str] = None\nhip: Optional[str] = None\n"
CUDA = "cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"
ROCM = "cuda: Optional[str] = None\nhip: Optional[str] = '6.4.43482-0f2d60242'\n"


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Puts a torch in the place of the installed one; importing it is an error unless it `sees`."""

    def install(version, sees=None):
        (tmp_path / "version.py").write_text(f"__version__ = '2.13.0'\ndebug = False\n{version}")
        spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
        cuda = SimpleNamespace(is_available=lambda: sees)
        torch = None if sees is None else SimpleNamespace(cuda=cuda)
        monkeypatch.setitem(sys.modules, "torch", torch)

    return install


@pytest.mark.parametrize(
    ("version", "build"), [(CPU, None), (CUDA, "CUDA 13.0"), (ROCM, "ROCm 6.4")]
)
def test_the_build_is_read_without_importing_torch(built, version, build):
    built(version)
    assert torch_build() == build


@pytest.mark.parametrize(
    ("version", "sees", "found"),
    [(CPU, None, "cpu"), (CUDA, True, "cuda"), (CUDA, False, "cpu"), (ROCM, True, "cuda")],
)
def test_auto_asks_torch_unless_it_is_the_build_for_the_cpu(built, version, sees, found):
    built(version, sees)
    assert device("auto") == found


def test_what_the_recipe_names_is_taken(built):
    built(CUDA)
    assert device("cuda:1") == "cuda:1"


def test_without_torch_it_is_the_cpu(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert device("auto") == "cpu"
