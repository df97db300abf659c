"""What a store's Prefect server does beside serving."""

from pathlib import Path

import pytest

from tercet.flows.service import server_process
from tercet.models.llm.vllm import log


def test_a_server_cuts_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "MOST_BYTES", 1000)
    (tmp_path / "server.log").write_text("a line\n" * 1000)
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            raise InterruptedError

    monkeypatch.setattr(server_process.time, "sleep", sleep)
    with pytest.raises(InterruptedError):
        server_process._stop_when_alone(tmp_path)
    assert (tmp_path / "server.log").stat().st_size < 300
