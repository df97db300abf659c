"""Garbage is collected at random moments as runs start, reuse and make: what they use stays.

    python benchmarks/gc_beside_runs.py [--runs 20]

Each run is a process of its own over one of two corpora that share most documents, at the same
place, so that a run is garbage as soon as the next is done, while the one after it wants all of it
again, or its parts. Each must end well with the triplets of a store that nothing was deleted from;
the figures of triplets may differ in the last digit. In the end the files among the artifacts must
be those that the newest run's records name, byte for byte. The rule of a day is off.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tercet.storage import garbage
from tercet.storage.catalog import views
from tercet.storage.runs import list_runs
from tercet.storage.store import open_store

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "support")]
from marked_files import marked  # noqa: E402

PAGES = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
ASKED = "SELECT triplet_id, anchor, positive, negative FROM triplets ORDER BY ALL"


def run(corpus: Path, store: Path, number: int) -> list[Any]:
    """The triplets of a run over all pages but one."""
    for page in PAGES:
        (corpus / page.name).write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    (corpus / PAGES[number % 2].name).unlink()
    words = ["run", "quickstart", "--corpus", str(corpus), "--until", "triplets", "--no-server"]
    words += ["--set", "run.part_rows=200"]
    script = "from tercet.flows.cli import main; main()"
    line = [sys.executable, "-c", script, *words, "--store", str(store)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with views.connect(open_store(str(store))) as connection:
        return connection.execute(ASKED).fetchall()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    garbage.YOUNG_SECONDS = 0.0
    with tempfile.TemporaryDirectory() as folder:
        corpus, place = Path(folder, "corpus"), Path(folder, "store")
        corpus.mkdir()
        expected = [run(corpus, Path(folder, "undisturbed"), number) for number in range(2)]
        store = open_store(str(place))
        draw = random.Random(1)
        freed: list[int] = []
        took = [10.0]
        stop = threading.Event()

        def collecting() -> None:
            while not stop.wait(draw.uniform(0.0, took[-1])):
                found = garbage.collect(store, 1, delete=True)
                freed.append(sum(found.objects.values()))

        beside = threading.Thread(target=collecting)
        beside.start()
        try:
            for number in range(asked.runs):
                began = time.monotonic()
                assert run(corpus, place, number) == expected[number % 2], number
                took.append(time.monotonic() - began)
                states = [step["state"] for step in list_runs(store)[0]["steps"]]
                told = ", ".join(f"{states.count(s)} {s}" for s in dict.fromkeys(states))
                print(f"run {number + 1}: {told}; {len(freed)} collections so far", flush=True)
        finally:
            stop.set()
            beside.join()
        garbage.collect(store, 1, delete=True)
        on_disk, said = store.sizes("artifacts"), marked(store)
        print(f"{len(freed)} collections, {sum(map(bool, freed))} of which deleted something")
        print(f"on disk {sum(on_disk.values()):,} bytes, marked {sum(said.values()):,} bytes")
        assert on_disk == said


if __name__ == "__main__":
    main()
