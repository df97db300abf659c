"""`make` looks at Python's version before it installs anything."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = "{}.{}".format(*sys.version_info)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def stand_in(path: Path, version: tuple[int, int]) -> Path:
    """An interpreter that says it is of this version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = "Python {}.{}.0".format(*version)
    patched = f"import sys; sys.version_info = {version}; exec(sys.argv[1])"
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo {answer} && exit\n'
        f'[ "$1" = -c ] && exec {sys.executable} -c "{patched}" "$2"\nexit 9\n'
    )
    path.chmod(0o755)
    return path


def make(clone: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """`make setup`, whose pip finds nothing to install."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    inherited.pop("PYTHON", None)
    return subprocess.run(
        ["make", "setup"],
        cwd=clone,
        env={**inherited, "PIP_NO_INDEX": "1", **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


def version_of(clone: Path) -> str:
    asked = [clone / ".venv/bin/python", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("version", [(3, 10), (3, 14)])
def test_a_stand_in_for_another_version_is_refused_in_one_sentence(
    version: tuple[int, int], clone: Path
) -> None:
    named = "{}.{}".format(*version)
    python = stand_in(clone / f"python{named}", version)
    done = make(clone, PYTHON=str(python))
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert f"{python} is Python {named}.0" in line
    assert not (clone / ".venv").exists()


def test_an_environment_of_a_stand_in_for_another_version_is_made_anew(clone: Path) -> None:
    stand_in(clone / ".venv/bin/python", (3, 10))
    (clone / ".venv/.ready").touch()
    # Nobody asked for another: what is there is used.
    assert make(clone).returncode == 0
    assert version_of(clone) == "3.10"
    make(clone, PYTHON=sys.executable)
    assert version_of(clone) == OURS
    assert not (clone / ".venv/.ready").exists()  # pip had nothing to install from


def test_an_environment_of_the_version_asked_for_stays(clone: Path) -> None:
    stand_in(clone / ".venv/bin/python", sys.version_info[:2])
    (clone / ".venv/.ready").touch()
    assert make(clone, PYTHON=sys.executable).returncode == 0
    assert (clone / ".venv/.ready").exists()
