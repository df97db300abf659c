"""No circle of imports, which an import inside a function or under TYPE_CHECKING only hides."""

import ast
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[1]
FOLDERS = ("flows", "tasks", "models", "storage")


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
    modules = {
        "tercet." + ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for folder in FOLDERS
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


def test_helpers_are_no_tests() -> None:
    helpers = (ROOT / "tests" / "support").glob("*.py")
    assert [path.name for path in helpers if path.name.startswith("test_")] == []
