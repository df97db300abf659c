"""Whatever a person gets wrong: its exit code, one sentence, and the next good run works."""

import gzip
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import WORDS

SCRIPT = "from tercet.flows.cli import main; main()"
# However late it is interrupted, a run of this has not come to the end of STEP.
HELD = """
import time
from tercet.flows.terminal import interrupts
from tercet.flows.cli import main
from tercet.storage.artifacts import Artifact
real = Artifact.commit
def commit(self, *given):
    while self.step == "STEP":
        interrupts.check()
        time.sleep(0.1)
    return real(self, *given)
Artifact.commit = commit
main()
"""
# What a run says of its progress, on standard error and before the one sentence.
PROGRESS = re.compile(r"[\w.]+ +(made|reused|resumed) |[\w.]+: [\d,]+ |Prefect server: http")

RECIPE = """\
name: small
backbone: {backbone}
corpora:
  - name: notes
    source: {folder}/notes.txt
sample:
  rows: 40
synthesise:
  word_repetition:
  negation: {{weight: 0.5}}
evaluator:
  model: {backbone}
select:
  negative_max: 0.8
train:
  phases:
    - name: first
      loss: gaussian_decay
      batch_size: 16
      max_steps: 2
evaluate:
  retrieval: false
"""


@dataclass(frozen=True)
class Place:
    """A folder with a corpus, a recipe that works and a store in which it has run."""

    folder: Path
    backbone: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def good(self) -> Path:
        return self.folder / "good.yaml"

    def recipe(self, old: str = "", new: str = "") -> Path:
        """The recipe with one text replaced."""
        text = self.good.read_text()
        assert old in text
        path = self.folder / "bad.yaml"
        path.write_text(text.replace(old, new, 1) if old else text)
        return path

    def start(
        self, *words: str | Path, script: str = SCRIPT, **more: str
    ) -> "subprocess.Popen[str]":
        """The command line, in a process of its own, in the folder."""
        own = {k: v for k, v in os.environ.items() if not k.startswith(("TERCET_", "PREFECT_"))}
        return subprocess.Popen(
            [sys.executable, "-c", script, *map(str, words)],
            cwd=self.folder,
            env={**own, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **more},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tercet(self, *words: str | Path, **more: str) -> "subprocess.CompletedProcess[str]":
        with self.start(*words, **more) as child:
            out, err = child.communicate(timeout=1200)
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    def run(self, recipe: Path, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        more = () if "--until" in words else ("--until", "sentences")
        return self.tercet("run", recipe, "--no-server", "--store", self.store, *more, *words)

    def goes_on(self, store: Path | None = None, until: str = "sentences") -> None:
        """A good run in the store ends with 0 (what `tercet run` calls, without its start)."""
        from tercet.flows.commands.run import run_recipe

        arguments = {"recipe": str(self.good), "until": until}
        assert run_recipe(arguments, str(store or self.store), use_server=False) == 0


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: Path) -> Place:
    made = Place(tmp_path_factory.mktemp("bad"), tiny_backbone)
    lines = [" ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 9)) for i in range(1, 40)]
    (made.folder / "notes.txt").write_text("\n".join(lines) + "\n")
    made.good.write_text(RECIPE.format(folder=made.folder, backbone=tiny_backbone))
    made.goes_on()
    return made


def sentence(result: "subprocess.CompletedProcess[str]", code: int) -> str:
    """The one sentence of a failure. There is nothing else but lines of progress before it."""
    *before, last = result.stderr.splitlines() or [""]
    assert result.returncode == code, result.stderr
    assert last.startswith("tercet: "), result.stderr
    assert not [line for line in before if not PROGRESS.match(line)], result.stderr
    assert result.stdout == ""
    return last.removeprefix("tercet: ")


def _truncated() -> bytes:
    whole = gzip.compress(b"this is a line of many words\n" * 5000 + os.urandom(9000))
    return whole[: len(whole) // 2]


CORPORA: list[tuple[str, bytes | None, list[str]]] = [
    ("nosuch.txt", None, ["nosuch.txt: no such file"]),
    ("nosuch/*.txt", None, ["no file matches"]),
    ("empty.txt", b"", ["empty.txt", "is empty"]),
    ("utf16.txt", "two words and more\n".encode("utf-16"), ["UTF-16, not UTF-8", "iconv"]),
    ("latin.txt", b"the caf\xe9 is open to us\n" * 3, ["no sentence", "3 not_utf8"]),
    ("numbers.csv", b"id,n\n1,2\n3,4\n", ["numbers.csv", "no sentence"]),
    ("binary.csv", bytes(range(256)) * 40, ["binary.csv"]),
    ("broken.parquet", b"PAR1" + b"x" * 100, ["broken.parquet", "Parquet"]),
    ("cut.txt.gz", _truncated(), ["cut.txt.gz", "damaged"]),
    ("notes.docx", b"PK", ["notes.docx", "no reader"]),
    ("hf:glue", None, ["hub is not built yet"]),
    (".", None, ["is a folder"]),
]


@pytest.mark.parametrize(("source", "data", "told"), CORPORA, ids=[c[0] for c in CORPORA])
def test_a_corpus_that_cannot_be_read(
    place: Place, source: str, data: bytes | None, told: list[str]
) -> None:
    if data is not None:
        (place.folder / source).write_bytes(data)
    said = sentence(place.run(place.good, "--corpus", source), 2)
    assert all(words in said for words in told), said
    place.goes_on()


def test_a_table_without_the_column_that_the_recipe_names(place: Place) -> None:
    (place.folder / "titles.csv").write_text("title,body\na,b\n")
    recipe = place.recipe("/notes.txt", "/titles.csv\n    text: text")
    assert "has no column 'text'" in sentence(place.run(recipe), 2)
    place.goes_on()


def test_a_line_of_twenty_megabytes_is_a_reject_and_the_others_arrive(place: Place) -> None:
    with (place.folder / "long.txt").open("wb") as file:
        file.write(b"the first line is short\n" + b"x " * 10_000_000 + b"\nand so is the last\n")
    result = place.run(place.good, "--corpus", "long.txt")
    assert result.returncode == 0, result.stderr
    query = "SELECT reason, left(text, 3) AS began FROM rejects"
    kept = place.tercet("sql", query, "--format", "csv", "--store", place.store)
    assert kept.stdout.splitlines()[1:] == ['"line_too_long","x x"'], kept.stdout
    query = "SELECT text FROM sentences ORDER BY text"
    kept = place.tercet("sql", query, "--format", "csv", "--store", place.store)
    assert kept.stdout.splitlines()[1:] == ['"and so is the last"', '"the first line is short"']
    place.goes_on()


RECIPES: list[tuple[str, str, int, list[str]]] = [
    ("negative_max: 0.8", "negative_mix: 0.8", 14, ["unknown key 'select.negative_mix'"]),
    ("negative_max: 0.8", "negative_max: -0.8", 14, ["select.negative_max is -0.8"]),
    ("negative_max: 0.8", "negative_max: .nan", 14, ["select.negative_max is nan"]),
    ("max_steps: 2", "max_steps: many", 20, ["max_steps is 'many'", "integer"]),
    ("weight: 0.5", "weight: .nan", 10, ["synthesise.negation.weight is nan"]),
    ("weight: 0.5", "weight: -1", 10, ["synthesise.negation.weight is -1"]),
    ("{weight: 0.5}", "3", 10, ["synthesise.negation is 3", "a mapping"]),
    ("negation:", "negotiation:", 10, ["no method 'negotiation'", "negation"]),
    ("weight: 0.5", "wait: 0.5", 10, ["negation: parameter wait"]),
    ("sample:", "  - name: notes\n    source: x.txt\nsample:", 6, ["same name", "'notes'"]),
    ("name: small", "name: [small", 2, ["not YAML"]),
    ("loss: gaussian_decay", "loss: hinge", 18, ["train.phases.0.loss is 'hinge'"]),
    ("rows: 40", "rows: 40\n  rows_: 3", 8, ["unknown key 'sample.rows_'"]),
]


@pytest.mark.parametrize(("old", "new", "line", "told"), RECIPES, ids=[r[1][:24] for r in RECIPES])
def test_a_fault_in_the_recipe_names_file_and_line(
    place: Place, old: str, new: str, line: int, told: list[str]
) -> None:
    recipe = place.recipe(old, new)
    said = sentence(place.run(recipe), 2)
    assert said.startswith(f"{recipe}:{line}: "), said
    assert all(words in said for words in told), said
    place.goes_on()


USAGE: list[tuple[list[str], list[str]]] = [
    (["run", ".", "--no-server"], [". is a directory"]),
    (["run", "bare.yaml", "--no-server"], ["bare.yaml holds no recipe"]),
    (["run", "nosuch.yaml"], ["no recipe 'nosuch.yaml'", "quickstart"]),
    (["run", "good.yaml", "--limit", "0"], ["--limit"]),
    (["run", "good.yaml", "--no-server", "--until", "nosuch"], ["--until 'nosuch'", "sentences"]),
    (
        ["run", "good.yaml", "--set", "select.negative_max=-1"],
        ["--set select.negative_max=-1: select.negative_max is -1"],
    ),
    (["run", "good.yaml", "--set", "select.best=1"], ["--set select.best=1: unknown key"]),
    (["run", "good.yaml", "--set", "select"], ["--set 'select'", "has no value"]),
    (["run", "good.yaml", "--seed", "4294967296"], ["--seed 4294967296: seed is"]),
    (["run"], ["Missing argument", "--help"]),
    (["walk"], ["No such command 'walk'"]),
    (["plan", "good.yaml", "--bogus"], ["--bogus"]),
    (["init", "nosuch.txt"], ["no such file"]),
    (["ls", "--run", "nosuch"], ["'nosuch'"]),
    (["ls", "--store", "nowhere"], ["no store at"]),
    (["sql", "SELECT 1", "--run", "nosuch"], ["'nosuch'"]),
    (["sql", "COPY (SELECT 1) TO 'stolen.csv'"], ["Only one SELECT", "COPY"]),
    (["sql", "SELEC 1"], ["syntax error"]),
]


@pytest.mark.parametrize(("words", "told"), USAGE, ids=[" ".join(u[0])[:40] for u in USAGE])
def test_wrong_words_on_the_command_line(place: Place, words: list[str], told: list[str]) -> None:
    (place.folder / "bare.yaml").touch()
    said = sentence(place.tercet(*words, TERCET_STORE=str(place.store)), 2)
    assert all(word in said for word in told), said
    assert not (place.folder / "stolen.csv").exists()
    place.goes_on()


@pytest.mark.parametrize("case", ["missing", "malformed", "folder"])
def test_a_lexicon_that_cannot_be_read(place: Place, case: str) -> None:
    lexicon = place.folder / f"{case}.tsv"
    if case == "malformed":
        lexicon.write_text("noun\ttypes\nheron\n")
    elif case == "folder":
        lexicon.mkdir()
    recipe = place.recipe("sample:", f"extract: {{lexicon: {lexicon}}}\nsample:")
    said = sentence(place.run(recipe, "--until", "mentions"), 2)
    assert str(lexicon) in said
    assert "extract" in said
    assert case != "malformed" or "line 2" in said
    place.goes_on(until="mentions")


def test_a_package_that_is_not_installed(place: Place) -> None:
    recipe = place.recipe(f"{place.folder}/notes.txt", "pydocs\n    packages: [no-such-package]")
    assert "'no-such-package' is not installed" in sentence(place.run(recipe), 2)
    place.goes_on()


def _model(place: Place, name: str) -> Path:
    """A copy of the backbone with a fault."""
    copy = place.folder / name
    shutil.copytree(place.backbone, copy)
    if name in ("weightless", "pickle"):
        (copy / "model.safetensors").unlink()
    if name == "pickle":
        (copy / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    if name == "damaged":
        (copy / "model.safetensors").write_bytes(b"garbage" * 9)
    if name == "voiceless":
        for path in copy.glob("*token*"):
            path.unlink()
    if name == "custom":
        config = json.loads((copy / "config.json").read_text())
        config |= {
            "model_type": "custom",
            "auto_map": {"AutoConfig": "code.C", "AutoModel": "code.M"},
        }
        (copy / "config.json").write_text(json.dumps(config))
        (copy / "code.py").write_text(f"open({str(place.folder / 'ran')!r}, 'w')\n")
    return copy


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("./nosuch", "no model at"),
        ("package:nosuch/model", "not installed"),
        ("nosuch-organisation/nosuch-model", "neither a local directory nor to be had"),
        ("weightless", "no weights in safetensors"),
        ("pickle", "no weights in safetensors"),
    ],
)
def test_a_backbone_that_is_not_there_is_told_before_anything_is_made(
    place: Place, name: str, told: str
) -> None:
    if "/" not in name:
        name = str(_model(place, name))
    recipe = place.recipe(f"backbone: {place.backbone}", f"backbone: {name}")
    store = place.folder / "unused"
    said = sentence(place.tercet("run", recipe, "--no-server", "--store", store), 2)
    assert told in said
    assert name in said
    assert not (store / "artifacts").exists()


@pytest.mark.parametrize("server", [(), ("--no-server",)], ids=["server", "no-server"])
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (("--set", "backbone=./nosuch"), "no model at"),
        (("--set", "evaluator.model=package:nosuch/model"), "not installed"),
        (("--corpus", "nosuch.txt"), "no such file"),
        (("--corpus", "hf:glue"), "hub is not built yet"),
        (("--set", "corpora.0.source=titles.csv", "--set", "corpora.0.text=it"), "no column 'it'"),
    ],
    ids=["backbone", "evaluator", "corpus", "hub", "column"],
)
def test_a_bad_input_starts_no_server_and_leaves_no_store(
    place: Place, fault: tuple[str, ...], told: str, server: tuple[str, ...]
) -> None:
    (place.folder / "titles.csv").write_text("title,body\na,b\n")
    store = place.folder / "none"
    result = place.tercet("run", place.good, *fault, *server, "--store", store)
    assert told in sentence(result, 2)
    assert len(result.stderr.splitlines()) == 1
    assert not store.exists()


