"""Code digests: what changes them, and what does not."""

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

import pyarrow as pa
import pytest

from tercet.models.config import Config
from tercet.models.losses.loss import Loss
from tercet.storage import code
from tercet.storage.store import open_store

HERE = Path(code.__file__)

FROZEN = '''
"""Doc."""
from __future__ import annotations
import typing as t
X: int = -1_000
Y = 0.1 + 1e300 + 3j
Z = (None, True, ..., b"\\xff", "é" "x", u"u")
DATA = {**{}, "a": [i for i in range(3) if i], "s": {1, 2}}
@t.final
class A(dict):
    """Doc."""
    a: int = 3
    def f(self, x, /, y=1, *z, k, kk=None, **kw) -> "A":
        async def g():
            async with a as b, c: await x
        if (n := 10) > 5 <= 6 and not n or ~n: pass
        elif n: return f"{x!r:>{n}} {{}} {n=} {x:}" f"{n:.2f}" "tail" ""
        try: ...
        except* (ValueError, KeyError) as e: del e
        with (open("a") as f, open("b")): x @= 1
        lam = lambda *a, b=1, **k: (yield)
        return x[1:2, ..., ::3] if x else {**x}
    def h(self):
        "only doc"
        match x:
            case {"a": 1, **rest} if rest: pass
            case [1, *_, -1.5] | A(a=3) | None as q: pass
'''
FROZEN_DIGEST = "6c53f9441a67b15d"


def _digest_of(text: str) -> str:
    return hashlib.sha256(code.canonical_code(ast.parse(text)).encode()).hexdigest()[:16]


def test_a_frozen_text_has_its_frozen_digest() -> None:
    assert _digest_of(FROZEN) == FROZEN_DIGEST


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_frozen_digest_under_other_pythons(version: str, tmp_path: Path) -> None:
    python = shutil.which(f"python{version}")
    probe = [python or "python", "-c", "import sys; print(sys.version)"]
    if python is None or subprocess.run(probe, capture_output=True).returncode:
        pytest.skip(f"there is no Python {version} here")
    # Only the walk is of interest: the package's other modules need libraries.
    names = tmp_path / "tercet" / "storage"
    names.mkdir(parents=True)
    taken = {
        "fingerprint": ("DIGEST_LENGTH", "SETTLED_SECONDS", "file_digest"),
        "store": ("Store", "StoreError", "json_bytes"),
    }
    for module, all_of_it in taken.items():
        (names / f"{module}.py").write_text(" = ".join(all_of_it) + " = object\n")
    shutil.copy(HERE, names / "code.py")
    program = (
        "import ast, hashlib, sys; from tercet.storage import code;"
        "text = code.canonical_code(ast.parse(sys.stdin.buffer.read().decode()));"
        "print(hashlib.sha256(text.encode()).hexdigest()[:16])"
    )
    done = subprocess.run(
        [python, "-c", program],
        input=FROZEN.encode(),
        capture_output=True,
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        check=True,
    )
    assert done.stdout.decode().strip() == FROZEN_DIGEST


