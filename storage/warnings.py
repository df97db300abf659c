"""Warnings: what shows in an artifact's rows that something went wrong; kept in its manifest."""

from typing import Any

import pyarrow as pa

from tercet.storage.artifacts import Artifact

WARNINGS = pa.schema(
    [
        ("step", pa.string()),
        ("stage", pa.string()),
        ("version", pa.string()),
        ("key", pa.string()),
        ("kind", pa.string()),
        ("count", pa.int64()),
        ("total", pa.int64()),
        ("message", pa.string()),
        ("example", pa.string()),
        ("remedy", pa.string()),
    ]
)
"""Table `warnings`. What went wrong without an error, in the newest run or that of `--run`, in the
order of its steps. It is looked for once, while an artifact is made; `run` says it then, and `run`,
`plan`, `show`, report and cards list it. Artifacts of older versions have none.

Columns:
    step: the step in whose rows it shows
    stage: its stage
    version: → `artifacts.version`
    key: the corpus, split, method, part, phase, set or figure that it is about; NULL: the whole
        step
    kind: one of the [kinds](sql.md#kinds-of-warnings)
    count: so many rows are of this kind
    total: out of so many
    message: what was found
    example: one such row's text or fault; NULL where none helps
    remedy: what to do
"""


def warnings_of(artifact: Artifact) -> list[dict[str, Any]]:
    """Those of a finished artifact; none of an unfinished one, or of an older Tercet's."""
    found = (artifact.manifest() or {}).get("warnings", ())
    return [{"version": artifact.version, **warning} for warning in found]
