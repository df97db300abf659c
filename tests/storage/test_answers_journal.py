"""The journal of answers: torn, killed, sealed, on a full disk."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from answers_pool import (
    OPEN,
    adding,
    answer,
    ask,
    child,
    digest,
    files,
    go,
    line,
    texts,
)

from tercet.storage import answers as journals
from tercet.storage.answers import Spent, open_pool
from tercet.storage.store import Store, StoreError


def test_a_torn_line_and_garbage_are_passed_over(store: Store) -> None:
    with adding(store, 0, 3, "wait") as process:
        while line(process) != "waits":
            pass
    (path,) = files(store)[1]
    good = path.read_bytes().splitlines(keepends=True)
    row = json.loads(good[0])
    wrong = [
        b"\n",
        b"\xff\xfe\0garbage\n",
        b"[" * 100_000 + b"\n",
        b"[1, 2]\n",
        b"null\n",
        json.dumps({**row, "request_digest": 7}).encode() + b"\n",
        json.dumps({**row, "n_tokens": 2**40}).encode() + b"\n",
        json.dumps({**row, "seconds": float("nan")}).encode() + b"\n",
        json.dumps({**row, "created": "yesterday"}).encode() + b"\n",
        json.dumps({key: row[key] for key in row if key != "raw"}).encode() + b"\n",
    ]
    path.write_bytes(good[0] + b"".join(wrong) + good[1] + good[2][:-20])
    expected = {number: f"answer {number} " * 20 for number in (0, 1)}
    assert ask(store, "SELECT count(*) FROM responses") == [(2,)]
    assert texts(store, range(5)) == expected
    assert files(store)[1] == []
    assert texts(store, range(5)) == expected


def test_two_that_open_at_once_seal_what_a_dead_process_left_exactly_once(store: Store) -> None:
    for attempt in range(2):
        with adding(store, 1000 * attempt, 400, "wait") as process:
            while line(process) != "waits":
                pass
        assert len(files(store)[1]) == 1
        with child(OPEN, store.location) as one, child(OPEN, store.location) as other:
            assert (line(one), line(other)) == ("ready", "ready")
            go(one)
            go(other)
            assert (line(one), line(other)) == (str(400 * (attempt + 1)),) * 2
            assert (one.wait(), other.wait()) == (0, 0)
        assert [len(found) for found in files(store)] == [attempt + 1, 0]
    assert ask(store, "SELECT count(*), count(DISTINCT request_digest) FROM responses") == [
        (800, 800)
    ]
    assert ask(store, "SELECT sum(answers) FROM usage") == [(800,)]


def test_a_kill_between_sealing_and_removal_of_the_journal_doubles_nothing(store: Store) -> None:
    with adding(store, 0, 10, "wait") as process:
        while line(process) != "waits":
            pass
    (journal,) = files(store)[1]
    kept = journal.read_bytes()
    # A kill while the Parquet file is written leaves its beginning aside.
    (store.local("responses") / f"{journal.stem}.writing").write_bytes(b"PAR1")
    assert len(texts(store, range(10))) == 10
    journal.write_bytes(kept)
    assert ask(store, "SELECT sum(answers) FROM usage") == [(10,)]
    with open_pool(store, "recipe", "next") as pool:
        assert pool.spent() == Spent(150, 0.0, 10)
    assert [len(found) for found in files(store)] == [1, 0]


def test_a_full_journal_is_sealed_and_another_one_begun(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "SEAL_ROWS", 10)
    pool, beside = open_pool(store, "recipe", "run"), open_pool(store, "recipe", "beside")
    for number in range(25):
        pool.add(answer(number))
        assert beside.find([digest(number)])[digest(number)].raw == f"answer {number}"
        assert (pool.spent().answers, beside.spent().answers) == (number + 1, number + 1)
    assert [len(found) for found in files(store)] == [2, 1]
    wanted = [digest(number) for number in range(30)]
    assert len(pool.find(wanted)) == len(beside.find(wanted)) == 25
    pool.close()
    assert [len(found) for found in files(store)] == [3, 0]
    assert (pool.spent().answers, beside.spent().answers) == (25, 25)
    monkeypatch.setattr(journals, "SEAL_BYTES", 1000)
    with open_pool(store, "recipe", "long") as pool:
        pool.add(answer(100, raw="x" * 1000))
        assert [len(found) for found in files(store)] == [4, 0]


def test_a_pool_is_opened_and_read_where_nothing_can_be_written(store: Store) -> None:
    with adding(store, 0, 5, "wait") as process:
        while line(process) != "waits":
            pass
    # The lock cannot be taken: nobody can seal, whoever the user is.
    shutil.rmtree(store.local("locks"))
    store.local("locks").write_text("in the way")
    with open_pool(store, "recipe", "run") as pool:
        assert len(pool.find([digest(n) for n in range(5)])) == 5
        with pytest.raises(StoreError):
            pool.add(answer(9))
    assert len(files(store)[1]) == 1
    store.local("locks").unlink()
    assert len(texts(store, range(10))) == 5
    assert files(store)[1] == []


FULL = """
import sys
from pathlib import Path
from tercet.storage.answers import open_pool
from tercet.storage.store import FullDisk, open_store
place = Path(sys.argv[1])
exec(sys.argv[2])
store = open_store(str(place / "store"))
filler = place / "filler"
filler.write_bytes(b"x" * 1_000_000)
pool = open_pool(store, "recipe", "run")
kept = 0
try:
    while True:
        pool.add(answer(kept, raw=f"answer {kept} " * 300))
        kept += 1
except FullDisk:
    pass
pool.close()
# There is no room to seal: what was added stays in the journal, and can be read.
assert len(list(store.local("responses").rglob("*.jsonl"))) == 1
with open_pool(store, "recipe", "run") as pool:
    assert len(pool.find([digest(n) for n in range(kept + 1)])) == kept, kept
filler.unlink()
with open_pool(store, "recipe", "run") as pool:
    pool.add(answer(kept))
    assert len(pool.find([digest(n) for n in range(kept + 2)])) == kept + 1
assert not list(store.local("responses").rglob("*.jsonl"))
assert not list(store.local("responses").rglob("*.writing"))
with open_pool(store, "recipe", "run") as pool:
    assert pool.spent().answers == kept + 1
print(kept)
"""


@pytest.mark.usefixtures("namespaces")
def test_a_full_disk_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    helpers = (
        "def digest(n): return f'{n:032x}'\n"
        f"def answer(n, **more): return {answer(0)!r} | "
        "{'request_digest': digest(n), **more}\n"
    )
    mount = 'mount -t tmpfs -o size=3m tmpfs "$1" && exec "$2" -c "$3" "$1" "$4"'
    result = subprocess.run(
        ["unshare", "-rm", "bash", "-c", mount, "-", str(disk), sys.executable, FULL, helpers],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout.split()[-1]) > 100
