"""Parts made all over a Ray cluster, within which this process runs: the only import of Ray.

Ray starts workers and says who has died; only the store knows which parts are made. Readers
therefore never see a part twice, even if it was sent again: the store has one record of it.
"""

import logging
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray import exceptions

from tercet.flows.running.executors import Processes, Progress
from tercet.flows.running.one_part import Part, PartOrder
from tercet.flows.running.other_machines import follow, making, sent
from tercet.flows.running.processes import outcome
from tercet.models.errors import Stopped
from tercet.tasks.stage import BadInput

# How often a part is sent again after its worker or node has died, and after memory ran out.
TRIES, TRIES_OF_MEMORY = 3, 1
STARVED = "ran out of memory"
# Parts on their way to each slot, so that no slot waits for its next part.
WINDOW = 2
# Seconds: between looks at the cluster; between signs of life of a part; until a part without signs
# of life is taken for lost; until a part that does not begin, though there is room, is taken for
# lost.
GLANCE, BEAT, SILENT, UNSTARTED = 1.0, 5.0, 60.0, 120.0


class RayWorkers:
    """The executor of `run.workers: ray`.

    Parts are plain tasks of one CPU each. If the step reads a model, its parts go to actors, which
    load the model once: one actor for each GPU, or for each CPU in a cluster without GPUs. A single
    part is made in this process, and so are all parts that read a model if this process has the
    only GPU.

    device: as the recipe names it.
    """

    def __init__(self, device: str, say: Callable[[str], None]) -> None:
        self._device = device
        self._say = say
        self._joined = False
        # Nodes that have died or hang, which Ray notices late.
        self._avoided: set[str] = set()

    def map(self, order: PartOrder, parts: Sequence[Part], show: Progress) -> None:
        """See `Executor.map`. Raises Stopped for a part whose workers die again and again."""
        if len(parts) > 1:
            self._join()
            reads_model = bool(order.models)
            gpus = reads_model and self._device != "cpu" and _free_gpus()
            if gpus or not reads_model or order.resources.device == "cpu":
                order_ref = ray.put(sent(order, "cuda" if gpus else "cpu"))
                kind = "GPU" if gpus else "CPU"
                way = _Way(order.step.name, order_ref, kind, reads_model, self._say, self._avoided)
                try:
                    way.send(deque(parts), show)
                finally:
                    way.close()
                return
        Processes(1, self._say).map(order, parts, show)

    def close(self) -> None:
        """Leaves the cluster, where the workers of this run end; `map` joins it again."""
        if self._joined:
            ray.shutdown()
            self._joined = False

    def _join(self) -> None:
        # The caller may have joined the cluster already.
        if not ray.is_initialized():
            join()
            self._joined = True


def join() -> None:
    """Joins the cluster at RAY_ADDRESS, one on this machine, or a new one of this machine alone.

    Raises BadInput.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ours = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise BadInput(
            "unreachable",
            f"The Ray cluster cannot be joined ({reason}): start a node of it on this machine with "
            "`ray start`, or this command by `ray job submit`.",
        ) from error
    finally:
        if ours is not None and threading.current_thread() is threading.main_thread():
            # Ray has replaced the handler of SIGTERM: restore it.
            signal.signal(signal.SIGTERM, ours)


def described() -> str:
    """The cluster's nodes and what they have. Raises BadInput where it cannot be joined."""
    join()
    try:
        nodes = sum(node["Alive"] for node in ray.nodes())
        counts = {kind: sum(_slots(kind).values()) for kind in ("CPU", "GPU")}
        return f"nodes: {nodes}, CPUs: {counts['CPU']}, GPUs: {counts['GPU']}"
    finally:
        ray.shutdown()


def _slots(kind: str) -> dict[str, int]:
    """How many CPUs or GPUs each living node has that has any, by its id."""
    nodes = {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}
    counts = {node: int(resources.get(kind, 0)) for node, resources in nodes.items()}
    return {node: count for node, count in counts.items() if count}


def _free(kind: str) -> int:
    return int(ray.available_resources().get(kind, 0))


def _free_gpus() -> int:
    """GPUs that nobody has reserved; a GPU whose actor has just ended counts a moment later."""
    patient_until = time.monotonic() + 2 * GLANCE
    while _slots("GPU") and not _free("GPU") and time.monotonic() < patient_until:
        time.sleep(GLANCE / 10)
    return _free("GPU")


@dataclass(eq=False)
class _Lane:
    """Where parts are sent to: an actor, or all CPUs.

    sent: its parts on their way.
    """

    actor: Any = None
    slots: int = 1
    sent: int = 0


@dataclass
class _Attempt:
    """A part on its way. node: where it is made, once begun. silent: seconds without a word."""

    part: Part
    lane: _Lane
    node: str = ""
    silent: float = 0.0


