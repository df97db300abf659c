"""The names of all tasks that an encoder is measured on, their files, and reading them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tercet.tasks.evaluation.suites import duplicates, reranking, sts, transfer
from tercet.tasks.evaluation.suites.duplicates import PairTask
from tercet.tasks.evaluation.suites.fact_order import OrderTask
from tercet.tasks.evaluation.suites.layout import Split, suite_root
from tercet.tasks.evaluation.suites.reranking import MTEB, RERANKING_TASKS, RankedTask
from tercet.tasks.evaluation.suites.sts import STS_TASKS, ScoredTask
from tercet.tasks.evaluation.suites.transfer import TRANSFER_TASKS, LabelledTask
from tercet.tasks.stage import BadInput

# What stands for several tasks. The last three depend on the files that a suite holds.
GROUPS = ("sts", "transfer", "reranking", "pairs", "all")
_OPEN = GROUPS[2:]
_NAMED = (*STS_TASKS, *TRANSFER_TASKS, *RERANKING_TASKS)
_RERANKING, _PAIRS = f"{reranking.FOLDER}:", f"{duplicates.FOLDER}:"
_PREFIXES = (_RERANKING, _PAIRS, MTEB)


@dataclass(frozen=True)
class Suite:
    """Tasks read, by kind; the last two come from files of their own."""

    sts: list[ScoredTask] = field(default_factory=list)
    transfer: list[LabelledTask] = field(default_factory=list)
    reranking: list[RankedTask] = field(default_factory=list)
    pairs: list[PairTask] = field(default_factory=list)
    fact_order: list[OrderTask] = field(default_factory=list)
    sts_sets: list[ScoredTask] = field(default_factory=list)

    def tasks(self) -> list[ScoredTask | LabelledTask | RankedTask | PairTask | OrderTask]:
        """All of them, kind by kind."""
        found: list[ScoredTask | LabelledTask | RankedTask | PairTask | OrderTask]
        found = [*self.sts, *self.transfer, *self.reranking, *self.pairs]
        return [*found, *self.fact_order, *self.sts_sets]

    def texts(self) -> list[str]:
        """The texts of all tasks, repetitions included."""
        return [text for task in self.tasks() for text in task.texts()]


def task_names(asked: Sequence[str]) -> tuple[str, ...]:
    """The tasks asked for, each once, in the order of the literature; none means the STS seven.

    `sts` and `transfer` become their seven. `reranking`, `pairs` and `all` stay, since what they
    are depends on the files: all that the suite holds of that kind, or of any. Single files are
    `reranking:NAME` and `pairs:NAME`, tasks of the package mteb `mteb:NAME`.
    Raises: BadInput for a name that is none of them.
    """
    for name in asked:
        prefixed = any(name.startswith(p) and _is_plain(name.removeprefix(p)) for p in _PREFIXES)
        if name not in (*_NAMED, *GROUPS) and not prefixed:
            raise BadInput(
                f"There is no task {name!r} to evaluate on: choose {', '.join(GROUPS)}, or some of "
                f"{', '.join(_NAMED)}, or {', '.join(p + 'NAME' for p in _PREFIXES)}."
            )
    wanted = {name.removeprefix(_RERANKING) if _is_known(name) else name for name in asked}
    if not wanted or "sts" in wanted:
        wanted |= set(STS_TASKS)
    if "transfer" in wanted:
        wanted |= set(TRANSFER_TASKS)
    single = sorted(name for name in wanted if name not in (*_NAMED, *GROUPS))
    return (*(n for n in _NAMED if n in wanted), *single, *(n for n in _OPEN if n in wanted))


def resolve(directory: Path, names: Sequence[str], splits: Sequence[Split]) -> tuple[str, ...]:
    """The same with `reranking`, `pairs` and `all` replaced by what the directory holds.

    Raises: BadInput for a group of which nothing is there.
    """
    names = task_names(names)
    local = [name for name in names if not name.startswith(MTEB)]
    if not local:
        return names
    root = suite_root(directory)
    found = [name for name in names if name not in GROUPS]
    for group in (name for name in names if name in GROUPS):
        members: list[str] = []
        if group == "all":
            members += [n for n in STS_TASKS if sts.is_there(root, n, splits)]
            members += [n for n in TRANSFER_TASKS if transfer.is_there(root, n)]
        if group in ("all", "reranking"):
            members += [n if n in _NAMED else _RERANKING + n for n in reranking.names(root)]
        if group in ("all", "pairs"):
            members += [_PAIRS + name for name in duplicates.names(root)]
        if not members:
            raise BadInput(
                f"The suite {str(root)!r} holds no task of {group!r}: add its files, or leave "
                f"{group!r} out of `tasks`."
            )
        found += [name for name in members if name not in found]
    return task_names(found)


def suite_files(
    directory: Path, names: Sequence[str] = STS_TASKS, splits: Sequence[Split] = ("test",)
) -> dict[str, Path]:
    """The files that these tasks read, by their path inside the suite.

    Only STS-B and SICK-R have a split besides `test`. Raises: BadInput for a file not there.
    """
    names = resolve(directory, names, splits)
    chosen = _by_kind(names)
    found: dict[str, Path] = {}
    if chosen.sts:
        found |= sts.suite_files(directory, chosen.sts, splits)
    if "test" not in splits or not (chosen.transfer or chosen.reranking or chosen.pairs):
        return found
    root = suite_root(directory)
    found |= transfer.files(root, chosen.transfer)
    paths = [reranking.file_of(root, name) for name in chosen.reranking]
    paths += [duplicates.file_of(root, name) for name in chosen.pairs]
    return found | {str(path.relative_to(root)): path for path in paths}


def revisions(names: Sequence[str]) -> dict[str, str]:
    """What stands for the content of each `mteb:` task: its data set and revision.

    The package knows them without a network. Raises: BadInput where it is not installed.
    """
    wanted = [name for name in task_names(names) if name.startswith(MTEB)]
    return {name: reranking.mteb_revision(name.removeprefix(MTEB)) for name in wanted}


def read_suite(
    directory: Path, names: Sequence[str] = STS_TASKS, splits: Sequence[Split] = ("test",)
) -> Suite:
    """The tasks, each with its texts.

    Raises: BadInput that names file and line of what cannot be used; and where none of the tasks
        has one of the splits.
    """
    suite_files(directory, names, splits)
    chosen = _by_kind(resolve(directory, names, splits))
    found = Suite(sts=sts.read_suite(directory, chosen.sts, splits) if chosen.sts else [])
    if "test" in splits:
        if chosen.transfer or chosen.reranking or chosen.pairs:
            root = suite_root(directory)
            found.transfer.extend(transfer.read_task(root, name) for name in chosen.transfer)
            found.reranking.extend(reranking.read_task(root, name) for name in chosen.reranking)
            found.pairs.extend(duplicates.read_task(root, name) for name in chosen.pairs)
        found.reranking.extend(reranking.from_mteb(name) for name in chosen.mteb)
    if not found.tasks():
        raise BadInput(
            f"None of the tasks {', '.join(names)} has a split {' or '.join(splits)}: add `test` "
            "to `splits`, or STS-B or SICK-R to `tasks`."
        )
    return found


@dataclass(frozen=True)
class _Chosen:
    """Names without their prefixes, by where they are read from."""

    sts: list[str]
    transfer: list[str]
    reranking: list[str]
    pairs: list[str]
    mteb: list[str]


def _by_kind(names: Sequence[str]) -> _Chosen:
    def of(prefix: str) -> list[str]:
        return [name.removeprefix(prefix) for name in names if name.startswith(prefix)]

    return _Chosen(
        sts=[name for name in names if name in STS_TASKS],
        transfer=[name for name in names if name in TRANSFER_TASKS],
        reranking=[*(name for name in names if name in RERANKING_TASKS), *of(_RERANKING)],
        pairs=of(_PAIRS),
        mteb=of(MTEB),
    )


def _is_known(name: str) -> bool:
    """Whether it names one of the four with the prefix that they need not have."""
    return name.startswith(_RERANKING) and name.removeprefix(_RERANKING) in RERANKING_TASKS


def _is_plain(name: str) -> bool:
    """Whether it can be the name of a file in a folder, and not of one elsewhere."""
    return bool(name) and not name.startswith(".") and not set(name) & set("/\\")
