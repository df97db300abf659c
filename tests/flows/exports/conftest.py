from pathlib import Path

import pytest
from commands_store import small_store


@pytest.fixture
def store(tmp_path: Path) -> str:
    return small_store(tmp_path / "store")[0].location
