"""What other programs leave in directories: of file managers, editors and tools that copy."""

import os
import shutil
from pathlib import Path

SYSTEMS = (".DS_Store", "._start.json", "Thumbs.db", "desktop.ini", "Icon\r", ".directory")
EDITORS = ("#notes#", ".start.json.swp", "start.json~", "4913", "manifest.json.bak")
# `\udce9` is the byte 0xe9, as Python reads it in a file's name.
ODD = ("caf\udce9", "a\nb", "a b%20c", "\x1b[31m.json", "lost+found.txt")
FOLDERS = ("untitled folder", ".git", "@eaDir", "backup (1)")


def strew(root: Path, place: Path) -> set[str]:
    """Leaves such things in a folder of the store at `root`; returns their names in it."""
    left: set[Path] = set()
    before = sorted(place.iterdir())
    for name in (*SYSTEMS, *EDITORS, *ODD):
        path = place / name
        if not path.exists():
            path.write_bytes(b"\x00\x00\x00\x01Bud1")
            left.add(path)
    for name in FOLDERS:
        (place / name / "inner").mkdir(parents=True)
        (place / name / "start.json").write_text("not JSON")
        left.add(place / name)
    for name, target in (("nowhere", "gone"), ("circle", "circle"), ("again", ".")):
        if not _is_a_name(root, place):
            (place / name).symlink_to(target)
            left.add(place / name)
    for path in before:
        left |= set(_copies(path))
    return {path.relative_to(root).as_posix() for path in left}


def _is_a_name(root: Path, place: Path) -> bool:
    # There, `again` would be the name of a step, a version, a stage or a key.
    top = place.relative_to(root).parts[:1]
    return top in [(name,) for name in ("artifacts", "keys", "cache", "rounds")]


def _copies(path: Path) -> list[Path]:
    """Copies of a file or folder as tools name them."""
    stem, ending = path.stem, path.suffix
    names = [f"{stem} 2{ending}", f"{stem} (conflicted copy 2026-11-26){ending}",
             f"{stem} - Copy{ending}", f"{stem}.sync-conflict-20261126-101010-ABCDEFG{ending}",
             f"{path.name}.orig"]  # fmt: skip
    if path.is_dir():
        names = names[:3]
        copy = shutil.copytree
    else:
        copy = shutil.copyfile
    for name in names:
        copy(path, path.with_name(name))
    return [path.with_name(name) for name in names]


def own_folders(root: Path) -> list[Path]:
    """The folders of a store in which it lists names."""
    apart = {"scratch", "locks", "prefect", "files"}
    found = [root]
    for place, folders, _ in os.walk(root):
        folders[:] = [name for name in folders if name not in apart]
        found += [Path(place, name) for name in folders]
    return found
