"""The shortest form of `benchmarks/soak.py`: each fate once, up to the step that reads answers."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_run import LIMIT, ROOT


@pytest.mark.usefixtures("namespaces")
def test_a_service_loses_nothing_and_leaves_nothing(
    tiny_backbone: Path, prefect_folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_backbone, tmp_path / "backbone")
    shutil.copytree(prefect_folder, tmp_path / "prefect")
    words = [str(tmp_path), "--minutes", "0", "--until", "parse"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "soak.py"), *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sum(told["runs"].values()) == 6
    assert told["rows as without all this"]["generations"] > 100
