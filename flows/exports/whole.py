"""A directory that takes its name once it is written whole."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tercet.storage.store import clear_errors
from tercet.tasks.stage import BadInput


def check_free(target: Path) -> None:
    """Raises BadInput where something is there already, but for an empty directory."""
    with clear_errors(target):
        if target.is_dir():
            if any(target.iterdir()):
                raise BadInput(f"{target} exists and is not empty: name a directory that does not.")
        elif target.exists() or target.is_symlink():
            raise BadInput(f"{target} is a file: name a directory that does not exist yet.")


@contextmanager
def whole_directory(target: Path) -> Iterator[Path]:
    """A directory beside the target to write into; it becomes the target when the block ends well.

    Raises: BadInput for a target that is taken, StoreError for a disk that takes none.
    """
    check_free(target)
    # `.` and a link have no place beside them; what they mean has.
    place = target.resolve()
    aside = place.parent / f".{place.name}-{uuid.uuid4().hex[:8]}.writing"
    try:
        with clear_errors(target):
            place.parent.mkdir(parents=True, exist_ok=True)
            aside.mkdir()
            yield aside
            # Takes the place of an empty directory, and fails on one that was filled meanwhile.
            aside.rename(place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
