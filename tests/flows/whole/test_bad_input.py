"""What goes wrong on the way: a full disk, Ctrl-C, a model's code, a place inside a store."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from faulty_server import until
from good_and_bad import PROGRESS, SCRIPT, Place, sentence
from spoilt_models import spoilt
from tiny_models import WORDS

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
    def files() -> list[Path]:
        return sorted(path for path in place.store.rglob("*") if path.parts[-2] != "locks")

    before = files()
    more = [] if "--store" in words else ["--store", str(place.store)]
    assert place.types(*words, *more).returncode == 2
    assert files() == before
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
    disk, notes = tmp_path / "disk", tmp_path / "told"
    disk.mkdir()
    notes.mkdir()
    for step in FILLED:
        # As much room as half of the step's own rows take; nothing where it makes several.
        written = (place.store / "artifacts" / step).rglob("*")
        room = sum(path.stat().st_size for path in written if path.is_file()) // 2048
        (notes / step).write_text(str(room))
    names = {"PLACE": str(disk), "TOLD": str(notes), "PYTHON": sys.executable, "SCRIPT": SCRIPT}
    result = subprocess.run(
        ["unshare", "-rm", "bash", "-c", FULL],
        cwd=place.folder,
        env={**os.environ, **names, "STEPS": " ".join(FILLED), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    before = (notes / "before").read_text()
    assert re.fullmatch(r"\d\d,\d+", before.splitlines()[1])
    for step in FILLED:
        assert (notes / f"{step}.code").read_text() == "1\n", step
        *lines, last = (notes / f"{step}.full").read_text().splitlines()
        assert last.startswith("tercet: "), last
        for name in ("[no_space]", "good.yaml", f"--until {step}", str(disk), "--no-server"):
            assert name in last
        assert not [line for line in lines if not PROGRESS.match(line)], lines
        assert (notes / f"{step}.rows").read_text() in (before, "")
    assert (notes / "after").read_text() == before


@pytest.mark.parametrize(
    ("step", "begun"),
    [("ingest", "scratch/ingest/*/*/ingest"), ("train", "scratch/train/*/*/checkpoints/*")],
)
def test_interrupted_it_goes_on_as_it_says(
    place: Place, tmp_path: Path, step: str, begun: str
) -> None:
    """Ctrl-C: exit code 130, and the command that goes on."""
    recipe, many, store = tmp_path / "long.yaml", tmp_path / "many.txt", tmp_path / "store"
    recipe.write_text(place.good.read_text().replace("max_steps: 2", "max_steps: 150"))
    many.write_text("".join(f"{' '.join(WORDS[:9])} {i}\n" for i in range(120_000)))
    words = ["run", recipe, "--store", store, "--until", step, "--no-server"]
    words += ["--corpus", many] if step == "ingest" else []
    child = place.start(*words, script=HELD.replace("STEP", step))
    assert until(lambda: any(store.glob(begun)) or child.poll() is not None, 600)
    assert child.poll() is None, child.communicate()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=600)
    assert (child.returncode, out) == (130, ""), err
    *before, last = err.splitlines()
    assert last.strip().startswith(f"tercet run {recipe}"), err
    assert len([line for line in before if line and not PROGRESS.match(line)]) == 1
    again = place.tercet(*words)
    assert again.returncode == 0, again.stderr
    assert re.search(rf"^{step} +(made|resumed)", again.stderr, re.M), again.stderr
    # No bars of the libraries: what a run says is its steps and warnings alone.
    lines = [line for line in again.stderr.splitlines() if not line.startswith("ingest: ")]
    assert [line for line in lines if not PROGRESS.match(line)] == []


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
