"""A Ray cluster of several nodes on this machine, each of one CPU."""

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

# A dead node is noticed at once, one that hangs after a while.
_WATCHED = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 3,
}
_MEMORY = 80 * 2**20
SUPPORT = Path(__file__).parent


@dataclass
class Nodes:
    """The cluster: a head without a CPU, two nodes, and those that a test adds.

    folder: where parts meet (`toy_steps`).
    """

    cluster: Any
    folder: Path

    def add(self, **variables: str) -> Any:
        """A node with these variables in its environment."""
        folders = [*variables.pop("PYTHONPATH", "").split(), str(SUPPORT)]
        own = {"PYTHONPATH": os.pathsep.join(folders), "TOY_FOLDER": str(self.folder)}
        return self.cluster.add_node(
            num_cpus=1, object_store_memory=_MEMORY, env_vars={**own, **variables}
        )

    def stop(self, node: Any, number: signal.Signals) -> None:
        """Sends all processes of a node this signal."""
        raylet = psutil.Process(node.all_processes["raylet"][0].process.pid)
        for process in (raylet, *raylet.children(recursive=True)):
            process.send_signal(number)

    def remove(self, node: Any) -> None:
        """Takes a node out of the cluster, however it fares."""
        self.stop(node, signal.SIGKILL)
        self.cluster.remove_node(node, allow_graceful=False)


@pytest.fixture(scope="session")
def ray_nodes(ray_package: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """The cluster, at RAY_ADDRESS."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("OMP_NUM_THREADS", "1")
        # The folder that Ray's sockets lie in must have a short name.
        patch.delenv("TMPDIR", raising=False)
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "object_store_memory": _MEMORY, "include_dashboard": False}
        cluster = Cluster(True, head_node_args={**head, "_system_config": _WATCHED})
        made = Nodes(cluster, tmp_path_factory.mktemp("meeting"))
        patch.setenv("RAY_ADDRESS", cluster.address)
        try:
            for _ in range(2):
                made.add()
            yield made
        finally:
            if "ray" in sys.modules:
                import ray

                ray.shutdown()
            cluster.shutdown()