@pytest.mark.parametrize(
    ("name", "told"), [("damaged", "header"), ("voiceless", "tokenizer is missing")]
)
def test_a_model_that_cannot_be_loaded(place: Place, name: str, told: str) -> None:
    from tercet.models.encoders.encoder import load_encoder

    with pytest.raises(ValueError, match=told):
        load_encoder(_model(place, name))


def test_code_of_a_model_does_not_run_unasked(place: Place) -> None:
    custom = _model(place, "custom")
    recipe = place.recipe(f"  model: {place.backbone}", f"  model: {custom}")
    said = sentence(place.run(recipe, "--until", "embed"), 2)
    assert str(custom) in said
    assert "trust_remote_code" in said
    assert not (place.folder / "ran").exists()
    place.goes_on()


@pytest.mark.parametrize(
    ("case", "more"),
    [
        ("file", ["--no-server"]),
        ("other", ["--no-server"]),
        ("forbidden", ["--no-server"]),
        ("forbidden", []),
        ("remote", []),
    ],
)
def test_a_store_that_cannot_be_written(place: Place, case: str, more: list[str]) -> None:
    other = place.folder / "other"
    other.mkdir(exist_ok=True)
    (other / "letter.txt").write_text("dear")
    stores = {
        "file": (str(place.good), "is a file"),
        "other": (str(other), "is not a store"),
        "forbidden": ("/proc/store", "/proc/store"),
        "remote": ("s3://bucket/store", "not a local directory"),
    }
    store, told = stores[case]
    said = sentence(place.tercet("run", place.good, "--store", store, *more), 2)
    assert told in said
    assert (other / "letter.txt").read_text() == "dear"
    place.goes_on()


