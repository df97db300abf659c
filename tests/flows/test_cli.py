"""The command line: wrong words are one sentence and exit code 2, `--debug` shows more."""

import resource
import subprocess
import sys

import pytest
from good_and_bad import Place, sentence
from typer.testing import CliRunner

from tercet.flows.cli import app

USAGE: list[tuple[list[str], list[str]]] = [
    (["run", ".", "--no-server"], [". is a directory"]),
    (["run", "bare.yaml", "--no-server"], ["bare.yaml"]),
    (["run", "nosuch.yaml"], ["'nosuch.yaml'", "quickstart"]),
    (["run", "good.yaml", "--limit", "0"], ["--limit"]),
    (["run", "good.yaml", "--no-server", "--until", "nosuch"], ["--until 'nosuch'", "sentences"]),
    (
        ["run", "good.yaml", "--set", "select.negative_max=-1"],
        ["--set select.negative_max=-1: "],
    ),
    (["run", "good.yaml", "--set", "select.best=1"], ["--set select.best=1: "]),
    (["run", "quickstrat"], ["'quickstrat'", "'quickstart'"]),
    (["plan", "good.yaml", "--until", "trian"], ["'trian'", "'train'"]),
    (["try", "good.yaml", "--method", "negations"], ["'negation'"]),
    (["run", "good.yaml", "--set", "select"], ["--set 'select'"]),
    (["run", "good.yaml", "--seed", "4294967296"], ["--seed 4294967296: "]),
    (["run"], ["(tercet run --help)"]),
    (["walk"], ["'walk'", "(tercet --help)"]),
    (["plan", "good.yaml", "--bogus"], ["--bogus", "(tercet plan --help)"]),
    (["init", "nosuch.txt"], ["nosuch.txt"]),
    (["ls", "--run", "nosuch"], ["'nosuch'"]),
    (["ls", "--store", "nowhere"], ["nowhere"]),
    (["sql", "SELECT 1", "--run", "nosuch"], ["'nosuch'"]),
    (["sql", "COPY (SELECT 1) TO 'stolen.csv'"], ["COPY"]),
    (["sql", "SELEC 1"], ["syntax error"]),
]


@pytest.mark.parametrize(("words", "told"), USAGE, ids=[" ".join(u[0])[:40] for u in USAGE])
def test_wrong_words(place: Place, words: list[str], told: list[str]) -> None:
    (place.folder / "bare.yaml").touch()
    more = [] if "--store" in words or not words[1:] else ["--store", str(place.store)]
    said = sentence(place.types(*words, *more), 2)
    assert all(word in said for word in told), said
    assert not (place.folder / "stolen.csv").exists()
    place.goes_on()


@pytest.mark.parametrize(
    "words",
    [
        ["init", "caf\udce9.txt"],
        ["init", "notes.txt", "-o", "\udcff.yaml"],
        ["run", "good.yaml", "--corpus", "\udce4/*.txt", "--no-server"],
        ["run", "good.yaml", "--store", "st\udcf6re"],
        ["run", "\udce9.yaml"],
        ["report", "-o", "\udce9.html"],
        ["sql", "SELECT 1", "-o", "\udce9.csv"],
        ["export", "train", "mod\udce8le"],
        ["eval", "\udce9"],
    ],
)
def test_a_word_that_is_not_utf8(place: Place, words: list[str]) -> None:
    before = sorted(place.folder.iterdir())
    said = sentence(place.types(*words), 2)
    assert "\\x" in said
    assert "UTF-8" in said
    assert sorted(place.folder.iterdir()) == before


def test_without_a_command_the_usage_is_shown(place: Place) -> None:
    shown = place.types()
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == place.types("--help").stdout
    assert shown.stdout.startswith("Usage: tercet ")


def test_the_version_and_whole_summaries_are_shown(place: Place) -> None:
    assert place.types("--version").stdout.startswith("tercet 0.")
    assert "..." not in place.types("--help").stdout.partition("Commands:")[2]


def test_a_process_says_the_same_and_nothing_else(place: Place) -> None:
    recipe = place.recipe("negative_max: 0.8", "negative_mix: 0.8")
    said = sentence(place.typed_anew("run", recipe, TERCET_STORE=str(place.store)), 2)
    assert said.startswith(f"{recipe}:15: ")
    assert "nowhere" in sentence(place.typed_anew("ls", TERCET_STORE="nowhere"), 2)


def test_a_reader_that_goes_away(place: Place) -> None:
    query = "SELECT a.text, b.text FROM sentences a, sentences b, sentences c"
    for words in (["ls"], ["sql", query, "--format", "csv"], ["schema"]):
        more = () if words == ["schema"] else ("--store", place.store)
        child = place.start_anew(*words, *more)
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
        assert "BadInput: nosuch.txt" in result.stderr


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
