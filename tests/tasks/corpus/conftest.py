"""What the tests of this folder's stages share."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from labelled_rows import Made, Run

from tercet.storage.rows import Rows
from tercet.tasks.corpus import labelled
from tercet.tasks.stage import REJECTS, Resources, Work


@pytest.fixture
def read(tmp_path: Path) -> Run:
    """Calls stage `labelled` on corpora."""

    def read(*corpora: dict[str, Any], inputs: dict[str, Rows] | None = None, **more: Any) -> Made:
        config = labelled.LabelledConfig.model_validate(
            {"corpora": [{"role": "labelled", "name": "c", **one} for one in corpora], **more}
        )
        made: dict[str, list[pa.Table]] = {}
        emit = lambda name, table: made.setdefault(name, []).append(table)  # noqa: E731
        scratch = tmp_path / "scratch"
        labelled.run(Work(config, 0, inputs or {}, {}, {}, Resources(), scratch, emit))
        schemas = {**labelled.STAGE.tables, "rejects": REJECTS}
        assert all(piece.schema == schemas[name] for name in made for piece in made[name])
        return {name: pa.concat_tables(made.get(name, [s.empty_table()])).to_pylist()
                for name, s in schemas.items()}  # fmt: skip

    return read