SAME = [
    ("x = 1", "x = 1  # why"),
    ("x = 'a' 'b'", 'x = (\n    "ab"\n)'),
    ("def f():\n    '''Doc.'''\n    return 1", "def f():\n    return 1"),
    ("class A:\n    '''Doc.'''", "class A:\n    pass"),
    ("class A:\n    x: int = 1\n    '''Doc of x.'''", "class A:\n    x: int = 1"),
    ("x = f'{a:}b' 'c'", "x = f'{a}bc'"),
    ("x = 1_000", "x = 1000"),
    ("f(a,\n  b)", "f(a, b,)"),
]
DIFFERENT = [
    ("x = 1", "x = 2"),
    ("x = 1", "x = 1.0"),
    ("x = 1", "x = True"),
    ("x = '1'", "x = b'1'"),
    ("x = 'a'", "x = 'b'"),
    ("f(a)", "f(a, b)"),
    ("def f(a): return a", "def f(b): return b"),
    ("def f(*, a, b=1): return a", "def f(*, a=1, b): return a"),
    ("x = [a, b]", "x = [a], b"),
    ("x = [None]", "x = []"),
    ("x: int", "x: str"),
    ("if a:\n    b\nelse:\n    c", "if a:\n    b\nc"),
    ("x = f'{a!r}'", "x = f'{a!s}'"),
    ("x = 'ab', 'c'", "x = 'a', 'bc'"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_no_effect_no_change(one: str, other: str) -> None:
    assert code.canonical_code(ast.parse(one)) == code.canonical_code(ast.parse(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_every_effect_is_a_change(one: str, other: str) -> None:
    assert code.canonical_code(ast.parse(one)) != code.canonical_code(ast.parse(other))


FILES = {
    "__init__.py": "raise RuntimeError('executed')",
    "tasks/__init__.py": "raise RuntimeError('executed')",
    "tasks/one.py": "import os\nfrom shop.models import helper\nraise RuntimeError('executed')",
    "tasks/two.py": "def f():\n    from .. import models\n    from ..models.deep.leaf import x\n",
    "tasks/three.py": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
        "    from shop.models import helper\n"
        "from shop.models import listing, named\nfrom shop.flows import outside\n"
    ),
    "flows/__init__.py": "",
    "flows/outside.py": "import shop.models.helper",
    "models/__init__.py": "",
    "models/helper.py": "from . import far\nDATA_FILES = ('words.tsv',)",
    "models/words.tsv": "a\tb\n",
    "models/far.py": "import shop.tasks.one  # a circle",
    "models/named.py": "",
    "models/listing.py": "from shop.models import far\nUNVERSIONED = True\n",
    "models/deep/__init__.py": "",
    "models/deep/leaf.py": "x = 1",
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "shop"


def _digests(stage: str) -> dict[str, str]:
    found = code.code_digests([f"shop.tasks.{stage}"], within=("shop.tasks", "shop.models"))
    assert not any(name.startswith("shop") for name in sys.modules)
    return found


def test_what_a_module_imports(shop: Path) -> None:
    models = {"shop.models", "shop.models.helper", "shop.models.far"}
    assert set(_digests("one")) == {"shop.tasks", "shop.tasks.one"} | models
    deep = {"shop.models", "shop.models.deep", "shop.models.deep.leaf"}
    assert set(_digests("two")) == {"shop.tasks", "shop.tasks.two"} | deep
    named = {"shop.models", "shop.models.named"}
    assert set(_digests("three")) == {"shop.tasks", "shop.tasks.three"} | named


def test_a_change_reaches_exactly_those_who_import_it(shop: Path) -> None:
    before = {stage: _digests(stage) for stage in ("one", "two", "three")}
    (shop / "models/helper.py").write_text("from . import far\nDATA_FILES = ['words.tsv']\ny = 2")
    assert _digests("one") != before["one"]
    changed = {name for name, found in _digests("one").items() if found != before["one"][name]}
    assert changed == {"shop.models.helper"}
    assert {stage: _digests(stage) for stage in ("two", "three")} == {
        stage: before[stage] for stage in ("two", "three")
    }


PROGRAM = """
import ast, json, sys
from tercet.storage import code
from tercet.storage.store import open_store
place, shop, settled = sys.argv[1:]
sys.path.insert(0, shop)
parse, parsed = ast.parse, []
ast.parse = lambda source, *more: parsed.append(source) or parse(source, *more)
code.SETTLED_SECONDS = float(settled)
with code.remembered(open_store(place)):
    found = code.code_digests(["shop.tasks.one"], within=("shop.tasks", "shop.models"))
print(json.dumps([found, len(parsed)]))
"""


def test_only_what_has_changed_is_parsed_again_by_another_process(
    shop: Path, tmp_path: Path
) -> None:
    place = tmp_path / "store"
    open_store(str(place))

    def in_a_new_process(settled: float = 0.0) -> tuple[dict[str, str], int]:
        command = [sys.executable, "-c", PROGRAM, str(place), str(tmp_path), str(settled)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found, parsed = json.loads(done.stdout)
        return found, parsed

    # Of what has just been written nothing is remembered.
    for settled in (3600.0, 0.0):
        first, parsed = in_a_new_process(settled)
        assert parsed == len(first)
    assert in_a_new_process() == (first, 0)
    (shop / "models/far.py").write_text("x = 2")
    second, parsed = in_a_new_process()
    assert (second != first, parsed) == (True, 1)
    (shop / "models/words.tsv").write_text("c\td\n")
    third, parsed = in_a_new_process()
    assert (third != second, parsed) == (True, 1)
    for damage in ("{", '{"a": 1}'):
        (place / code.PARSED).write_text(damage)
        assert in_a_new_process()[0] == third


def test_the_modules_of_an_object_are_those_of_its_functions_and_classes() -> None:
    resolve = partial(code.declared, None)
    loss = Loss("l", Config, "m:f", labels={"label": pa.float32()}, resolve=resolve)
    assert code.modules_of(loss) == {Config.__module__, code.__name__}
    assert code.modules_of((loss, len, 3, "os", Path)) == code.modules_of(loss)


class _Called:
    """An object whose instances and methods are called like functions."""

    def __call__(self) -> None: ...

    def run(self) -> None: ...


@cache
def _cached() -> None: ...


def test_what_is_called_is_declared_by_a_name() -> None:
    name = f"{__name__}._Called"
    assert code.declared(_Called()) == name
    assert code.declared((_Called().run, partial(_cached))) == [
        f"{name}.run",
        [f"{__name__}._cached", [], {}],
    ]


def test_a_data_file_is_part_of_its_module(shop: Path) -> None:
    before = _digests("one")
    (shop / "models/words.tsv").write_text("a\tc\n")
    changed = {name for name, found in _digests("one").items() if found != before[name]}
    assert changed == {"shop.models.helper"}
    (shop / "models/words.tsv").unlink()
    with pytest.raises(ValueError, match=r"words\.tsv"):
        _digests("one")


def test_what_cannot_be_read(shop: Path) -> None:
    with pytest.raises(ValueError, match=r"shop\.tasks\.absent"):
        code.code_digests(["shop.tasks.absent"])
    (shop / "tasks/one.py").write_text("def")
    with pytest.raises(ValueError, match=r"one\.py"):
        _digests("one")


def test_our_own_package_is_found_without_running_it() -> None:
    program = (
        "import sys; from tercet.storage.code import code_digests;"
        "found = code_digests(['tercet.tasks.rejects']);"
        "assert 'tercet.tasks' in found, found;"
        "assert 'tercet.tasks' not in sys.modules and 'pyarrow' not in sys.modules;"
        "assert not any(name.startswith('tercet.storage') for name in found)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_passing_fault_of_the_parser_is_tried_again(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, faults = _digests("two"), [SystemError("mismatch")] * 2
    parse = ast.parse

    def faulty(source: bytes) -> ast.Module:
        if faults:
            raise faults.pop()
        return parse(source)

    monkeypatch.setattr(ast, "parse", faulty)
    # Not as it was parsed before.
    with (shop / "tasks/two.py").open("a") as file:
        file.write("# why")
    assert _digests("two") == found
    assert faults == []
