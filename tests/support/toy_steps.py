"""A step that reads nothing and says who made each row; workers import it by name."""

import os
import signal
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tercet.flows.pipeline.step import Step
from tercet.flows.running.one_part import Part, PartOrder
from tercet.storage.store import Store
from tercet.tasks.stage import BadInput, Config, Resources, Stage, Work

_COLUMNS = [("x", pa.int64()), ("pid", pa.int64()), ("loaded", pa.string()), ("gpus", pa.string())]
TABLES = {"rows": pa.schema(_COLUMNS)}
_COMPONENTS = {"stage": "toy", "config": {}, "code": "", "libraries": {}, "externals": {}}


def _load(work: Work) -> str:
    return uuid.uuid4().hex


def run(work: Work) -> None:
    """One row. spec: x, and `does` for a part that fails, is killed, takes long, or waits."""
    does = work.spec.get("does")
    if does == "fail":
        raise BadInput("bad_value", "the part is bad: mend it.")
    if does == "refuse":
        raise ConnectionRefusedError("the scorer refuses")
    if does == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if does == "wait":
        Path(work.scratch, "waits").touch()
        time.sleep(3600)
    if does == "meet":
        # On two machines it never ends; all others wait until it is at work there.
        folder = Path(os.environ["TOY_FOLDER"])
        if "TOY_STUCK" in os.environ:
            Path(folder, os.environ["TOY_STUCK"]).touch()
            time.sleep(3600)
        while len(list(folder.iterdir())) < 2:
            time.sleep(0.05)
    if does == "share":
        # The first worker waits for the second one.
        folder = Path(os.environ["TOY_FOLDER"])
        Path(folder, str(os.getpid())).touch()
        while len(list(folder.iterdir())) < 2:
            time.sleep(0.05)
    # So that every worker gets a share.
    time.sleep(0.05)
    row = {"x": work.spec["x"], "pid": os.getpid(), "loaded": work.once(_load)}
    row["gpus"] = os.environ.get("CUDA_VISIBLE_DEVICES")
    work.emit("rows", pa.Table.from_pylist([row], TABLES["rows"]))


def toy_order(
    store: Store,
    version: str = "aaaa",
    device: str = "cpu",
    models: Mapping[str, Path] | None = None,
    run_id: str = "",
) -> PartOrder:
    """The order of a step `toy`, which computes nothing on its device."""
    return PartOrder(
        store=store,
        step=Step("toy", Stage("toy", Config, TABLES, run), Config()),
        version=version,
        seed=1,
        components={**_COMPONENTS, "version": version, "inputs": {}, "models": {}},
        inputs={},
        schemas={},
        models=models or {},
        model_digests={},
        resources=Resources(device=device),
        run=run_id,
    )


def toy_parts(order: PartOrder, count: int, **does: str) -> list[Part]:
    """Its parts. does: by `x` and a number, what that part does, such as x3="fail"."""
    specs: list[dict[str, Any]] = [{"x": x} for x in range(count)]
    for name, what in does.items():
        specs[int(name[1:])]["does"] = what
    plan = order.artifact().adopt_plan([{"spec": spec} for spec in specs])
    return [order.part(index, entry) for index, entry in enumerate(plan)]
