"""The GPUs of this machine: which this process may use, who gets which, and whose turn it is."""

import fcntl
import importlib.util
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
# One file per card, in a folder that all users' processes on the machine see.
TURNS = Path("/tmp/tercet-gpus")
_POLL = 0.1
_LINE = re.compile(r"^ *(GPU|MIG) .*\(UUID: (\S+)\)", re.MULTILINE)


@dataclass(frozen=True)
class Card:
    """A GPU, or an instance of one that is cut into several.

    name: as `CUDA_VISIBLE_DEVICES` has it. key: its UUID where it is known, for its turn.
    """

    name: str
    key: str


def cards() -> tuple[Card, ...]:
    """The cards that this process may use; torch's `cuda` is the first."""
    listed = visible(os.environ.get(VISIBLE), _listed())
    if listed or VISIBLE in os.environ:
        return listed
    # Cards of another maker than NVIDIA, or a machine without nvidia-smi.
    import torch

    return tuple(Card(str(number), str(number)) for number in range(torch.cuda.device_count()))


def visible(setting: str | None, listed: Sequence[Sequence[Card]]) -> tuple[Card, ...]:
    """The cards of the machine that a process may use.

    setting: the value of `CUDA_VISIBLE_DEVICES`, None if it is not set: numbers, or UUIDs, whose
    ends may be missing. As in CUDA, a card that does not exist ends the list.
    listed: as from `parse_cards`; empty if unknown.
    """
    every = [card for of_gpu in listed for card in of_gpu]
    if setting is None:
        return tuple(every)
    chosen: list[Card] = []
    for word in (word.strip() for word in setting.split(",")):
        if word.isdigit() and (not listed or int(word) < len(listed)):
            chosen.append(Card(word, listed[int(word)][0].key if listed else word))
        elif word.startswith(("GPU-", "MIG-")):
            alike = [card.key for card in every if card.key.startswith(word)]
            chosen.append(Card(word, alike[0] if len(alike) == 1 else word))
        else:
            break
    return tuple({card.key: card for card in chosen}.values())


def parse_cards(text: str) -> list[list[Card]]:
    """The cards in the output of `nvidia-smi -L`; for a card that is cut, its slices."""
    gpus: list[list[Card]] = []
    for kind, uuid in _LINE.findall(text):
        if kind == "GPU":
            gpus.append([Card(str(len(gpus)), uuid)])
        else:
            whole = [card for card in gpus[-1] if card.name != card.key]
            gpus[-1] = [*([] if whole else gpus[-1]), Card(uuid, uuid)]
    return gpus


def assign(cards: Sequence[Card], count: int) -> tuple[Card | None, ...]:
    """A card for each of `count` processes; with too few cards, processes share them in turn."""
    return tuple(cards[place % len(cards)] if cards else None for place in range(count))


@contextmanager
def turn(cards: Sequence[Card], say: Callable[[str], None]) -> Iterator[None]:
    """Computes on these cards while no other process does; the system ends a killed one's turn."""
    with ExitStack() as held:
        # Every process takes cards in this order, so that no two wait for each other.
        for card in sorted(cards, key=lambda card: card.key):
            handle = _opened(card)
            held.callback(os.close, handle)
            announced = False
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if not announced:
                    announced = True
                    say(f"waits for the GPU {card.name}, on which another process computes")
                time.sleep(_POLL)
        yield


def _opened(card: Card) -> int:
    with suppress(FileExistsError):
        TURNS.mkdir()
        TURNS.chmod(0o1777)
    path = TURNS / re.sub(r"[^A-Za-z0-9._-]", "_", card.key)
    # Any user may have put a link at this path, or a pipe that nobody writes.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    # The system opens another user's file here, but not with O_CREAT.
    with suppress(FileNotFoundError):
        return os.open(path, flags)
    return os.open(path, flags | os.O_CREAT, 0o644)


@cache
def _listed() -> list[list[Card]]:
    try:
        done = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return parse_cards(done.stdout)


def device(name: str) -> str:
    """The device that `auto` stands for: the first GPU that torch can use, or the CPU."""
    if name != "auto":
        return name
    # Importing torch takes seconds, which a build for the CPU need not cost.
    if torch_build() is None:
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def torch_build() -> str | None:
    """The GPUs that the installed torch was built for, as in `CUDA 13.0` or `ROCm 6.4`.

    None if it was built for none. It is read from torch's files, without importing it.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    build = re.search(r"^(cuda|hip)\b[^=]*=\s*['\"](\d+\.\d+)", text, re.MULTILINE)
    return build and f"{'CUDA' if build[1] == 'cuda' else 'ROCm'} {build[2]}"
