"""The tree has no circle of imports, and pyproject.toml lists all packages and data files."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import networkx as nx

ROOT = Path(__file__).parents[1]
FOLDERS = ("tercet", "flows", "tasks", "models", "storage", "recipes")


def imports(tree: ast.Module) -> set[str]:
    """Dotted names of the modules, or of the names in them, that a module imports anywhere.

    What a registry lists may look another name up there, inside a function.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = str(node.module)
            if not node.col_offset or not module.endswith(".registry"):
                names |= {f"{module}.{alias.name}" for alias in node.names}
    return names


def test_no_import_circle() -> None:
    """An import inside a function or under TYPE_CHECKING only hides one."""
    modules = {
        "tercet." + ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for folder in FOLDERS[1:-1]
        for path in (ROOT / folder).rglob("*.py")
    }
    graph = nx.DiGraph()
    for module, path in modules.items():
        for name in imports(ast.parse(path.read_bytes())):
            imported = name if name in modules else name.rpartition(".")[0]
            if imported in modules:
                graph.add_edge(module, imported)
    parts = nx.strongly_connected_components(graph)
    assert [sorted(part) for part in parts if len(part) > 1] == []


def setuptools() -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    section: dict[str, Any] = settings["setuptools"]
    return section


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
    packaged: set[Path] = set()
    for package, patterns in setuptools()["package-data"].items():
        for pattern in patterns:
            files = set(_folder(package).glob(pattern))
            assert files, f"{package} has no {pattern}"
            packaged |= files
    there = {path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()}
    assert {path for path in there if path.suffix not in (".py", ".pyc")} <= packaged


def test_a_commit_is_checked_with_the_pinned_ruff() -> None:
    (hook,) = re.findall(
        r"ruff-pre-commit\n +rev: v(\S+)", (ROOT / ".pre-commit-config.yaml").read_text()
    )
    assert f"\nruff=={hook}\n" in (ROOT / "constraints.txt").read_text()


def _folder(package: str) -> Path:
    """Where its modules lie: those of `tercet` itself in the folder of that name."""
    return ROOT.joinpath(*(package.split(".")[1:] or ["tercet"]))
