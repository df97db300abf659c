"""Digests of modules' code, computed without importing them.

A module's digest covers its syntax tree without comments, docstrings, positions and layout, and
the files named in its ``DATA_FILES``. It is the same under every Python version: the walk skips
empty fields, which new versions add, and writes constants itself.

A module that sets ``UNVERSIONED = True`` only lists or declares what others compute. It is left
out, and so are modules that only it imports.
"""

import ast
import hashlib
import inspect
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from tercet.storage.fingerprint import DIGEST_LENGTH, SETTLED_SECONDS, file_digest
from tercet.storage.store import Store, StoreError, json_bytes

_NO_EFFECT = {"ctx", "kind", "type_comment", "type_ignores"}
DATA_FILES = "DATA_FILES"
UNVERSIONED = "UNVERSIONED"
PARSING_TRIES = 5
PARSED = "cache/code/parsed.json"

# Path, size, and the times of content and inode in nanoseconds.
Stamp = tuple[str, int, int, int]


@dataclass(frozen=True)
class _Module:
    """The digest of one source file ("" if it is unversioned), and the modules that it may import.

    settled: the file was old enough when it was read that any later change shows in its stamp.
    """

    stamps: tuple[Stamp, ...]
    digest: str
    imports: tuple[str, ...]
    settled: bool = True


_parsed_modules: dict[tuple[str, Path], _Module] = {}


@contextmanager
def remembered(store: Store) -> Iterator[None]:
    """Within the block, only files that have changed since an earlier process are parsed.

    The results are kept in the store's work directory, which need not be writable.
    """
    # Results of another version of this module do not count.
    by = file_digest(Path(__file__))
    # Ignore a file that cannot be read or has another form.
    with suppress(StoreError, KeyError, TypeError, ValueError):
        cache: Any = store.near.get_json(PARSED)
        for name, path, module in cache["modules"] if cache and cache["by"] == by else ():
            stamps = tuple((file, *numbers) for file, *numbers in module["stamps"])
            parsed = _Module(stamps, module["digest"], tuple(module["imports"]))
            _parsed_modules.setdefault((name, Path(path)), parsed)
    before = dict(_parsed_modules)
    yield
    if _parsed_modules != before:
        modules = [
            (name, str(path), asdict(module))
            for (name, path), module in _parsed_modules.items()
            if module.settled
        ]
        with suppress(StoreError):
            store.near.replace(PARSED, json_bytes({"by": by, "modules": modules}))


def code_digests(
    modules: Sequence[str],
    within: Sequence[str] = ("tercet.tasks", "tercet.models"),
    apart: Sequence[str] = (),
) -> dict[str, str]:
    """Digests of these modules and of all modules under `within` that they import, directly or not.

    apart: packages that are left out, with the modules that only they import.

    Imports inside functions, relative imports and parent packages count; imports under ``if
    TYPE_CHECKING`` and unversioned modules do not. Raises ValueError if one of `modules` does not
    exist, does not parse or names a missing data file.
    """
    digests: dict[str, str] = {}
    seen: set[str] = set()
    waiting = list(modules)
    for name in modules:
        if _locate(name) is None:
            raise ValueError(f"There is no module {name}.")
    while waiting:
        name = waiting.pop()
        path = None if name in seen else _locate(name)
        seen.add(name)
        if path is None:
            continue
        module = _read(name, path)
        if not module.digest:
            continue
        digests[name] = module.digest
        parents = [name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)]
        for imported in (*module.imports, *parents):
            if _is_within(imported, within) and not _is_within(imported, apart):
                waiting.append(imported)
    return dict(sorted(digests.items()))


def _is_within(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def modules_of(value: object) -> set[str]:
    """The modules of the functions and classes in an object: a function, a class, a dataclass
    instance, or a collection of these.
    """
    if inspect.isfunction(value) or inspect.isclass(value):
        top = value.__module__.partition(".")[0]
        return set() if top in sys.stdlib_module_names else {value.__module__}
    held: Sequence[object] = ()
    if isinstance(value, partial):
        held = (value.func, *value.args, *value.keywords.values())
    elif is_dataclass(value):
        held = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, Mapping):
        held = list(value.values())
    elif isinstance(value, tuple | list):
        held = value
    return {name for member in held for name in modules_of(member)}


def declared(value: object) -> Any:
    """An object as JSON values; functions and classes become their names."""
    if isinstance(value, partial):
        return [declared(part) for part in (value.func, value.args, value.keywords)]
    if inspect.isfunction(value) or inspect.isclass(value):
        return f"{value.__module__}.{value.__qualname__}"
    if is_dataclass(value):
        return {field.name: declared(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): declared(member) for key, member in value.items()}
    if isinstance(value, tuple | list):
        return [declared(member) for member in value]
    if callable(value):
        # The function behind a method or a cache; else the object's class.
        wrapped = getattr(value, "__func__", getattr(value, "__wrapped__", type(value)))
        return declared(wrapped)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _locate(name: str) -> Path | None:
    """The module's source file; None if it is not a module or has no source."""
    spec: ModuleSpec | None = None
    places: Sequence[str] | None = None
    parts = name.split(".")
    # Imported packages know their places without the finders.
    above = [".".join(parts[:depth]) for depth in range(len(parts))]
    start = max(depth for depth, one in enumerate(above) if not depth or _imported(one))
    if start:
        places = _imported(above[start])
    for depth in range(start + 1, len(parts) + 1):
        spec = _spec(".".join(parts[:depth]), places)
        if spec is None:
            return None
        places = spec.submodule_search_locations
        if places is None and depth < len(parts):
            return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _imported(package: str) -> Sequence[str] | None:
    """The directories of a package that is imported."""
    return list(getattr(sys.modules.get(package), "__path__", ())) or None


