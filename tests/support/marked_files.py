"""What the newest run's records say of the files among the artifacts."""

from tercet.storage.artifacts import open_artifact
from tercet.storage.records import paths_of
from tercet.storage.runs import list_runs
from tercet.storage.store import Store


def marked(store: Store) -> dict[str, int]:
    """The files that the newest run's records name, and the records, by path: bytes as recorded."""
    found: dict[str, int] = {}
    sizes = store.sizes("artifacts")
    for step in list_runs(store)[0]["steps"]:
        artifact = open_artifact(store, step["step"], step["version"])
        assert artifact.intact(), artifact
        for index, record in artifact.records().items():
            tables = [file for files in record["tables"].values() for file in files]
            found |= {file["path"]: file["bytes"] for file in [*tables, *record["files"]]}
            assert set(paths_of(record)) - set(found) <= set(record["schemas"].values())
            found[f"{artifact.path}/_parts/{index:05d}.json"] = -1
        found |= {f"{artifact.path}/{name}.json": -1 for name in ("plan", "parts", "manifest")}
    return {path: sizes.get(path, -2) if size < 0 else size for path, size in found.items()}
