"""What killed processes left in a store, where it is seen at once; `garbage` finds the rest."""

import re
import shutil
import time
from contextlib import suppress

from tercet.storage import locks
from tercet.storage.store import Store

# Named after the process that writes it: a probe, DuckDB's spill, an index.
_OF_A_PROCESS = re.compile(r"(?:\.probe|sql|bm25)-(\d+)(?:-[0-9a-f]+)?")
# A process of another container or machine has a number that means nobody here.
_UNTOUCHED_SECONDS = 3_600.0


def sweep(store: Store) -> None:
    """Removes what is certainly a dead process's: its locks, and what has its number and was not
    written to for an hour.

    It lists three folders of the work directory, which are short however large the store is.
    """
    locks.sweep(store)
    for folder in (store.work, store.work / "scratch"):
        with suppress(FileNotFoundError):
            for path in folder.iterdir():
                found = _OF_A_PROCESS.fullmatch(path.name)
                if found and not locks.alive(int(found[1])):
                    with suppress(OSError):
                        if path.stat().st_mtime < time.time() - _UNTOUCHED_SECONDS:
                            shutil.rmtree(path) if path.is_dir() else path.unlink()
