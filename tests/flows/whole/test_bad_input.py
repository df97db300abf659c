"""What goes wrong on the way: a full disk, Ctrl-C, a model's code, places that are not there."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from good_and_bad import PROGRESS, SCRIPT, Place, sentence
from spoilt_models import spoilt
from tiny_models import WORDS
from warm import Child

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


def test_a_corpus_and_a_backbone_that_are_not_there(place: Place, tmp_path: Path) -> None:
    words = ["run", place.good, "--no-server", "--store", tmp_path / "none"]
    assert "nosuch.txt" in sentence(place.tercet(*words, "--corpus", "nosuch.txt"), 2)
    assert not (tmp_path / "none").exists()
    # Whether a hub has a model is known only when it is fetched.
    name = "nosuch-organisation/nosuch-model"
    assert name in sentence(place.tercet(*words, "--set", f"backbone={name}"), 2)


@pytest.mark.parametrize(
    "words",
    [["sql", "SELECT 1", "-o", "store/runs/one.csv"],
     ["report", "-o", "store/report.html"], ["export", "sentences", "store/artifacts/x"],
     ["init", "notes.txt", "-o", "store/r.yaml"],
     ["run", "good.yaml", "--no-server", "--write", "store/tags/r.yaml"],
     ["study", "good.yaml", "--vary", "seed=[1, 2]", "-o", "store/study.html"],
     ["run", "good.yaml", "--no-server", "--store", "store/artifacts/another"]],
    ids=lambda words: words[0],
)  # fmt: skip
def test_no_command_writes_inside_a_store(place: Place, words: list[str]) -> None:
    def there() -> list[Path]:
        return sorted(path for path in place.store.rglob("*") if path.parts[-2] != "locks")

    before = there()
    more = [] if "--store" in words else ["--store", str(place.store)]
    assert place.types(*words, *more).returncode == 2
    assert there() == before
    place.goes_on()


def test_code_of_a_model_does_not_run_unasked(place: Place, tmp_path: Path) -> None:
    custom = spoilt(place.backbone, "custom", tmp_path)
    recipe = place.recipe(f"  model: {place.backbone}", f"  model: {custom}")
    assert str(custom) in sentence(place.runs(recipe, "--until", "embed"), 2)
    assert not (tmp_path / "ran").exists()
    place.goes_on()


# The steps at which the disk fills up, each when half of its rows are written:
# TERCET_FULL_DISKS=mentions,candidates,embed,triplets,train tries all of them.
FILLED = os.environ.get("TERCET_FULL_DISKS", "candidates").split(",")

FULL = """
set -e
mount -t tmpfs -o size=32m tmpfs "$PLACE"
tercet() { "$PYTHON" -c "$SCRIPT" "$@"; }
Q="SELECT count(*), bit_xor(sentence_id) FROM sentences"
rows() { tercet sql "$Q" --format csv --store "$S"; }
S="$PLACE/store"
run() { tercet run good.yaml --no-server --store "$S" --until "$1" > /dev/null; }
run sentences
rows > "$TOLD/before"
for STEP in $STEPS; do
    dd if=/dev/zero of="$PLACE/filler" bs=4k 2> /dev/null || true
    truncate -s "-$(cat "$TOLD/$STEP")K" "$PLACE/filler"
    set +e
    run $STEP 2> "$TOLD/$STEP.full"; echo $? > "$TOLD/$STEP.code"
    rows > "$TOLD/$STEP.rows"
    set -e
    rm "$PLACE/filler"
    run $STEP
done
rows > "$TOLD/after"
"""


@pytest.mark.usefixtures("namespaces")
def test_a_full_disk_stops_the_run_and_harms_nothing(place: Place, tmp_path: Path) -> None:
    disk, told = tmp_path / "disk", tmp_path / "told"
    disk.mkdir()
    told.mkdir()
    for step in FILLED:
        # As much room as half of the step's own rows take; nothing where it makes several.
        written = (place.store / "artifacts" / step).rglob("*")
        room = sum(path.stat().st_size for path in written if path.is_file()) // 2048
        (told / step).write_text(str(room))
    names = {"PLACE": str(disk), "TOLD": str(told), "PYTHON": sys.executable, "SCRIPT": SCRIPT}
    result = subprocess.run(
        ["unshare", "-rm", "bash", "-c", FULL],
        cwd=place.folder,
        env={**os.environ, **names, "STEPS": " ".join(FILLED), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    before = (told / "before").read_text()
    assert re.fullmatch(r"\d\d,\d+", before.splitlines()[1])
    for step in FILLED:
        assert (told / f"{step}.code").read_text() == "1\n", step
        *lines, last = (told / f"{step}.full").read_text().splitlines()
        assert last.startswith("tercet: "), last
        assert "[no_space]" in last
        assert "good.yaml" in last
        assert "--until" in last
        assert str(step) in last
        assert "--store" in last
        assert str(disk) in last
        assert "/store" in last
        assert "--no-server" in last
        assert not [line for line in lines if not PROGRESS.match(line)], lines
        assert (told / f"{step}.rows").read_text() in (before, "")
    assert (told / "after").read_text() == before


def _when(child: Child, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 600
    while not happened():
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _interrupt(child: Child, command: str) -> None:
    """Ctrl-C: exit code 130, and the command that goes on."""
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=600)
    assert child.returncode == 130, err
    assert out == ""
    *before, last = err.splitlines()
    assert last.strip().startswith(command), err
    assert "Traceback" not in err
    assert [line for line in before if line and not PROGRESS.match(line)] == [
        "Interrupted; finished work is kept. Resume with:"
    ]


def test_interrupted_while_reading_the_corpus(place: Place, tmp_path: Path) -> None:
    many = tmp_path / "many.txt"
    line = " ".join(WORDS[:9])
    many.write_text("".join(f"{line} {i}\n" for i in range(120_000)))
    store = tmp_path / "store"
    words = ["run", place.good, "--corpus", many, "--until", "sentences", "--store", store]
    held = HELD.replace("STEP", "ingest")
    child = place.start(*words, "--no-server", script=held)
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
    child = place.start(*words, script=HELD.replace("STEP", "train"))
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
