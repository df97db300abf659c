"""Stages: data that names a config, inputs and tables, and a pure function."""

import importlib.util
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import pyarrow as pa

from tercet.errors import TercetError
from tercet.models.config import Config as Config
from tercet.storage.rows import Rows, quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from tercet.models.llm.messages import Ask, Request


# A stage's version does not cover this module of declarations: an edit here reruns no stage.
UNVERSIONED = True

REJECTS = pa.schema(
    [
        ("stage", pa.string()),
        ("row_id", pa.uint64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("text", pa.string()),
    ]
)
"""Table `rejects`.

Columns:
    stage: the stage that rejected the row
    row_id: which row; docs/sql.md says of what
    reason: why; docs/sql.md has the reasons of every stage
    detail: details: where it was found, or its value and the bound
    text: the rejected text; for unreadable input its first 200 characters
"""


class BadInput(TercetError):
    """The user's input is at fault; exit code 2."""


class RequirementNotMet(TercetError):
    """The verdict on a finished run does not meet `run.require`; exit code 3."""

    exit_code = 3

    def __init__(self, run_id: str, message: str) -> None:
        super().__init__("refused", message)
        self.run_id, self.args = run_id, (run_id, message)


class Interrupted(Exception):
    """Raised out of a stage when the run was asked to stop."""


def silent(done: int, total: int | None, unit: str) -> None:
    """A Progress that shows nothing."""


def no_externals(config: Any) -> Mapping[str, Path | str]:
    """`Stage.externals` of a stage whose config names nothing outside the store."""
    return {}


def uses_nothing(config: Any) -> Iterable[object]:
    """A stage whose code is what its module imports, whatever its config."""
    return ()


@dataclass(frozen=True)
class Resources:
    """Settings of the recipe's `run:` block: none of them changes a result or enters a fingerprint.

    ask: asks the recipe's language model; only for stages with `asks`.
    """

    device: str = "cpu"
    batch_size: int = 64
    part_rows: int = 20_000
    memory_limit: str = "512MB"
    progress: Callable[[int, int | None, str], None] = silent
    ask: "Ask | None" = None


T = TypeVar("T")


class Loaded:
    """Objects that the parts of a step load once a process. Threads share them until it ends."""

    def __init__(self) -> None:
        self._kept: dict[Any, tuple[tuple[Any, ...], Any]] = {}
        self._lock = threading.RLock()

    def __reduce__(self) -> Any:
        # Another process loads its own objects.
        return Loaded, ()

    def get(self, load: Callable[..., T], work: "Work", arguments: tuple[Any, ...]) -> T:
        with self._lock:
            loaded = self._kept.get(load)
            if loaded is None or loaded[0] != arguments:
                # The old model is freed first: two models at once may be too much.
                self._kept.pop(load, None)
                del loaded
                self._kept[load] = arguments, load(work, *arguments)
            value: T = self._kept[load][1]
            return value

    def clear(self) -> None:
        """Drops all loaded objects, once no part needs them."""
        with self._lock:
            self._kept.clear()


@dataclass(frozen=True)
class Work:
    """Everything that one call of a stage's function sees.

    inputs: one `Rows` per slot: one part of the slot that `EachPart` maps and of slots aligned with
        it; all rows of any other slot.
    spec: the part's own entry of `Planned.specs`; {} for other stages.
    models: slot to local directory, for model inputs (an artifact's or an external one's).
    scratch: a directory that survives a kill and a resume, and goes when the artifact is done.
    emit: appends rows to one of the stage's tables; columns are cast to the table's schema.
    stage: the stage's name, for rejects of a stage that shares its code with another.
    loaded: what `once` has loaded.
    """

    config: Any
    seed: int
    inputs: Mapping[str, Rows]
    models: Mapping[str, Path]
    spec: Mapping[str, Any]
    resources: Resources
    scratch: Path
    emit: Callable[[str, pa.Table], None]
    stage: str = ""
    loaded: Loaded = field(default_factory=Loaded)

    def once(self, load: Callable[..., T], *given: Any) -> T:
        """`load(work, *given)`, called once for the parts that this process makes of a step.

        Each function's last result is kept: with other arguments it is called again.
        """
        return self.loaded.get(load, self, given)


@dataclass(frozen=True)
class OnePart:
    """The whole input makes one part.

    continues: the slot `known` holds the version of the recipe's last run with the same config:
        rows keep their place in its files. No row's content depends on it.
    keeps: the version that the recipe keeps is read, in the slot `kept`; for any other stage the
        kept version stands in for a new one.
    """

    continues: bool = False
    keeps: bool = False


@dataclass(frozen=True)
class EachPart:
    """Each part of an input slot makes one part, so that unchanged parts are reused.

    aligned: slots made from the same parts as `slot` (mentions of the same sentences): a part reads
        only the matching parts.
    looked_up: slots that a part reads by id, for the ids in its own rows; stages that recall make
        them. A part is made again if what makes them changes, but not for the rows of other parts.
    """

    slot: str
    aligned: Sequence[str] = ()
    looked_up: Sequence[str] = ()


@dataclass(frozen=True)
class Planned:
    """The stage divides the whole input itself.

    specs: one a part, in JSON's types.
    recalls: the slot `known` holds the rows that earlier versions with the same config, code and
        models have made from whatever inputs, so that expensive rows are not computed twice.
    """

    specs: Callable[[Work], list[dict[str, Any]]]
    recalls: bool = False


Cut: TypeAlias = OnePart | EachPart | Planned


@dataclass(frozen=True)
class Stage:
    """A named step: reads artifacts, writes one.

    cut: how its work is divided into parts, and what the parts reuse.
    model: the function returns a directory of files, which become the artifact's.
    seeded: the seed enters the fingerprint.
    libraries: distributions whose version changes the result, hence part of the fingerprint.
    uses: the objects that a config chooses from registries (losses, readers), whose code is part
        of the step's version; a text is the name of a module that runs elsewhere for the step.
    apart: packages that its modules import and that cannot change its rows, whose code is no part
        of the step's version.
    externals: what the config names and the store does not hold: a path (its content is digested)
        or a digest, by name.
    locations: keys of the config that only say where an external lies and enter no fingerprint:
        dotted paths from its top, with `*` for every member ("corpora.*.source").
    check_model: raises BadInput where a model cannot do what the config wants of it, as far as its
        files show: called with the config, the slot and the model's directory before a run.
    asks: for a stage that asks a language model: the requests of one part, which it does not send.
        Its parts are made in several threads, so that the model never waits for the end of one.
    method: for a stage that asks: the method under which its answers are kept and counted, if its
        config names none.
    """

    name: str
    config: type[Config]
    tables: Mapping[str, pa.Schema]
    run: Callable[[Work], Path | None]
    cut: Cut = OnePart()
    model: bool = False
    seeded: bool = True
    libraries: Sequence[str] = ()
    uses: Callable[[Any], Iterable[object]] = uses_nothing
    apart: Sequence[str] = ()
    externals: Callable[[Any], Mapping[str, Path | str]] = no_externals
    locations: Sequence[str] = ()
    check_model: Callable[[Any, str, Path], None] | None = None
    asks: "Callable[[Work], Iterator[Request]] | None" = None
    method: str = ""

    @property
    def each(self) -> str | None:
        """The slot that the stage maps part by part; None if it maps none."""
        return self.cut.slot if isinstance(self.cut, EachPart) else None


Kind = Literal["entity", "quantity"]
Role = Literal["positive", "negative"]


@contextmanager
def connection(
    work: Work, threads: int | None = None, on_disk: bool = False
) -> "Iterator[DuckDBPyConnection]":
    """A database for this call, deleted at its end.

    threads: the most threads; None: one per core.
    on_disk: its tables lie in a file, so that memory holds only what a query needs.
    """
    import duckdb

    # A folder for each connection: two that spill into one would write the same files.
    with tempfile.TemporaryDirectory(prefix="duckdb-", dir=work.scratch) as folder:
        database = str(Path(folder, "tables.duckdb")) if on_disk else ":memory:"
        with duckdb.connect(database) as opened:
            opened.execute(f"SET memory_limit = {quoted(work.resources.memory_limit)}")
            opened.execute(f"SET temp_directory = {quoted(folder)}")
            if threads is not None:
                opened.execute(f"SET threads = {threads}")
            yield opened


def ask(work: Work, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """The rows that answer one query."""
    with connection(work) as db:
        rows: list[tuple[Any, ...]] = db.execute(query, list(parameters)).fetchall()
    return rows


PACKAGE = "package:"


def package_file(name: str) -> Path:
    """The path of `package:PACKAGE/FILE`, which need not exist; nothing is imported.

    Raises: BadInput where the package is not installed.
    """
    package, _, inside = name.removeprefix(PACKAGE).partition("/")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(
            "missing_package",
            f"{name!r} names the Python package {package!r}, which is not installed.",
        )
    return Path(next(iter(spec.submodule_search_locations))) / inside


def file_path(name: str) -> Path:
    """The path of a file, or of `package:PACKAGE/FILE`; it need not exist. Raises BadInput."""
    return package_file(name) if name.startswith(PACKAGE) else Path(name).expanduser()