def _spec(name: str, places: Sequence[str] | None) -> ModuleSpec | None:
    """Like `importlib.util.find_spec`, but without importing the parents."""
    if places is not None:
        leaf = name.rpartition(".")[2]
        for place in places:
            for path in (Path(place, leaf, "__init__.py"), Path(place, f"{leaf}.py")):
                if path.is_file():
                    spec = ModuleSpec(name, None, origin=str(path))
                    spec.submodule_search_locations = (
                        [str(path.parent)] if path.name == "__init__.py" else None
                    )
                    return spec
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        result: ModuleSpec | None = None if find is None else find(name, places)
        if result is not None:
            return result
    return None


def _read(name: str, path: Path) -> _Module:
    parsed = _parsed_modules.get((name, path))
    if parsed is not None and all(_stamp(Path(stamp[0])) == stamp for stamp in parsed.stamps):
        return parsed
    stamp = _stamp(path)
    source = path.read_bytes()
    try:
        tree = _parsed(source)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as Python: {error}.") from error
    parts = [canonical_code(tree)]
    stamps = [stamp]
    for data in _assigned(tree, DATA_FILES) or ():
        file = path.parent / data
        if not file.is_file():
            raise ValueError(f"{path} names a missing data file: {data}.")
        stamps.append(_stamp(file))
        parts.append(f"{data}:{file_digest(file)}")
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    hexdigest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    digest = "" if _assigned(tree, UNVERSIONED) else hexdigest[:DIGEST_LENGTH]
    lately = (time.time() - SETTLED_SECONDS) * 1e9
    settled = all(max(times) < lately for _, _, *times in stamps)
    module = _Module(tuple(stamps), digest, tuple(_imports(tree, package)), settled)
    _parsed_modules[name, path] = module
    return module


def _parsed(source: bytes) -> ast.Module:
    """The syntax tree, without the warnings that importing the module would give."""
    for _ in range(PARSING_TRIES - 1):
        # In a busy process Python 3.11 sometimes raises "AST constructor recursion depth mismatch"
        # (gh-106905); the next try succeeds.
        with suppress(SystemError):
            return _tree(source)
    return _tree(source)


def _tree(source: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _stamp(path: Path) -> Stamp:
    try:
        stat = path.stat()
    except OSError:
        return (str(path), -1, -1, -1)
    return (str(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


def canonical_code(tree: ast.AST) -> str:
    """The tree as text, unaffected by comments, docstrings and layout."""
    out: list[str] = []
    _write(tree, out)
    return "".join(out)


def _write(value: object, out: list[str]) -> None:
    if isinstance(value, ast.Constant):
        out.append(_constant(value.value))
    elif isinstance(value, ast.AST):
        out.append(f"({type(value).__name__}")
        for name in value._fields:
            field = getattr(value, name, None)
            if name in _NO_EFFECT or field is None:
                continue
            if name == "format_spec" and not _merged(field.values):
                continue
            if isinstance(field, list):
                field = _effective(value, name, field)
                if not field:
                    continue
            out.append(f" {name}=")
            _write(field, out)
        out.append(")")
    elif isinstance(value, list):
        out.append("[")
        for member in value:
            _write(member, out)
            out.append(",")
        out.append("]")
    else:
        out.append(_constant(value))


def _effective(node: ast.AST, name: str, members: list[object]) -> list[object]:
    """The list without docstrings and `pass` in bodies, and with f-string pieces joined."""
    if isinstance(node, ast.JoinedStr):
        return _merged(members)
    if name in {"body", "orelse", "finalbody"}:
        return [member for member in members if not _idle(member)]
    return members


def _idle(statement: object) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _merged(members: list[object]) -> list[object]:
    """Joins adjacent texts of an f-string, which versions of Python split differently."""
    merged: list[object] = []
    for member in members:
        last = merged[-1] if merged else None
        if isinstance(member, ast.Constant) and isinstance(last, ast.Constant):
            merged[-1] = ast.Constant(value=str(last.value) + str(member.value))
        elif not (isinstance(member, ast.Constant) and member.value == ""):
            merged.append(member)
    return merged


def _constant(value: object) -> str:
    if isinstance(value, str):
        return f"str{len(value)}:{value}"
    if isinstance(value, bytes):
        return f"bytes:{value.hex()}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"int:{value:x}"
    return f"{type(value).__name__}:{value!r}"


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    """The dotted names that the module may import, including parent packages."""
    for node in _running(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _prefixes(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: package.count(".") + 2 - node.level]
                base = ".".join([*above, *([base] if base else [])])
            yield from _prefixes(base)
            for alias in node.names:
                yield f"{base}.{alias.name}"


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all statements below it, except those under ``if TYPE_CHECKING``."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, ast.If) and _named(child.test) == "TYPE_CHECKING":
            for other in child.orelse:
                yield from _running(other)
        else:
            yield from _running(child)


def _named(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])


def _assigned(tree: ast.Module, name: str) -> Any:
    """The literal that the module assigns to this name at top level; None without one."""
    for node in tree.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        if any(_named(target) == name for target in targets):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert node.value is not None
            return ast.literal_eval(node.value)
    return None
