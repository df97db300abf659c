"""Canonical form and digests."""

import enum
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tercet.storage import fingerprint
from tercet.storage.store import open_store

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False).filter(lambda number: abs(number) != float("inf")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def literal(value: Any) -> str:
    """Canonical JSON, written out by hand."""
    if isinstance(value, dict):
        pairs = (f"{literal(key)}:{literal(value[key])}" for key in sorted(value))
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(literal, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


@given(VALUES)
def test_canonical_is_the_literal_form(value: Any) -> None:
    assert fingerprint.canonical(value) == literal(value).encode("utf-8", "surrogatepass")
    assert json.loads(fingerprint.canonical(value)) == value


class Colour(enum.Enum):
    RED = "red"


class Inner(BaseModel):
    names: set[str] = {"b", "a", "c"}
    colour: Colour = Colour.RED


class Outer(BaseModel):
    inner: Inner = Inner()
    share: float = 1
    place: Path = Path("a/b")


def test_models_sets_paths_and_numpy() -> None:
    expected = b'{"inner":{"colour":"red","names":["a","b","c"]},"place":"a/b","share":1.0}'
    assert fingerprint.canonical(Outer(share=1.0)) == expected
    assert fingerprint.canonical([np.int64(3), np.float64(0.1), (1, 2)]) == b"[3,0.1,[1,2]]"


def test_what_has_no_form() -> None:
    for bad in (float("nan"), float("inf"), {"a": [float("-inf")]}):
        with pytest.raises(ValueError, match="Out of range float"):
            fingerprint.canonical(bad)
    for without_form in ({"a": object()}, {1: 2, "1": 3}):
        with pytest.raises(TypeError):
            fingerprint.canonical(without_form)


def test_the_digest_is_fixed_and_the_same_in_another_process() -> None:
    value = {"b": [1, 1.0, "é", None], "a": {"x", "y", "z"}}
    assert fingerprint.digest(value) == "bf6195b70cf38230"
    program = (
        "from tercet.storage import fingerprint;"
        "print(fingerprint.digest({'a': {'z', 'y', 'x'}, 'b': [1, 1.0, 'é', None]}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.strip() == fingerprint.digest(value)


def test_a_file_is_read_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path / "store"))
    path = tmp_path / "weights.bin"
    path.write_bytes(b"one")
    os.utime(path, (1_000_000, 1_000_000))
    monkeypatch.setattr(fingerprint, "SETTLED_SECONDS", 0.05)
    time.sleep(0.1)
    first = fingerprint.file_digest(path, store)
    assert first == fingerprint.file_digest(path) == fingerprint.file_digest(path, store)
    assert len(store.list("cache/files")) == 1
    monkeypatch.setattr(fingerprint, "SETTLED_SECONDS", 3600.0)
    path.write_bytes(b"two")
    assert fingerprint.file_digest(path, store) != first
    # Rewritten in place, of equal size, with its old time: the same inode says so by its own time.
    os.utime(path, (1_000_000, 1_000_000))
    assert fingerprint.file_digest(path, store) == fingerprint.file_digest(path) != first
    # Too fresh to be remembered: a second change within the clock's grain would go unseen.
    assert len(store.list("cache/files")) == 1


def test_a_tree_is_its_names_and_contents(tmp_path: Path) -> None:
    def tree(name: str, files: dict[str, str]) -> str:
        for place, text in files.items():
            path = tmp_path / name / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return fingerprint.tree_digest(tmp_path / name)

    one = tree("one", {"config.json": "{}", "1_Pooling/config.json": "{}"})
    assert tree("two", {"1_Pooling/config.json": "{}", "config.json": "{}"}) == one
    assert tree("hidden", {"1_Pooling/config.json": "{}", "config.json": "{}", ".x": ""}) == one
    assert tree("renamed", {"2_Pooling/config.json": "{}", "config.json": "{}"}) != one
    assert tree("changed", {"1_Pooling/config.json": "[]", "config.json": "{}"}) != one
    more = tree("more", {"1_Pooling/config.json": "{}", "config.json": "{}", "README.md": "x"})
    assert more != one
    assert fingerprint.tree_digest(tmp_path / "more", patterns=["*.json"]) == one
    (tmp_path / "links").symlink_to(tmp_path / "one", target_is_directory=True)
    assert fingerprint.tree_digest(tmp_path / "links") == one
    for place in ("again", "1_Pooling/up", "1_Pooling/round"):
        (tmp_path / "two" / place).symlink_to(tmp_path / "two", target_is_directory=True)
    assert fingerprint.tree_digest(tmp_path / "two") == one
    with pytest.raises(FileNotFoundError, match="absent"):
        fingerprint.tree_digest(tmp_path / "absent")