def _unshare() -> bool:
    tried = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


FULL = """
set -e
mount -t tmpfs -o size=4m tmpfs "$PLACE"
tercet() { "$PYTHON" -c "$SCRIPT" "$@"; }
Q="SELECT count(*), bit_xor(sentence_id) FROM sentences"
rows() { tercet sql "$Q" --format csv --store "$S"; }
S="$PLACE/store"
run() { tercet run good.yaml --no-server --store "$S" --until "$1" > /dev/null; }
run sentences
rows > "$TOLD/before"
dd if=/dev/zero of="$PLACE/filler" bs=4k 2> /dev/null || true
set +e
run candidates 2> "$TOLD/full"; echo $? > "$TOLD/code"
rows > "$TOLD/full_rows"
set -e
rm "$PLACE/filler"
run candidates
rows > "$TOLD/after"
"""


@pytest.mark.skipif(not _unshare(), reason="no user namespaces here")
def test_a_full_disk_stops_the_run_and_harms_nothing(place: Place, tmp_path: Path) -> None:
    disk, told = tmp_path / "disk", tmp_path / "told"
    disk.mkdir()
    told.mkdir()
    names = {"PLACE": str(disk), "TOLD": str(told), "PYTHON": sys.executable, "SCRIPT": SCRIPT}
    result = subprocess.run(
        ["unshare", "-rm", "bash", "-c", FULL],
        cwd=place.folder,
        env={**os.environ, **names, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert (told / "code").read_text() == "1\n"
    said = (told / "full").read_text().splitlines()
    assert said[-1].startswith("tercet: No space is left in"), said
    assert f"tercet run good.yaml --until candidates --store {disk}/store --no-server" in said[-1]
    assert not [line for line in said[:-1] if not PROGRESS.match(line)], said
    before = (told / "before").read_text()
    assert re.fullmatch(r"\d\d,\d+", before.splitlines()[1])
    assert (told / "full_rows").read_text() in (before, "")
    assert (told / "after").read_text() == before


def _when(child: "subprocess.Popen[str]", happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not happened():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _interrupt(child: "subprocess.Popen[str]", command: str) -> None:
    """Ctrl-C: exit code 130, and the command that goes on."""
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=600)
    assert child.returncode == 130, err
    assert out == ""
    *before, last = err.splitlines()
    assert last.strip().startswith(command), err
    assert "Traceback" not in err
    assert [line for line in before if line and not PROGRESS.match(line)] == [
        "Interrupted; what is done is kept. Go on with:"
    ]


def test_interrupted_while_reading_the_corpus(place: Place, tmp_path: Path) -> None:
    many = tmp_path / "many.txt"
    line = " ".join(WORDS[:9])
    many.write_text("".join(f"{line} {i}\n" for i in range(120_000)))
    store = tmp_path / "store"
    words = ["run", place.good, "--corpus", many, "--until", "sentences", "--store", store]
    held = HELD.replace("STEP", "ingest")
    with place.start(*words, "--no-server", script=held) as child:
        _when(child, lambda: any(store.glob("scratch/ingest/*/*/ingest")))
        _interrupt(child, f"tercet run {place.good}")
    again = place.tercet(*words, "--no-server")
    assert again.returncode == 0, again.stderr
    assert re.search(r"^ingest +(made|resumed)", again.stderr, re.M), again.stderr


def test_interrupted_while_training(place: Place, tmp_path: Path) -> None:
    recipe = tmp_path / "long.yaml"
    recipe.write_text(place.good.read_text().replace("max_steps: 2", "max_steps: 150"))
    store = tmp_path / "store"
    words = ["run", recipe, "--store", store, "--until", "train", "--no-server"]
    with place.start(*words, script=HELD.replace("STEP", "train")) as child:
        _when(child, lambda: any(store.glob("scratch/train/*/*/checkpoints/*")))
        time.sleep(0.3)
        _interrupt(child, f"tercet run {recipe}")
    again = place.tercet(*words)
    assert again.returncode == 0, again.stderr
    assert re.search(r"^embed +reused", again.stderr, re.M), again.stderr
    assert re.search(r"^train +(made|resumed)", again.stderr, re.M), again.stderr
    # Neither bars of the libraries nor warnings: what a run says is its steps alone.
    assert not [line for line in again.stderr.splitlines() if not PROGRESS.match(line)]


def test_within_prefect_it_is_the_same_sentence(place: Place, prefect_folder: Path) -> None:
    from tercet.flows.service import server

    shutil.copytree(prefect_folder, server.folder(place.store), dirs_exist_ok=True)
    lexicon = place.folder / "lexicon.tsv"
    lexicon.write_text("noun\ttypes\nheron\n")
    recipe = place.recipe("sample:", f"extract: {{lexicon: {lexicon}}}\nsample:")
    words = ["run", recipe, "--store", place.store, "--until", "mentions"]
    assert "line 2" in sentence(place.tercet(*words), 2)
    lexicon.write_text("noun\ttypes\nheron\tbird\n")
    assert place.tercet(*words).returncode == 0
    assert server.running(place.store) is None


def test_a_reader_that_goes_away(place: Place) -> None:
    query = "SELECT a.text, b.text FROM sentences a, sentences b, sentences c"
    for words in (["ls"], ["sql", query, "--format", "csv"], ["schema"]):
        more = () if words == ["schema"] else ("--store", place.store)
        child = place.start(*words, *more)
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == ""
        child.stderr.close()
        assert child.wait(timeout=600) in (0, 1)


def test_debug_shows_the_traceback(place: Place) -> None:
    result = place.run(place.good, "--corpus", "nosuch.txt", "--debug")
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
        result = place.tercet("--help")
        bare.append(between - began)
        taken.append(used() - between)
        assert result.returncode == 0
        assert "run" in result.stdout
    assert min(taken) < max(0.5, 25 * min(bare)), (taken, bare)
