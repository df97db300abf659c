import os
import stat
from importlib import metadata
from pathlib import Path

import pytest
import toy_objects

from tercet.flows.commands import doctor
from tercet.storage.store import SCHEMES, open_store


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what takes time or depends on the machine."""
    fine = [doctor.Finding("ok", "stub", "")]
    for name in ("prefect", "gpu", "minilm", "libraries"):
        monkeypatch.setattr(doctor, name, lambda: fine)
    monkeypatch.setattr(doctor, "machine", lambda store: fine)


@pytest.mark.usefixtures("quick")
def test_a_machine_that_can_is_0_and_nothing_is_made(tmp_path: Path) -> None:
    assert doctor.examine(str(tmp_path / "new" / "store")) == 0
    assert not (tmp_path / "new").exists()
    open_store(str(tmp_path / "there"))
    assert doctor.examine(str(tmp_path / "there")) == 0


def test_a_store_that_a_package_opens_is_asked_and_no_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCHEMES, "toy", toy_objects.opened)
    (findings,) = doctor.writable(f"toy://{tmp_path}/objects.db")
    assert (findings.state, findings.says[:3]) == ("ok", "toy")


@pytest.mark.usefixtures("quick")
def test_a_store_that_cannot_be_written_is_2(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for location in (str(tmp_path / "file"), str(tmp_path), "ftp://server", "s3:/bucket/store"):
        assert doctor.examine(location) == 2
    if os.geteuid() != 0:
        locked = tmp_path / "locked"
        locked.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
        assert doctor.examine(str(locked / "store")) == 2


def test_pins_are_compared_with_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pins = ["numpy>=2.0", "duckdb<1", "no-such-package>=3", "nothing; extra == 'gpu'"]
    monkeypatch.setattr(metadata, "requires", lambda name: pins)
    python, *findings = doctor.libraries()
    assert (python.state, python.what) == ("ok", "python")
    assert [(finding.state, finding.what) for finding in findings] == [
        ("missing", "duckdb"),
        ("missing", "no-such-package"),
        ("ok", "libraries"),
    ]
    assert "pip install 'duckdb<1'" in findings[0].says


def test_weights_are_known_by_their_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.weights, "locate", lambda name: tmp_path)
    assert [finding.state for finding in doctor.minilm()] == ["missing"]
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    (finding,) = doctor.minilm()
    assert "unexpected weights" in finding.says
