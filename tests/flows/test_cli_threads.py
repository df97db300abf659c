"""OpenMP's threads sleep soon when they wait, unless the user says otherwise."""

import os
import subprocess
import sys

import pytest

_ASK = """
import sys
import tercet.flows.cli
assert "torch" not in sys.modules, "OpenMP has read its environment before it was set"
import os
print(os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY"))
"""
_NAMES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, "3000 None"),
        ({"GOMP_SPINCOUNT": "7"}, "7 None"),
        ({"OMP_WAIT_POLICY": "active"}, "None active"),
    ],
)
def test_what_the_user_sets_is_kept(given: dict[str, str], kept: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in _NAMES}
    said = subprocess.run(
        [sys.executable, "-c", _ASK],
        env=environment | given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == kept
