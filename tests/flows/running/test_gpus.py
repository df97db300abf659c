"""Which GPUs a process may use, who gets which, and whose turn it is; without any GPU."""

import importlib.util
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from faulty_server import until
from stand_in_gpus import LISTED

from tercet.flows.running import gpus
from tercet.flows.running.gpus import Card, assign, device, parse_cards, torch_build, turn, visible

FIRST, SECOND = (uuid.removesuffix(")") for uuid in LISTED.split() if uuid.startswith("GPU-"))
TWO = parse_cards(LISTED)
CUT = parse_cards(
    LISTED.replace(
        "GPU 1",
        "  MIG 3g.40gb     Device  0: (UUID: MIG-aaaa)\n"
        "  MIG 3g.40gb     Device  1: (UUID: MIG-bbbb)\nGPU 1",
    )
)


def test_cards_are_read_and_those_that_are_cut_give_their_pieces() -> None:
    assert [[Card("0", FIRST)], [Card("1", SECOND)]] == TWO
    assert [[Card("MIG-aaaa", "MIG-aaaa"), Card("MIG-bbbb", "MIG-bbbb")], TWO[1]] == CUT
    assert parse_cards("No devices were found\n") == []


@pytest.mark.parametrize(
    ("named", "cards", "found"),
    [
        (None, TWO, [("0", FIRST), ("1", SECOND)]),
        ("1, 0", TWO, [("1", SECOND), ("0", FIRST)]),
        # As in CUDA: what follows one that is not there does not count.
        ("0,7,1", TWO, [("0", FIRST)]),
        ("-1,0", TWO, []),
        ("", TWO, []),
        ("NoDevFiles", TWO, []),
        ("0,0", TWO, [("0", FIRST)]),
        (SECOND[:8], TWO, [(SECOND[:8], SECOND)]),
        ("MIG-GPU-1234/1/0", TWO, [("MIG-GPU-1234/1/0", "MIG-GPU-1234/1/0")]),
        # Without a list the numbers are kept; instances are cards of their own.
        ("2,3", [], [("2", "2"), ("3", "3")]),
        (None, CUT, [("MIG-aaaa", "MIG-aaaa"), ("MIG-bbbb", "MIG-bbbb"), ("1", SECOND)]),
        ("MIG-b,1", CUT, [("MIG-b", "MIG-bbbb"), ("1", SECOND)]),
        # CUDA takes the first instance of a card that is named by its number.
        ("0", CUT, [("0", "MIG-aaaa")]),
    ],
)
def test_only_the_cards_that_the_user_named_are_used(
    named: str | None, cards: list[list[Card]], found: list[tuple[str, str]]
) -> None:
    assert [(card.name, card.key) for card in visible(named, cards)] == found


def test_each_process_has_a_card_and_where_there_are_too_few_it_is_shared() -> None:
    cards = visible(None, TWO)
    assert [card and card.name for card in assign(cards, 2)] == ["0", "1"]
    assert [card and card.name for card in assign(cards, 5)] == ["0", "1", "0", "1", "0"]
    assert assign((), 2) == (None, None)


def test_a_stand_in_for_nvidia_smi_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTED}END\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    gpus._listed.cache_clear()
    try:
        assert gpus.cards() == (Card("1", SECOND),)
    finally:
        gpus._listed.cache_clear()


HOLDS = """
import sys, time
from pathlib import Path
from tercet.flows.running import gpus
gpus.TURNS = Path(sys.argv[1])
with gpus.turn([gpus.Card("0", "GPU-0a53ef80")], print):
    print("holds", flush=True)
    time.sleep(3600)
"""


def test_a_killed_process_ends_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "TURNS", tmp_path / "turns")
    words = [sys.executable, "-c", HOLDS, str(tmp_path / "turns")]
    holder = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"holds\n"
    said: list[str] = []
    got = threading.Event()

    def wait() -> None:
        # By another name, the same card.
        with turn([Card("GPU-0a", "GPU-0a53ef80")], said.append):
            got.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert until(lambda: bool(said))
    with turn([Card("1", SECOND)], said.append):
        assert not got.is_set()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    waiting.join(60)
    assert got.is_set()
    assert "GPU-0a" in said[0]


def test_a_link_in_the_place_of_a_turn_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpus, "TURNS", tmp_path / "turns")
    gpus.TURNS.mkdir()
    (gpus.TURNS / "GPU-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), turn([Card("0", "GPU-1")], print):
        pass
    assert not (tmp_path / "elsewhere").exists()


CPU = "cuda: Optional[str] = None\nhip: Optional[str] = None\n"
CUDA = "cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n"
ROCM = "cuda: Optional[str] = None\nhip: Optional[str] = '6.4.43482-0f2d60242'\n"


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Puts a torch in the place of the installed one; importing it is an error unless it `sees`."""

    def install(version, sees=None):
        (tmp_path / "version.py").write_text(f"__version__ = '2.13.0'\ndebug = False\n{version}")
        spec = version and SimpleNamespace(origin=str(tmp_path / "__init__.py"))
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
        cuda = SimpleNamespace(is_available=lambda: sees)
        torch = None if sees is None else SimpleNamespace(cuda=cuda)
        monkeypatch.setitem(sys.modules, "torch", torch)

    return install


@pytest.mark.parametrize(
    ("version", "build", "sees", "found"),
    [
        (CPU, None, None, "cpu"),
        (CUDA, "CUDA 13.0", True, "cuda"),
        (CUDA, "CUDA 13.0", False, "cpu"),
        (ROCM, "ROCm 6.4", True, "cuda"),
    ],
)
def test_auto_asks_torch_unless_it_is_the_build_for_the_cpu(built, version, build, sees, found):
    built(version)
    assert torch_build() == build
    built(version, sees)
    assert device("auto") == found
    assert device("cuda:1") == "cuda:1"
    built(None)
    assert device("auto") == "cpu"
