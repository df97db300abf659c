"""A log is cut while its writer goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from tercet.models.llm.vllm import log

WRITER = """
import sys
for line in sys.stdin:
    print("line", line.strip(), "." * 90, flush=True)
    print("written", file=sys.stderr, flush=True)
"""


def test_a_log_is_cut_to_its_last_quarter_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MOST_BYTES", 4000)
    path = tmp_path / "server.log"
    assert not log.cut(path)
    with path.open("ab") as sink:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER],
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert writer.stdin is not None
    assert writer.stderr is not None
    cuts = 0
    for number in range(200):
        print(number, file=writer.stdin, flush=True)
        writer.stderr.readline()
        cuts += log.cut(path)
        assert path.stat().st_size <= 4000
    writer.communicate()
    assert cuts > 3
    lines = path.read_text().splitlines()
    assert lines[0] == "[earlier lines were cut]"
    numbers = [int(line.split()[1]) for line in lines[1:]]
    assert numbers == list(range(numbers[0], 200))
