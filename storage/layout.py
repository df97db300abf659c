"""What a store's directory holds, by names: whatever is not named here is somebody else's.

File managers, editors and tools that copy or synchronise leave files of their own in every
directory that they come across. The store lists by these names alone, and so passes them over.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

# Of a folder: its own listing, or ANYTHING.
Listing: TypeAlias = Mapping[str, Any]
FILE = "file"
ANYTHING: Listing = {}

# A tool that synchronises calls the other side's copy so, or writes spaces and brackets.
_NAME = r"(?!.*\.sync-conflict-)[A-Za-z0-9_][A-Za-z0-9_.-]*"
_JSON = rf"{_NAME}\.json"
# Written first: a folder without it is no artifact, or no run.
PLAN, START = r"plan\.json", r"start\.json"
# Names by uuid4, as hex.
ANSWERS = "[0-9a-f]" * 32

LAYOUT: Listing = {
    r"store\.json": FILE,
    "artifacts": {
        _NAME: {
            _NAME: {
                PLAN: FILE,
                r"(parts|manifest)\.json": FILE,
                "data": {_NAME: {rf"{_NAME}\.parquet": FILE}},
                "files": ANYTHING,
                "_parts": {r"\d{5,}\.json": FILE},
            }
        }
    },
    "keys": {_NAME: {_JSON: FILE}},
    "runs": {
        r"\d{8}T\d{12}-[0-9a-f]{4}": {
            START: FILE,
            r"(uses|end)\.json": FILE,
            "steps": {_JSON: FILE},
        }
    },
    "responses": {
        rf"{ANSWERS}\.(parquet|writing)": FILE,
        "journal": {rf"{ANSWERS}\.jsonl": FILE},
    },
    "rounds": {_NAME: {_NAME: {r"\d{4,}\.json": FILE}}},
    "tags": {_JSON: FILE},
    "schemas": {rf"{_NAME}\.parquet": FILE},
    "cache": {"bm25": {_NAME: ANYTHING}, _NAME: {_JSON: FILE}},
    # While it is written it lies beside, under a process's name.
    r"catalog\.duckdb|\.catalog-.*|\.probe-.*": FILE,
    "scratch": ANYTHING,
    "locks": ANYTHING,
    "prefect": ANYTHING,
    r"lost\+found": ANYTHING,
}
# The keys that code reads of a record without asking; a bit that flips in one leaves it JSON.
_KEYS = {
    "manifest.json": {"step", "version", "parts", "tables"},
    "start.json": {"run_id", "recipe_name", "recipe", "info", "started"},
    "end.json": {"ended", "info", "state", "steps"},
    "steps": {"step", "recorded"},
    "tags": {"target"},
}
_PART, _PART_FILE = {"index", "key", "tables", "files", "schemas"}, {"path", "bytes", "digest"}
# What a killed process left unfinished has such an ending.
_UNFINISHED = re.compile(r"#\d+$")


def is_record(path: str, value: Any) -> bool:
    """Whether JSON at this path has the keys that are read of it."""
    folder, name = path.split("/")[-2:] if "/" in path else ("", path)
    if name == "parts.json" or folder == "_parts":
        return all(map(_is_part, value if name == "parts.json" else [value]))
    needed = _KEYS.get(name, _KEYS.get(folder, set()))
    return not needed or (isinstance(value, dict) and needed <= value.keys())


def _is_part(record: Any) -> bool:
    if not isinstance(record, dict) or not record.keys() >= _PART:
        return False
    files = [*record["files"], *(file for files in record["tables"].values() for file in files)]
    return all(isinstance(file, dict) and file.keys() >= _PART_FILE for file in files)


def own_names(prefix: str, names: Iterable[tuple[str, bool]]) -> list[str]:
    """Those of the names directly below the prefix that are the store's, sorted.

    names: each with whether it is a folder.
    """
    listing: Listing = LAYOUT
    for part in prefix.split("/"):
        listing = _kind(listing, part) or {}
    kinds = ((name, is_folder, _kind(listing, name)) for name, is_folder in names)
    return sorted(
        name for name, is_folder, kind in kinds if kind is not None and is_folder != (kind == FILE)
    )


def is_own(path: str) -> bool:
    """Whether an object of this path is the store's, or was to be, as its ending `#1` says."""
    kind: Any = LAYOUT
    for part in unfinished(path).split("/"):
        kind = None if kind == FILE else _kind(kind, part)
        if kind is None or kind is ANYTHING:
            return kind is ANYTHING
    return bool(kind == FILE)


def unfinished(path: str) -> str:
    """The path without the ending of what is being written, or was when its process was killed."""
    return _UNFINISHED.sub("", path)


def _kind(listing: Listing, name: str) -> Any:
    """What the listing says of this name: FILE, a folder's listing, or None."""
    return next((kind for form, kind in listing.items() if re.fullmatch(form, name)), None)