@dataclass
class _Way:
    """One step's parts on their way to the cluster.

    kind: CPU or GPU, of which each part needs one. coming: lanes of actors that fetch the order.
    avoided: the nodes that died or hang. lost: how often a part's worker went, and whether for
    want of memory. empty: seconds without any slot. failed: actors that died before they began.
    """

    step: str
    order: Any
    kind: str
    reads_model: bool
    say: Callable[[str], None]
    avoided: set[str]
    lanes: list[_Lane] = field(default_factory=list)
    coming: dict[Any, _Lane] = field(default_factory=dict)
    attempts: dict[Any, _Attempt] = field(default_factory=dict)
    lost: Counter[tuple[int, bool]] = field(default_factory=Counter)
    empty: float = 0.0
    failed: int = 0

    def send(self, waiting: deque[Part], show: Progress) -> None:
        """Sends the parts, a few at a time, until all are made.

        Raises the error of the first one that fails; BadInput if a node is not like this machine.
        """
        self._widen(len(waiting), 0.0)
        looked = time.monotonic()
        while waiting or self.attempts:
            # A driver that was suspended has heard no worker, so this time does not count in full.
            elapsed = min(time.monotonic() - looked, 2 * GLANCE)
            if elapsed > GLANCE:
                looked = time.monotonic()
                self._widen(len(waiting) + len(self.attempts), elapsed)
                self._watch(elapsed, waiting)
            while waiting and (lane := self._roomy()) is not None:
                self._start(waiting.popleft(), lane)
            for ref in self._heard():
                if ref in self.coming:
                    self._arrived(ref)
                elif ref in self.attempts:
                    self._hear(ref, waiting, show)

    def close(self) -> None:
        """Ends the parts that are still on their way."""
        for attempt in list(self.attempts):
            self._drop(attempt)
        for lane in (*self.lanes, *self.coming.values()):
            if lane.actor is not None:
                ray.kill(lane.actor)

    def _widen(self, lanes_wanted: int, elapsed: float) -> None:
        """Takes the slots that have come, up to one for each part that is left.

        Raises Stopped if there have been none for long.
        """
        slots = _slots(self.kind)
        self.avoided &= slots.keys()
        if self.avoided == slots.keys():
            # If all nodes are avoided, use them rather than none.
            self.avoided.clear()
        room = sum(count for node, count in slots.items() if node not in self.avoided)
        self.empty = 0.0 if room else self.empty + elapsed
        if self.empty > UNSTARTED:
            raise Stopped(
                "unreachable",
                f"{self.step}: the Ray cluster has had no {self.kind} for {UNSTARTED:.0f} s: start "
                "a node of it, and type the same command again.",
            )
        if not self.reads_model:
            self.lanes = self.lanes or [_Lane()]
            self.lanes[0].slots = room
            return
        while len(self.lanes) + len(self.coming) < min(room, lanes_wanted):
            if self.failed > TRIES + room:
                if self.lanes or self.coming:
                    break
                raise Stopped(
                    "lost",
                    f"{self.step}: the workers of the Ray cluster die before they begin: look at "
                    "`ray status` and at Ray's logs, and type the same command again.",
                )
            one = {f"num_{self.kind.lower()}s": 1}
            options = {"num_cpus": 0, **one, "max_restarts": 0, **self._elsewhere()}
            actor = ray.remote(_Holder).options(**options).remote()
            self.coming[actor.arrive.remote([self.order])] = _Lane(actor)

    def _elsewhere(self) -> dict[str, Any]:
        avoided = ",".join(sorted(self.avoided))
        return {"label_selector": {"ray.io/node-id": f"!in({avoided})"}} if avoided else {}

    def _roomy(self) -> _Lane | None:
        """The lane with the fewest parts a slot, if it has room."""
        open_lanes = [lane for lane in self.lanes if lane.sent < WINDOW * lane.slots]
        return min(open_lanes, key=lambda lane: lane.sent / lane.slots, default=None)

    def _start(self, part: Part, lane: _Lane) -> None:
        arguments = ([self.order], part, BEAT)
        if lane.actor is not None:
            ref = lane.actor.make.options(num_returns="streaming").remote(*arguments)
        else:
            options = {"num_cpus": 1, "max_retries": 0, **self._elsewhere()}
            ref = ray.remote(_make).options(num_returns="streaming", **options).remote(*arguments)
        self.attempts[ref] = _Attempt(part, lane)
        lane.sent += 1

    def _heard(self) -> list[Any]:
        refs = [*self.coming, *self.attempts]
        if not refs:
            time.sleep(GLANCE)
            return []
        return list(ray.wait(refs, num_returns=1, timeout=GLANCE, fetch_local=False)[0])

    def _arrived(self, ref: Any) -> None:
        """Opens the lane of an actor that has its order, or raises why it cannot have it."""
        lane = self.coming.pop(ref)
        try:
            error = ray.get(ref)
        except exceptions.RayTaskError as fault:
            raise _foreign(self.step, fault) from fault
        except exceptions.RayError:
            # A new actor takes the place of the failed one, a limited number of times.
            self.failed += 1
            return
        if error is not None:
            ray.kill(lane.actor)
            raise error
        self.lanes.append(lane)

    def _hear(self, ref: Any, waiting: deque[Part], show: Progress) -> None:
        """Takes what an attempt says: where it is, that it lives, or how it ended."""
        attempt = self.attempts[ref]
        try:
            message = ray.get(next(ref))
        except exceptions.RayTaskError as fault:
            raise _foreign(self.step, fault) from fault
        except (exceptions.RayError, StopIteration) as fault:
            if isinstance(fault, exceptions.NodeDiedError) and attempt.node:
                self.avoided.add(attempt.node)
            starved = isinstance(fault, exceptions.OutOfMemoryError)
            self._lose(ref, waiting, STARVED if starved else "died")
        else:
            attempt.silent = 0.0
            if isinstance(message, str):
                attempt.node = message
            elif message is not None:
                self._forget(ref)
                if message[0] is not None:
                    raise message[0]
                show(1, 1, "parts")

    def _watch(self, elapsed: float, waiting: deque[Part]) -> None:
        """Loses attempts that fell silent, or that do not begin though a worker is free."""
        free = _free(self.kind)
        busy = {id(attempt.lane) for attempt in self.attempts.values() if attempt.node}
        for ref, attempt in list(self.attempts.items()):
            full = id(attempt.lane) in busy if self.reads_model else not free
            if not attempt.node and full:
                attempt.silent = 0.0
                continue
            attempt.silent += elapsed
            if ref in self.attempts and attempt.silent > (SILENT if attempt.node else UNSTARTED):
                if attempt.node:
                    self.avoided.add(attempt.node)
                self._lose(ref, waiting, "fell silent")

    def _lose(self, ref: Any, waiting: deque[Part], how: str) -> None:
        """Sends a part again whose worker or node is gone. Raises Stopped after too many times."""
        if self.reads_model and not self.attempts[ref].node:
            # The actor died of the part that it was making, so that part is lost, not the next one.
            lane = self.attempts[ref].lane
            ref = next((o for o, a in self.attempts.items() if a.lane is lane and a.node), ref)
        attempt, index, starved = self.attempts[ref], self.attempts[ref].part.index, how == STARVED
        where = f"its worker {how} on the node {attempt.node}" if attempt.node else "it never began"
        self.lost[index, starved] += 1
        if starved and self.lost[index, starved] > TRIES_OF_MEMORY:
            key = "run.batch_size" if self.reads_model else "run.memory_limit or run.part_rows"
            raise Stopped(
                "limit",
                f"{self.step}: the memory of a node ran out for part {index}, twice: lower {key}, "
                "and type the same command again.",
            )
        if self.lost[index, starved] > TRIES:
            raise Stopped(
                "lost",
                f"{self.step}: part {index} was lost {TRIES + 1} times, at last as {where}: look "
                "at `ray status` and at Ray's logs there, and type the same command again.",
            )
        self._again(ref, waiting, where)

    def _again(self, ref: Any, waiting: deque[Part], why: str) -> None:
        """Puts a part back, and the parts that wait for its dead actor, lest they wait for ever."""
        attempt = self.attempts[ref]
        self.say(f"{self.step:<32} sends part {attempt.part.index} again: {why}")
        gone = [ref]
        if attempt.lane.actor is not None:
            gone += [other for other, a in self.attempts.items() if a.lane is attempt.lane]
            self.lanes.remove(attempt.lane)
            ray.kill(attempt.lane.actor)
        elif attempt.node in self.avoided:
            gone += [other for other, a in self.attempts.items() if not a.node]
        for other in dict.fromkeys(gone):
            waiting.appendleft(self.attempts[other].part)
            self._drop(other)

    def _drop(self, ref: Any) -> None:
        attempt = self._forget(ref)
        if attempt.lane.actor is None:
            ray.cancel(ref, force=True)

    def _forget(self, ref: Any) -> _Attempt:
        attempt = self.attempts.pop(ref)
        attempt.lane.sent -= 1
        return attempt


def _foreign(step: str, fault: Exception) -> BaseException:
    """The error of a worker that could not even begin."""
    last = str(fault).strip().splitlines()[-1]
    return BadInput(
        "conflict",
        f"{step}: a worker of the Ray cluster cannot make its parts ({last}): install the driver's "
        "versions of Tercet and of all that it needs on every node.",
    )


# The functions below run on the nodes. The order arrives as a reference inside a list, so that Ray
# does not fetch it for every part.


def _make(order: Sequence[Any], part: Part, beat: float) -> Iterator[Any]:
    """Makes a part: yields the node's id, then None every `beat` seconds, at last the outcome."""
    yield ray.get_runtime_context().get_node_id()
    yield from making(order[0], ray.get, part, beat)


class _Holder:
    """An actor for the parts of a step that reads a model."""

    def arrive(self, order: Sequence[Any]) -> BaseException | None:
        """The error, if the order cannot be followed here; before any part is sent."""
        return outcome(follow, order[0], ray.get)

    def make(self, order: Sequence[Any], part: Part, beat: float) -> Iterator[Any]:
        """Makes a part in an actor; see `_make`."""
        yield from _make(order, part, beat)
