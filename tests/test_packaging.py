"""pyproject.toml lists every package of the tree and every data file that the code reads."""

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDERS = ("tercet", "flows", "tasks", "models", "storage", "recipes")


def setuptools() -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    found: dict[str, Any] = settings["setuptools"]
    return found


def test_every_folder_with_modules_is_a_package() -> None:
    there = {
        ".".join(["tercet", *path.parent.relative_to(ROOT).parts]).replace(
            "tercet.tercet", "tercet"
        )
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
    }
    assert sorted(there) == sorted(setuptools()["packages"])
    for package in there:
        folder = _folder(package)
        assert (folder / "__init__.py").is_file(), f"{folder} has no __init__.py"


def test_the_data_files_are_packaged_and_no_pattern_is_idle() -> None:
    """A file beside the modules that no pattern finds would be missing from the wheel."""
    found: set[Path] = set()
    for package, patterns in setuptools()["package-data"].items():
        for pattern in patterns:
            files = set(_folder(package).glob(pattern))
            assert files, f"{package} has no {pattern}"
            found |= files
    there = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert {path for path in there if path.suffix not in (".py", ".pyc")} <= found


def test_a_commit_is_checked_with_the_pinned_ruff() -> None:
    (hook,) = re.findall(r"ruff-pre-commit\n +rev: v(\S+)", _text(".pre-commit-config.yaml"))
    assert f"\nruff=={hook}\n" in _text("constraints.txt")


def _folder(package: str) -> Path:
    """Where its modules lie: those of `tercet` itself in the folder of that name."""
    return ROOT.joinpath(*(package.split(".")[1:] or ["tercet"]))


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
