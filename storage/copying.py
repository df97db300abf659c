"""Copies all of a store into another: from a directory into a bucket, and back."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tercet.storage.answers import POOL, seal_left
from tercet.storage.objects import Folder
from tercet.storage.store import Store, StoreError, clear_errors, is_own, unfinished

# Data goes before the records that point to it: an interrupted copy has no dangling records.
_ORDER = ("schemas", POOL, "data", "files", "_parts", "plan.json", "parts.json", "manifest.json")
_LATER = ("keys", "rounds", "runs", "tags")


def copy(source: Store, target: Store) -> dict[str, int]:
    """Copies objects that the target lacks or has with other content; returns bytes by path.

    An interrupted copy goes on when it is repeated. Answers in the journal of a running process
    are not copied. Raises StoreError for a target with runs that the source lacks.
    """
    others = sorted(set(target.list("runs")) - set(source.list("runs")))
    if others:
        raise StoreError(
            "exists",
            f"{target.location} has runs of its own ({others[0]}): name a new place, or a copy of "
            f"{source.location}.",
        )
    seal_left(source)
    # The source is listed twice, and records come from the first listing: the data that they point
    # to were written earlier, so the second listing has them.
    records, data, present = source.stats(""), source.stats(""), target.stats("")
    ranks = {path: _rank(path) for path in {*records, *data} if _is_copied(path)}
    ranks = {path: rank for path, rank in ranks.items() if path in (records if rank > 3 else data)}
    sizes: dict[str, int] = {}
    concurrent = target if isinstance(source.objects, Folder) else source
    scratch = target.work / "scratch"
    scratch.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=scratch) as aside:

        def put(path: str) -> int:
            if path.endswith(".json"):
                return _put_record(source, target, path, path in present)
            # A data file's name is unique, so equal size means equal content.
            if path in present and present[path].bytes == data[path].bytes:
                return 0
            return _put_file(source, target, path, Path(aside))

        for rank in sorted(set(ranks.values())):
            paths = sorted(path for path in ranks if ranks[path] == rank)
            sizes |= zip(paths, concurrent.each(put, paths), strict=True)
    return {path: size for path, size in sizes.items() if size}


def _put_record(source: Store, target: Store, path: str, exists: bool) -> int:
    """Copies a small object; returns the bytes written, 0 if the target has the same."""
    text = source.get(path)
    if text is None:
        raise _gone(source, path)
    if exists and target.get(path) == text:
        return 0
    target.replace(path, text)
    return len(text)


def _put_file(source: Store, target: Store, path: str, aside: Path) -> int:
    """Copies a file; one in a bucket goes through the local folder `aside`."""
    try:
        with clear_errors(source.location):
            file = source.objects.local(path, aside)
        target.put_file(path, file)
        size = file.stat().st_size
    except FileNotFoundError:
        raise _gone(source, path) from None
    if file.is_relative_to(aside):
        file.unlink()
    return size


def _gone(source: Store, path: str) -> StoreError:
    return StoreError(
        "gone", f"{source.location}/{path} was deleted meanwhile: repeat the command."
    )


def _is_copied(path: str) -> bool:
    folder = path.split("/")[0]
    return (
        folder in ("artifacts", "schemas", POOL, *_LATER)
        and is_own(path)
        and unfinished(path) == path
        and not path.startswith(f"{POOL}/journal/")
        and not path.endswith(".writing")
        # A running training replaces and removes its newest checkpoint.
        and path.split("/")[3:5] != ["files", "checkpoint"]
    )


def _rank(path: str) -> int:
    folder, *rest = path.split("/")
    if folder in _LATER:
        return len(_ORDER) + _LATER.index(folder)
    return _ORDER.index(rest[2] if folder == "artifacts" else folder)
