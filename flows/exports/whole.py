"""Atomic writes: files and directories get their names once they are complete."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tercet.storage.store import check_outside, clear_errors
from tercet.tasks.stage import BadInput


def check_file(path: Path, replaces: bool = False) -> None:
    """Raises BadInput if no file can be there, or if one is that is not to be replaced."""
    check_outside(path)
    if path.is_dir():
        raise BadInput(f"{path} is a directory: name a file.")
    if not replaces and (path.exists() or path.is_symlink()):
        raise BadInput(f"{path} exists and was not overwritten: name another file.")
    if not path.parent.is_dir():
        raise BadInput(f"There is no directory {path.parent}: make it, or name another file.")


@contextmanager
def whole_file(path: Path, replaces: bool = False) -> Iterator[IO[bytes]]:
    """A file that gets its name once it is complete.

    replaces: an existing file, which stays until then; else it is refused.

    Raises: BadInput if no file can be there, StoreError if the disk refuses it.
    """
    check_file(path, replaces)
    aside = path.parent / f".{path.name}-{uuid.uuid4().hex[:8]}.writing"
    try:
        with clear_errors(path):
            with aside.open("xb") as sink:
                yield sink
                sink.flush()
                os.fsync(sink.fileno())
            aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def check_free(target: Path) -> None:
    """Raises BadInput if the target exists, unless it is an empty directory, or is in a store."""
    check_outside(target)
    with clear_errors(target):
        if target.is_dir():
            if any(target.iterdir()):
                raise BadInput(f"{target} exists and is not empty: name a directory that does not.")
        elif target.exists() or target.is_symlink():
            raise BadInput(f"{target} is a file: name a directory that does not exist yet.")


@contextmanager
def whole_directory(target: Path) -> Iterator[Path]:
    """A directory beside the target to write into; it becomes the target if the block succeeds.

    Raises: BadInput for an existing target, StoreError if the disk refuses it.
    """
    check_free(target)
    # Resolved first: `.` and links have no usable directory beside them.
    place = target.resolve()
    aside = place.parent / f".{place.name}-{uuid.uuid4().hex[:8]}.writing"
    try:
        with clear_errors(target):
            place.parent.mkdir(parents=True, exist_ok=True)
            aside.mkdir()
            yield aside
            # Replaces an empty directory, and fails if it has been filled in the meantime.
            aside.rename(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
