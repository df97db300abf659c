"""What the tests of recipes share."""

from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path):
    def _write(text: str) -> str:
        path = tmp_path / "recipe.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return _write
