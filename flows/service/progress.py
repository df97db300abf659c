"""Progress of a step as an artifact of the Prefect task around it."""

import re
from typing import Any

from tercet.flows.terminal.progress import ProgressReading

ARTIFACT_SECONDS = 2.0


class PrefectArtifact:
    """A progress artifact; a server that refuses it does not fail the run."""

    every = ARTIFACT_SECONDS

    def __init__(self, step: str) -> None:
        self._step = step
        self._id: Any = None
        self._broken = False

    def show(self, numbers: ProgressReading) -> None:
        self._put(numbers.percent, numbers.text())

    def close(self, numbers: ProgressReading) -> None:
        if self._id is not None:
            self._put(100.0, numbers.text())

    def _put(self, percent: float, text: str) -> None:
        if self._broken:
            return
        try:
            from prefect.artifacts import create_progress_artifact, update_progress_artifact

            described = f"{self._step}: {text}"
            if self._id is None:
                key = re.sub(r"[^a-z0-9]+", "-", self._step.lower()).strip("-")
                self._id = create_progress_artifact(percent, key=key, description=described)
            else:
                update_progress_artifact(self._id, percent, description=described)
        except Exception:
            self._broken = True
