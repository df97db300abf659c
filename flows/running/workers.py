"""Who makes the parts of a run: a number of processes here, or workers that `run.workers` names."""

import importlib.util
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from tercet.flows.recipe.model import RunSettings
from tercet.flows.running.executors import Executor, Processes
from tercet.models.plugins import with_installed
from tercet.tasks.stage import BadInput

Say = Callable[[str], None]

GROUP = "tercet.executors"
# Seconds that the head of a cluster may take to answer.
_ANSWER = 10.0


def _nothing() -> None:
    """The check of workers that need none."""


@dataclass(frozen=True)
class Workers:
    """Workers that `run.workers` can name.

    open: returns the executor of a run with these settings, and says what the run's user should
    know.
    check: raises BadInput if the workers cannot be had, as far as that shows before a run.
    """

    name: str
    open: Callable[[RunSettings, Say], Executor]
    check: Callable[[], None] = _nothing
    module: str = ""


def find_workers(settings: RunSettings) -> Workers | None:
    """The workers that the recipe names; None for a number of processes. Raises BadInput."""
    if isinstance(settings.workers, int):
        return None
    installed = with_installed(GROUP, (RAY,))
    workers = installed.get(settings.workers)
    if workers is None:
        raise BadInput(
            "unknown_name",
            f"run.workers: there are no workers {settings.workers!r}: give a number of processes, "
            f"or one of {', '.join(sorted(installed))}.",
        )
    workers.check()
    return workers


def open_executor(settings: RunSettings, say: Say) -> Executor:
    """The executor that makes the parts of a run with these settings. Raises BadInput."""
    named = find_workers(settings)
    return Processes(int(settings.workers), say) if named is None else named.open(settings, say)


def check_answer() -> None:
    """Raises BadInput if RAY_ADDRESS is one at which nobody answers.

    Ray itself would ask for minutes, and then end the process.
    """
    address = os.environ.get("RAY_ADDRESS", "")
    host, colon, port = address.rpartition(":")
    if colon:
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER).close()
        except (OSError, ValueError):
            raise BadInput(
                "unreachable",
                f"Nothing answers at RAY_ADDRESS ({address}): start the cluster's head with `ray "
                "start --head`, or correct the address.",
            ) from None


def _on_ray(settings: RunSettings, say: Say) -> Executor:
    from tercet.flows.running.ray_workers import RayWorkers

    check_answer()
    return RayWorkers(settings.device, say)


def check_ray() -> None:
    """Raises BadInput where Ray is missing, or RAY_ADDRESS is that of a cluster elsewhere."""
    if importlib.util.find_spec("ray") is None:
        raise BadInput(
            "missing_package", "run.workers: ray needs the package ray: pip install 'tercet[ray]'."
        )
    address = os.environ.get("RAY_ADDRESS", "")
    if "://" in address:
        raise BadInput(
            "bad_value",
            f"RAY_ADDRESS is {address}, but a run has to be inside the cluster: start it there, by "
            "`ray job submit` or on a node, with RAY_ADDRESS=auto.",
        )


RAY = Workers("ray", _on_ray, check_ray)
