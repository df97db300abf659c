"""The names of all tasks in a suite's directory, their files, and reading them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from tercet.tasks.evaluation.suites import duplicates, reranking, sts, transfer
from tercet.tasks.evaluation.suites.layout import Split, suite_root
from tercet.tasks.evaluation.suites.reranking import MTEB
from tercet.tasks.evaluation.suites.sts import STS_TASKS
from tercet.tasks.evaluation.suites.task import Kind, Task
from tercet.tasks.stage import BadInput

KINDS: Sequence[Kind] = (sts.KIND, transfer.KIND, reranking.KIND, duplicates.KIND)
# Names of several tasks. The last three depend on the files that a suite holds.
GROUPS = (*(kind.name for kind in KINDS), "all")
_OPEN = (*(kind.name for kind in KINDS if kind.paths is None), "all")
_NAMED = tuple(task for kind in KINDS for task in kind.tasks)
_PREFIXES = (*(f"{kind.name}:" for kind in KINDS if kind.paths is None), MTEB)


def task_names(names: Sequence[str]) -> tuple[str, ...]:
    """The requested tasks, each once, in the order of the literature; none means the STS seven.

    `sts` and `transfer` become their seven tasks. `reranking`, `pairs` and `all` stay, since they
    mean all tasks of that kind, or of any, that the suite has files of. Single files are
    `reranking:NAME` and `pairs:NAME`, tasks of the package mteb `mteb:NAME`.
    Raises: BadInput for any other name.
    """
    for name in names:
        prefixed = any(
            name.startswith(p) and _is_file_name(name.removeprefix(p)) for p in _PREFIXES
        )
        if name not in (*_NAMED, *GROUPS) and not prefixed:
            raise BadInput(
                "unknown_name",
                f"There is no task {name!r} to evaluate on: choose {', '.join(GROUPS)}, or some of "
                f"{', '.join(_NAMED)}, or {', '.join(p + 'NAME' for p in _PREFIXES)}.",
            )
    # The four reranking tasks may have the prefix that other files in their folder need.
    plain = {f"{reranking.FOLDER}:{name}": name for name in reranking.RERANKING_TASKS}
    chosen = {plain.get(name, name) for name in names}
    if not chosen or "sts" in chosen:
        chosen |= set(STS_TASKS)
    if "transfer" in chosen:
        chosen |= set(transfer.TRANSFER_TASKS)
    single = sorted(name for name in chosen if name not in (*_NAMED, *GROUPS))
    return (*(n for n in _NAMED if n in chosen), *single, *(n for n in _OPEN if n in chosen))


def resolve(directory: Path, names: Sequence[str], splits: Sequence[Split]) -> tuple[str, ...]:
    """The names from `task_names`, with `reranking`, `pairs` and `all` replaced by the directory's
    tasks.

    Raises: BadInput for a group without a task.
    """
    names = task_names(names)
    if all(name.startswith(MTEB) for name in names):
        return names
    root = suite_root(directory)
    single = [name for name in names if name not in GROUPS]
    for group in (name for name in names if name in GROUPS):
        members = [
            name
            for kind in KINDS
            if group in ("all", kind.name)
            for name in kind.find(root, splits)
        ]
        if not members:
            raise BadInput(
                "missing_file",
                f"The suite {str(root)!r} holds no task of {group!r}: add its files, or leave "
                f"{group!r} out of `tasks`.",
            )
        single += [name for name in members if name not in single]
    return task_names(single)


def suite_files(
    directory: Path, names: Sequence[str] = STS_TASKS, splits: Sequence[Split] = ("test",)
) -> dict[str, Path]:
    """The files that these tasks read, by their path inside the suite.

    Only STS-B and SICK-R have a split besides `test`. Raises: BadInput for a missing file.
    """
    files: dict[str, Path] = {}
    for kind, name, read_splits in _find_tasks(directory, names, splits):
        if read_splits and not name.startswith(MTEB):
            files |= kind.files(suite_root(directory), name, read_splits)
    return files


def revisions(names: Sequence[str]) -> dict[str, str]:
    """The data set and revision of each `mteb:` task, which represent its content.

    Read from the package, without a network. Raises: BadInput if it is not installed.
    """
    mteb_tasks = [name for name in task_names(names) if name.startswith(MTEB)]
    return {name: reranking.mteb_revision(name.removeprefix(MTEB)) for name in mteb_tasks}


def read_suite(
    directory: Path, names: Sequence[str] = STS_TASKS, splits: Sequence[Split] = ("test",)
) -> list[Task]:
    """The tasks, each with its texts, kind by kind.

    Raises: BadInput that names file and line of what cannot be used, and if none of the tasks has
        one of the splits.
    """
    suite_files(directory, names, splits)
    chosen = list(_find_tasks(directory, names, splits))
    local = any(not name.startswith(MTEB) for _, name, read_splits in chosen if read_splits)
    root = suite_root(directory) if local else directory
    tasks = [
        task
        for kind in KINDS
        for split in splits
        for its, name, read_splits in chosen
        if its is kind
        and split in read_splits
        and (task := kind.read(root, name, split)) is not None
    ]
    if not tasks:
        raise BadInput(
            "no_rows",
            f"None of the tasks {', '.join(names)} has a split {' or '.join(splits)}: add `test` "
            "to `splits`, or STS-B or SICK-R to `tasks`.",
        )
    return tasks


def _find_tasks(
    directory: Path, names: Sequence[str], splits: Sequence[Split]
) -> Iterator[tuple[Kind, str, list[Split]]]:
    """The kind of each task, its name within the kind, and the splits that the kind has."""
    # Tasks of mteb come last.
    for name in sorted(resolve(directory, names, splits), key=lambda name: name.startswith(MTEB)):
        prefix, _, rest = name.partition(":")
        for kind in KINDS:
            if name in kind.tasks or prefix == kind.name:
                yield kind, rest or name, [split for split in splits if split in kind.splits]
        if name.startswith(MTEB):
            yield reranking.KIND, name, [split for split in splits if split == "test"]


def _is_file_name(name: str) -> bool:
    """Whether it can only be the name of a file in the folder itself."""
    return bool(name) and not name.startswith(".") and not set(name) & set("/\\")
