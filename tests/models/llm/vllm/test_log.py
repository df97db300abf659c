"""A log is cut while its writer goes on, and its cause of death is found."""

import subprocess
import sys
from pathlib import Path

import pytest

from tercet.models.llm.vllm import log
from tercet.models.llm.vllm.log import telling_lines

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


def test_the_cause_is_told_and_not_its_echo(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        "(APIServer pid=7) INFO 11-21 16:18:24 [api.py:1] an ordinary line\n"
        "(EngineCore pid=8) ERROR 11-21 16:18:24 [core.py:15] Traceback (most recent call last):\n"
        '(EngineCore pid=8) ERROR 11-21 16:18:24 [core.py:15]   File "core.py", line 9, in run\n'
        "(EngineCore pid=8) ERROR 11-21 16:18:24 [core.py:15] ValueError: heads must be even\n"
        "(EngineCore pid=8) ValueError: heads must be even\n"
        "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert telling_lines(path) == ["ValueError: heads must be even"]
    since = path.stat().st_size
    with path.open("a") as file:
        file.write("only this\nand that\n\n")
    assert telling_lines(path, since) == ["only this", "and that"]
    path.write_text(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, too long [type=value_error, input_value=ArgsKwargs((), {'model': 'x'})]\n"
    )
    assert telling_lines(path) == ["too long"]
    assert telling_lines(tmp_path / "none") == []


def test_what_every_server_prints_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    noise = (
        "(APIServer pid=7) INFO 11-21 17:08:08 [core_client.py:770] shutdown\n"
        "INFO:     Application shutdown complete.\n"
        "api_server.py:24: DeprecationWarning: `api_server` is deprecated\n  warnings.warn(\n"
        'nanobind: leaked 4 instances!\n - leaked type "location"\n - ... skipped remainder\n'
        "See https://nanobind.readthedocs.io/en/latest/refleaks.html\n\n"
    )
    path.write_text(noise)
    assert telling_lines(path) == []
    before = "(APIServer pid=7) ERROR 11-21 17:08:08 [async_llm.py:906] "
    echo = "EngineDeadError: EngineCore encountered an issue. See stack trace (above)."
    path.write_text(f"{noise}and this\n{before}{echo}\nRuntimeError: cancelled\n{noise}")
    assert telling_lines(path) == [echo, "RuntimeError: cancelled"]
    path.write_text(f"{before}{echo}\n{before}torch.OutOfMemoryError: 3 GiB\n{noise}")
    assert telling_lines(path) == ["torch.OutOfMemoryError: 3 GiB"]
