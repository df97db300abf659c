"""An executor as somebody else might write one."""

import pickle
from collections.abc import Callable, Sequence

from tercet.flows.running.one_part import Part, PartOrder, commit_part
from tercet.flows.running.workers import Workers
from tercet.tasks.stage import silent


class Backwards:
    """Makes the last part first, each as it would arrive on another machine."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def map(
        self,
        order: PartOrder,
        parts: Sequence[Part],
        show: Callable[[int, int | None, str], None],
    ) -> None:
        self.said.append(order.step.name)
        sent = pickle.dumps((order, parts))
        for place in reversed(range(len(parts))):
            there, these = pickle.loads(sent)
            commit_part(there, these[place], silent)
            show(1, 1, "parts")

    def close(self) -> None:
        self.said.append("close")


# As a package names it in `tercet.executors`.
WORKERS = Workers("backwards", lambda settings, say: Backwards())
