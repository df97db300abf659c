"""This machine's time zone by its name in the tz database, which schedules are written in."""

import os
import zoneinfo
from collections.abc import Iterator
from pathlib import Path

from tercet.tasks.stage import BadInput

LOCALTIME = Path("/etc/localtime")
NAMED = Path("/etc/timezone")
_FOLDER = "zoneinfo/"
# In the database of some systems: what this machine happens to use.
_NO_NAMES = ("localtime", "posixrules")


def of_machine() -> str:
    """As the C library finds it: by TZ, else by /etc/localtime; UTC where there is neither.

    Raises: BadInput where it has no name, as a POSIX rule has none, asking for one.
    """
    said = os.environ.get("TZ")
    if said is None:
        if not os.path.lexists(LOCALTIME):
            return "UTC"
        return _of_file(LOCALTIME) or _asked(f"that {LOCALTIME} describes")
    name = said.removeprefix(":")
    if not name:
        return "UTC"
    found = name if is_zone(name) else _of_file(Path(name))
    return found or _asked(f"that TZ={said!r} describes")


def is_zone(name: str) -> bool:
    """Whether the database has a zone of this name."""
    if name in _NO_NAMES:
        return False
    try:
        zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def _of_file(path: Path) -> str | None:
    """The zone of a file of the database, of a link to one, be it there or not, or of a copy."""
    for place in (str(path), os.path.realpath(path)):
        # Copies with and without leap seconds lie in folders of their own.
        name = place.rpartition(_FOLDER)[2].removeprefix("posix/").removeprefix("right/")
        if is_zone(name):
            return name
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return next((name for name in _likely() if content in set(_contents(name))), None)


def _likely() -> Iterator[str]:
    """Names of zones: what the machine is said to be in, then the usual ones, then all."""
    if NAMED.is_file():
        yield NAMED.read_text(encoding="utf-8", errors="replace").strip()
    for folder in zoneinfo.TZPATH:
        table = Path(folder, "zone1970.tab")
        if table.is_file():
            rows = table.read_text(encoding="utf-8").splitlines()
            yield from (row.split("\t")[2] for row in rows if not row.startswith("#"))
    yield from sorted(zoneinfo.available_timezones())


def _contents(name: str) -> Iterator[bytes]:
    for folder in zoneinfo.TZPATH:
        file = Path(folder, name)
        if is_zone(name) and file.is_file():
            yield file.read_bytes()


def _asked(which: str) -> str:
    raise BadInput(
        f"The time zone {which} has no name that a schedule could use: give one with --timezone, "
        "such as --timezone Europe/Berlin."
    )
