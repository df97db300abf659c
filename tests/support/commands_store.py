"""A small store for the tests of commands: real artifacts and runs, made by the writer's API."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tercet.storage import fingerprint, runs
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.part_writer import PartWriter
from tercet.storage.store import Store, open_store
from tercet.tasks.knowledge.graph import KG_EDGES, KG_NODES

SENTENCES = pa.table(
    {
        "sentence_id": pa.array([11, 12, 13], pa.uint64()),
        "text": ["A heron waits.", 'She said "no", twice.', "Rain,\nthen sun."],
        "n_words": pa.array([3, 4, 3], pa.int32()),
    }
)


def make_artifact(
    store: Store,
    step: str,
    version: str,
    tables: Mapping[str, pa.Table],
    manifest: Mapping[str, Any] | None = None,
    model: Path | None = None,
    finished: bool = True,
) -> Artifact:
    """An artifact of one part; unfinished ones have a second part in their plan."""
    artifact = open_artifact(store, step, version)
    artifact.adopt_plan([{"spec": {}}] if finished else [{"spec": {}}, {"spec": {}}])
    schemas = {name: table.schema for name, table in tables.items()}
    with PartWriter(artifact.scratch() / "staging", schemas, 1000) as writer:
        for name, table in tables.items():
            if table.num_rows:
                writer.emit(name, table)
        artifact.commit(0, writer.close(model), f"{step}-{version}", {})
    if finished:
        components = {"stage": step.partition(".")[0], "config": {"size": 3}, "code": "c0de"}
        artifact.finish({"components": components, "seconds": 1.5, **(manifest or {})})
    return artifact


def make_run(
    store: Store,
    recipe: str,
    steps: Mapping[str, tuple[str, str, Mapping[str, int]]],
    content: Mapping[str, Any] | None = None,
    state: str | None = "done",
) -> str:
    """A run whose steps are name to (version, state, rows by table); no state: it crashed."""
    planned = {"steps": [*steps, "last"], "arguments": {}}
    run_id = runs.start_run(store, recipe, content or {"name": recipe}, planned)
    for step, (version, outcome, tables) in steps.items():
        stage = step.partition(".")[0]
        entry = {"stage": stage, "version": version, "state": outcome, "seconds": 1.5}
        runs.record_step(store, run_id, step, {**entry, "tables": dict(tables)})
    if state is not None:
        runs.end_run(store, run_id, state, {})
    return run_id


def small_store(root: Path) -> tuple[Store, str]:
    """A store with one run of `birds`: three sentences, and an encoder that is only files."""
    store = open_store(str(root))
    make_artifact(store, "ingest", "aaaa1111", {"sentences": SENTENCES})
    encoder = root.parent / "encoder"
    (encoder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    (encoder / "modules.json").write_text("[]")
    (encoder / "1_Pooling" / "config.json").write_text("{}")
    log = pa.table({"step": pa.array([1], pa.int32()), "loss": [0.5]})
    make_artifact(store, "train", "bbbb2222", {"training_log": log}, model=encoder)
    steps = {
        "ingest": ("aaaa1111", "reused", {"sentences": 3}),
        "train": ("bbbb2222", "made", {"training_log": 1}),
    }
    return store, make_run(store, "birds", steps)


def graph_store(root: Path) -> tuple[Store, str]:
    """A store with one run of `birds` that has made a small knowledge graph."""
    heron = 2**64 - 5
    nodes = [
        (heron, "entity", "heron\x0b & <egret>", 5),
        (2, "entity", "pond", 3),
        (3, "entity", "reed", 1),
        (10, "type", "animal", 5),
        (11, "type", "place", 4),
        (20, "quantity", "three", 2),
    ]
    edges = [
        (heron, 10, "hard", 4),
        (heron, 11, "hard", 1),
        (2, 11, "hard", 3),
        (heron, 20, "hard", 2),
        (2, heron, "soft", 2),
        (heron, 2, "soft", 2),
        (2, 3, "soft", 1),
        (3, 2, "soft", 1),
        (2, 10, "soft", 2),
    ]
    tables = {}
    for name, rows, schema in (("kg_nodes", nodes, KG_NODES), ("kg_edges", edges, KG_EDGES)):
        columns = [
            pa.array(list(column), kind)
            for column, kind in zip(zip(*rows, strict=True), schema.types, strict=True)
        ]
        tables[name] = pa.table(columns, schema=schema)
    store = open_store(str(root))
    make_artifact(store, "graph", "aaaa1111", tables)
    steps = {"graph": ("aaaa1111", "made", {"kg_nodes": 6, "kg_edges": 9})}
    return store, make_run(store, "birds", steps)


def tercet(*words: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, with no terminal."""
    script = "from tercet.flows.cli import main; main()"
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "TERCET_STORE")}
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=1200,
        env={**environment, "OMP_NUM_THREADS": "1", **variables},
        check=False,
    )


def version_of(components: Mapping[str, Any]) -> str:
    """The version that these components make."""
    return fingerprint.digest(dict(components))


def lines_of(text: str) -> Sequence[str]:
    """The lines without the space around them."""
    return [line.strip() for line in text.strip().splitlines()]


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
