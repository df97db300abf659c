"""The command line: wrong words are one sentence and exit code 2, `--debug` shows more."""

import os
import resource
import subprocess
import sys

import pytest
from good_and_bad import Place, sentence
from typer.testing import CliRunner

from tercet.flows.cli import app

USAGE: list[tuple[str, list[str]]] = [
    ("run . --no-server", ["."]),
    ("run nosuch.yaml", ["'nosuch.yaml'", "quickstart"]),
    ("run quickstrat", ["'quickstrat'", "'quickstart'"]),
    ("run good.yaml --limit 0", ["--limit"]),
    ("run good.yaml --no-server --until nosuch", ["--until 'nosuch'", "sentences"]),
    ("run good.yaml --set select.negative_max=-1", ["--set select.negative_max=-1: "]),
    ("run good.yaml --set select", ["--set 'select'"]),
    ("run good.yaml --seed 4294967296", ["--seed 4294967296: "]),
    ("run", ["(tercet run --help)"]),
    ("walk", ["'walk'", "(tercet --help)"]),
    ("plan good.yaml --until trian", ["'trian'", "'train'"]),
    ("plan good.yaml --bogus", ["--bogus", "(tercet plan --help)"]),
    ("try good.yaml --method negations", ["'negation'"]),
    ("ls --run nosuch", ["'nosuch'"]),
    ("ls --store nowhere", ["nowhere"]),
    ("sql SELEC", ["[bad_query]"]),
]


@pytest.mark.parametrize(("typed", "names"), USAGE, ids=[typed for typed, _ in USAGE])
def test_wrong_words(place: Place, typed: str, names: list[str]) -> None:
    words = typed.split()
    more = [] if "--store" in words or not words[1:] else ["--store", str(place.store)]
    message = sentence(place.types(*words, *more), 2)
    assert all(name in message for name in names), message
    place.goes_on()


@pytest.mark.parametrize(
    "words",
    [
        ["init", "notes.txt", "-o", "\udcff.yaml"],
        ["run", "good.yaml", "--corpus", "\udce4/*.txt", "--no-server"],
        ["run", "\udce9.yaml"],
        ["export", "train", "mod\udce8le"],
        ["eval", "\udce9"],
    ],
)
def test_a_word_that_is_not_utf8(place: Place, words: list[str]) -> None:
    before = sorted(place.folder.iterdir())
    assert "\\x" in sentence(place.types(*words), 2)
    assert sorted(place.folder.iterdir()) == before


def test_the_usage_and_the_version_are_shown(place: Place) -> None:
    shown = place.types()
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == place.types("--help").stdout
    assert "..." not in shown.stdout.partition("Commands:")[2]
    assert place.types("--version").stdout.startswith("tercet 0.")


def test_a_process_says_the_same_and_nothing_else(place: Place) -> None:
    recipe = place.recipe("negative_max: 0.8", "negative_mix: 0.8")
    message = sentence(place.typed_anew("run", recipe, TERCET_STORE=str(place.store)), 2)
    assert message.startswith(f"{recipe}:15: ")
    assert "nowhere" in sentence(place.typed_anew("ls", TERCET_STORE="nowhere"), 2)


def test_a_reader_that_goes_away(place: Place) -> None:
    for words in (["ls", "--store", place.store], ["schema"]):
        child = place.start_anew(*words)
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == ""
        child.stderr.close()
        assert child.wait(timeout=600) in (0, 1)


def test_debug_shows_the_traceback(place: Place) -> None:
    words = ["run", str(place.good), "--corpus", "nosuch.txt", "--no-server"]
    for typed in ([*words, "--debug"], ["--debug", *words]):
        result = place.types(*typed, "--store", str(place.store))
        assert result.returncode != 0
        assert "Traceback (most recent call last)" in result.stderr
        assert "nosuch.txt" in result.stderr.rpartition("Traceback")[2]


def test_help_takes_less_than_half_a_second(place: Place) -> None:
    """Of a processor, which others may use too. Or, on a slow one, less than 25 bare Pythons."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    taken, bare = [], []
    for _ in range(5):
        began = used()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        between = used()
        result = place.typed_anew("--help")
        bare.append(between - began)
        taken.append(used() - between)
        assert result.returncode == 0
        assert "run" in result.stdout
    assert min(taken) < max(0.5, 25 * min(bare)), (taken, bare)


@pytest.mark.parametrize("command", ["run", "plan", "try", "study", "serve"])
def test_what_takes_a_recipe_takes_what_changes_it(command: str) -> None:
    offered = CliRunner().invoke(app, [command, "--help"]).output
    assert f"{command} [OPTIONS] {{recipe}}" in offered
    for option in ("--corpus", "--set", "--limit", "--seed", "--store"):
        assert option in offered
    assert ("--until" in offered) == (command not in ("try", "study"))


# OpenMP's threads sleep soon when they wait, unless the user says otherwise.
_ASK = """
import sys
import tercet.flows.cli
assert "torch" not in sys.modules, "OpenMP has read its environment before it was set"
import os
print(os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY"))
"""
_NAMES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, "3000 None"),
        ({"GOMP_SPINCOUNT": "7"}, "7 None"),
        ({"OMP_WAIT_POLICY": "active"}, "None active"),
    ],
)
def test_what_the_user_sets_is_kept(given: dict[str, str], kept: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in _NAMES}
    shown = subprocess.run(
        [sys.executable, "-c", _ASK],
        env=environment | given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == kept
