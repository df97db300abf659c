import codecs
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from commands_store import SENTENCES, make_artifact, make_run, small_store, tercet
from failures import fails
from faulty_server import until
from s3_server import Proxy

from tercet.errors import ErrorKind
from tercet.flows.commands.sql import answer
from tercet.storage.store import StoreError, open_store
from tercet.tasks.stage import BadInput


@pytest.fixture
def store(tmp_path: Path) -> str:
    small_store(tmp_path / "store")
    return str(tmp_path / "store")


def test_table_tells_rows_and_their_number(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer("SELECT n_words, text FROM sentences ORDER BY 2", "table", None, store, None)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["n_words", "text"]
    assert lines[2].split(maxsplit=1) == ["3", "A heron waits."]
    assert lines[3].split(maxsplit=1) == ["3", r"Rain,\nthen sun."]
    assert lines[-1] == "3 rows"
    answer("SELECT i FROM range(70000) r(i)", "table", None, store, None)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 200 + 1
    assert "70,000" in lines[-1]


def test_a_bucket_is_asked_few_times_and_a_named_pool_is_read(
    bucket: Proxy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = "s3://bucket/few"
    small_store(tmp_path / "store")
    assert tercet("copy", str(tmp_path / "store"), location).returncode == 0
    answer("SELECT 1", "csv", None, location, None)
    bucket.counted()
    answer("SELECT 1", "csv", None, location, None)
    requests = bucket.counted()
    assert len(requests) <= 7, requests
    capsys.readouterr()
    answer("SELECT count(*) AS n FROM usage", "csv", None, location, None)
    assert capsys.readouterr().out == "n\n0\n"


def test_csv_quotes_only_what_needs_it(store: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    query = """SELECT '20261128T01' AS run, 'a "b", c' AS t, '' AS e, NULL::VARCHAR AS n,
        1.5::FLOAT AS f, true AS b, ' x' AS s, E'1\\n2' AS l, 'xy'::BLOB AS y,
        {'k': [1.0, 'nan'::DOUBLE]} AS d"""
    answer(query, "csv", str(out), store, None)
    assert out.read_text() == (
        'run,t,e,n,f,b,s,l,y,d\n20261128T01,"a ""b"", c","",,1.5,true," x","1\n2",7879,'
        '"{""k"": [1.0, null]}"\n'
    )


def test_json_has_ids_as_texts_and_no_nan(store: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.json"
    big = 2**64 - 1
    query = f"SELECT {big}::UBIGINT AS id, 'nan'::DOUBLE AS v, {{'a': 'inf'::FLOAT}} AS s, 1 AS id"
    answer(query, "json", str(out), store, None)
    assert json.loads(out.read_text()) == [{"id": str(big), "v": None, "s": {"a": None}, "id_1": 1}]
    out.unlink()
    answer("SELECT 1 AS a WHERE false", "json", str(out), store, None)
    assert json.loads(out.read_text()) == []


def test_parquet_has_the_types(store: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    answer("SELECT * FROM sentences ORDER BY 1", "parquet", str(out), store, None)
    assert pq.read_table(out, columns=SENTENCES.column_names).equals(SENTENCES)


@pytest.mark.parametrize("name", ["rows.parquet", "rows"])
def test_a_file_that_is_there_stays(store: str, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    out.write_text("before")
    with pytest.raises(BadInput):
        answer("SELECT 1", None, str(out), store, None)
    assert out.read_text() == "before"


def test_a_query_that_fails_leaves_no_file(store: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    query = "SELECT CASE WHEN i < 60000 THEN i ELSE error('broken row') END FROM range(90000) r(i)"
    with fails("bad_query"):
        answer(query, "csv", str(out), store, None)
    assert list(tmp_path.glob("*rows*")) == []


@pytest.mark.parametrize(
    ("query", "kind", "name"),
    [
        ("SELEC 1", "bad_query", "SELEC"),
        ("SELECT no_such FROM sentences", "bad_query", "no_such"),
        ("SELECT * FROM sentence", "bad_query", '"sentences'),
        ("DROP VIEW sentences", "not_read_only", "SELECT"),
        ("SELECT 1; SELECT 2", "not_read_only", "2"),
        ("SELECT * FROM read_text('/etc/passwd')", "bad_query", "/etc/passwd"),
    ],
)
def test_a_faulty_query_is_one_sentence(store: str, query: str, kind: ErrorKind, name: str) -> None:
    with fails(kind, name) as raised:
        answer(query, "csv", None, store, None)
    assert "\n" not in str(raised.value)


def test_options_that_cannot_be(store: str, tmp_path: Path) -> None:
    cases: list[tuple[str | None, str | None, ErrorKind, str]] = [
        ("parquet", None, "missing_key", "-o FILE"),
        ("csv", str(tmp_path), "exists", str(tmp_path)),
        (None, str(tmp_path / "x.xlsx"), "bad_value", ".xlsx"),
        ("csv", str(tmp_path / "no" / "x.csv"), "missing_file", str(tmp_path / "no")),
    ]
    for format_, output, kind, name in cases:
        with fails(kind, name):
            answer("SELECT 1", format_, output, store, None)
    open_store(str(tmp_path / "empty"))
    for folder in ("empty", "none"):
        with pytest.raises((BadInput, StoreError), match=folder):
            answer("SELECT 1", "table", None, str(tmp_path / folder), None)


@pytest.mark.parametrize(
    "query",
    [
        "SHOW TABLES",
        "DESCRIBE",
        "SELECT table_name FROM information_schema.tables",
        "SELECT tablename FROM PG_TABLES UNION SELECT viewname FROM pg_views",
    ],
)
def test_what_lists_tables_lists_those_that_it_does_not_name(
    store: str, capsys: pytest.CaptureFixture[str], query: str
) -> None:
    answer(query, "csv", None, store, None)
    listed = capsys.readouterr().out
    assert all(name in listed for name in ("sentences", "triplets", "runs"))


def test_a_run_can_be_named_and_a_part_be_looked_at_while_it_is_made(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = open_store(store)
    make_artifact(opened, "ingest", "cccc3333", {"sentences": SENTENCES.slice(0, 1)})
    make_artifact(opened, "select", "dddd4444", {"triplets": SENTENCES.slice(0, 2)}, finished=False)
    make_run(opened, "other", {"ingest": ("cccc3333", "made", {"sentences": 1})}, state=None)
    for run_ref, query, count in (
        (None, "FROM sentences", 1),
        ("birds", "FROM sentences", 3),
        (None, "FROM partial.triplets", 2),
    ):
        answer(f"SELECT count(*) {query}", "csv", None, store, run_ref)
        assert capsys.readouterr().out.splitlines()[1] == str(count)


def test_exit_codes_and_queries_from_a_pipe(store: str) -> None:
    good = tercet(
        "sql", "--store", store, "--format", "csv", stdin="SELECT 1 AS a;\nSELECT\n2 AS b"
    )
    assert (good.returncode, good.stdout) == (0, "a\n1\nb\n2\n")
    bad = tercet("sql", "SELEC", "--store", store)
    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)
    assert bad.stderr.startswith("tercet: ")


def test_a_reader_that_goes_away_is_no_error(store: str) -> None:
    script = "from tercet.flows.cli import main; main()"
    query = "SELECT i, repeat('x', 100) FROM range(200000) r(i)"
    words = [sys.executable, "-c", script, "sql", query, "--format", "csv", "--store", store]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(1000)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(600) == 0


class Terminal:
    """The prompt on a pseudo-terminal."""

    def __init__(self, store: str, home: Path) -> None:
        script = "from tercet.flows.cli import main; main()"
        self.waiting = ""
        # What is read at once may end in the midst of a character.
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            # A test run in the background ignores SIGINT, and its children would.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.environ.update(HOME=str(home), XDG_STATE_HOME=str(home), TERM="dumb")
            os.execv(sys.executable, [sys.executable, "-c", script, "sql", "--store", store])

    def type(self, text: bytes) -> None:
        os.write(self.handle, text)

    def read(self) -> None:
        """Takes what has come, or comes within a second."""
        if select.select([self.handle], [], [], 1)[0]:
            self.waiting += self.decoder.decode(os.read(self.handle, 65536))

    def read_until(self, wanted: str) -> str:
        """What comes up to and with these words; the rest is kept for the next time."""
        end = time.monotonic() + 600
        while wanted not in self.waiting:
            assert time.monotonic() < end, f"{wanted!r} did not come: {self.waiting!r}"
            self.read()
        text, _, self.waiting = self.waiting.partition(wanted)
        return text + wanted

    def interrupt(self) -> None:
        """Ctrl-C while a line is typed, pressed again for as long as no new prompt comes.

        Python's reading of a line echoes a character and then waits for the next; a signal between
        the two is only heard with the next key. One that was heard, and answered late, must not be
        followed by another: so it is pressed when the prompt sleeps, and seldom again.
        """
        process = psutil.Process(self.pid)
        assert until(lambda: process.status() == psutil.STATUS_SLEEPING)
        for _ in range(10):
            self.type(b"\x03")
            again = time.monotonic() + 60
            while "tercet> " not in self.waiting and time.monotonic() < again:
                self.read()
            if "tercet> " in self.waiting:
                break
        self.read_until("tercet> ")

    def end(self) -> int:
        # The line discipline keeps the end from coming before what was written is read.
        while select.select([self.handle], [], [], 600)[0]:
            try:
                if not os.read(self.handle, 65536):
                    break
            except OSError:
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_the_prompt(store: str, tmp_path: Path) -> None:
    terminal = Terminal(store, tmp_path)
    terminal.read_until("tercet> ")
    terminal.type(b"SELECT count(*) * 14\n")
    terminal.read_until("...> ")
    terminal.type(b"AS n FROM sentences;\n")
    assert "42" in terminal.read_until("1 row")
    terminal.read_until("tercet> ")
    terminal.type(b"SELECT no_such FROM sentences;\n")
    assert "Binder Error" in terminal.read_until("tercet> ")
    terminal.type(b".tables\n")
    shown = terminal.read_until("tercet> ")
    assert any(line.split() == ["sentences", "3"] for line in shown.splitlines())
    terminal.type(b".schema sentences\n")
    shown = terminal.read_until("tercet> ")
    assert "UBIGINT" in shown
    assert "id of `text`" in shown
    terminal.type(b"SELECT half a thought")
    terminal.read_until("thought")
    terminal.interrupt()
    process = psutil.Process(terminal.pid)
    before = process.cpu_times().user
    terminal.type(
        b"SELECT count(*) FROM range(1000000000000000) a(i), range(10000) b(j) WHERE i = j+1;\n"
    )
    # It is at work on this, and not on reading the line or on opening the store.
    assert until(lambda: process.cpu_times().user > before + 5.0)
    os.kill(terminal.pid, signal.SIGINT)
    terminal.read_until("cancelled")
    terminal.read_until("tercet> ")
    terminal.type(b"\x04")
    assert terminal.end() == 0
