"""Copies all of a store into another: from a directory into a bucket, and back."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tercet.storage.answers import POOL, seal_left
from tercet.storage.objects import Folder
from tercet.storage.store import Store, StoreError, clear_errors, is_own, unfinished

# In this order, so that a copy that was stopped says of nothing that it is there which is not.
_ORDER = ("schemas", POOL, "data", "files", "_parts", "plan.json", "parts.json", "manifest.json")
_LATER = ("keys", "rounds", "runs", "tags")


def copy(source: Store, target: Store) -> dict[str, int]:
    """Copies what the target lacks or has otherwise; returns bytes by path.

    Answers that are in no file yet stay where they are, if their process lives. Repeated after it
    was stopped, it goes on. Raises StoreError for a target with runs of its own.
    """
    others = sorted(set(target.list("runs")) - set(source.list("runs")))
    if others:
        raise StoreError(
            "exists",
            f"{target.location} has runs of its own ({others[0]}): name a new place, or a copy of "
            f"{source.location}.",
        )
    seal_left(source)
    # What is claimed to exist was there before it was listed again.
    claims, data, there = source.stats(""), source.stats(""), target.stats("")
    wanted = {path: _rank(path) for path in {*claims, *data} if _is_copied(path)}
    kept = {path: rank for path, rank in wanted.items() if path in (claims if rank > 3 else data)}
    sizes: dict[str, int] = {}
    many = target if isinstance(source.objects, Folder) else source
    scratch = target.work / "scratch"
    scratch.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=scratch) as aside:

        def put(path: str) -> int:
            if path.endswith(".json"):
                return _put_record(source, target, path, path in there)
            # Under its name there never was another content.
            if path in there and there[path].bytes == data[path].bytes:
                return 0
            return _put_file(source, target, path, Path(aside))

        for rank in sorted(set(kept.values())):
            paths = sorted(path for path, own in kept.items() if own == rank)
            sizes |= zip(paths, many.each(put, paths), strict=True)
    return {path: size for path, size in sizes.items() if size}


def _put_record(source: Store, target: Store, path: str, is_there: bool) -> int:
    """Copies a small object; returns the bytes that were put, none if it is there already."""
    text = source.get(path)
    if text is None:
        raise _gone(source, path)
    if is_there and target.get(path) == text:
        return 0
    target.replace(path, text)
    return len(text)


def _put_file(source: Store, target: Store, path: str, aside: Path) -> int:
    """Copies a file, by way of the folder `aside` if it is not at hand."""
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
        # A training's newest checkpoint, which it replaces and removes meanwhile.
        and path.split("/")[3:5] != ["files", "checkpoint"]
    )


def _rank(path: str) -> int:
    folder, *rest = path.split("/")
    if folder in _LATER:
        return len(_ORDER) + _LATER.index(folder)
    return _ORDER.index(rest[2] if folder == "artifacts" else folder)
