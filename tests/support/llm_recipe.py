"""A recipe that asks a language model, and what was asked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer
from tiny_run import Tiny

# The server says each prompt in capitals: a prompt of the sentence alone gives a sentence back.
PROMPT = "{{ sentence }}"
# Rows that a run has open at most.
CONCURRENCY = 16


@pytest.fixture
def recipe(tiny: Tiny, tmp_path: Path) -> Callable[..., Path]:
    """Writes a recipe that asks the endpoint `url` two methods about 120 anchors."""

    def write(url: str, name: str = "asks", prompt: str = PROMPT, **asking: Any) -> Path:
        own = tmp_path / f"{name}.jinja"
        own.write_text(prompt)
        content = yaml.safe_load(tiny.recipe.read_text())
        content |= {
            "name": "asks",
            "sample": {"rows": 120},
            "llm": {"name": "capitals", "api": "completions"},
            "synthesise": {"rewrite": {"prompt": str(own)}, "antisense": None},
            "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0},
        }
        asked = {"endpoints": [url], "concurrency": CONCURRENCY}
        content["run"]["llm"] = asked | asking
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    return write


def words(recipe: Path, store: Path, *options: str) -> list[str]:
    return ["run", str(recipe), "--no-server", "--store", str(store), *options]


def repeated(server: FaultyServer) -> int:
    """Rows asked more than once."""
    return sum(times - 1 for times in server.times_asked().values())
