"""A recipe that works, ways to spoil it, and what `tercet` says to that."""

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
import warm
from tiny_models import WORDS

from tercet.flows import cli

SCRIPT = "from tercet.flows.cli import main; main()"
# What a run says of its progress, on standard error and before the one sentence.
# Lines of progress, and the warnings that so few rows teach and tell little.
PROGRESS = re.compile(
    r"[\w.]+ +(made|reused|resumed) |[\w.]+: [\d,]+ |Prefect server: http|train: there are only "
    r"|ingest: (test|dev) has "
)

RECIPE = """\
name: small
backbone: {backbone}
corpora:
  - name: notes
    source: {folder}/notes.txt
sample:
  rows: 40
synthesise:
  word_repetition:
  negation: {{weight: 0.5}}
evaluator:
  model: {backbone}
select:
  pairing: role
  negative_max: 0.8
train:
  phases:
    - name: first
      loss: gaussian_decay
      batch_size: 16
      max_steps: 2
evaluate:
  retrieval: false
"""

Result = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Place:
    """A folder with a corpus, a recipe that works and a store in which it has run."""

    folder: Path
    backbone: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def good(self) -> Path:
        return self.folder / "good.yaml"

    def recipe(self, old: str = "", new: str = "") -> Path:
        """The recipe with one text replaced."""
        text = self.good.read_text()
        assert old in text
        path = self.folder / "bad.yaml"
        path.write_text(text.replace(old, new, 1) if old else text)
        return path

    def types(self, *words: str | Path) -> Result:
        """The command line as it is typed in the folder, without a process of its own.

        For what is refused early: a process spends a second on its imports alone.
        """
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(sys, "argv", ["tercet", *map(str, words)]),
            mock.patch.object(os, "_exit", sys.exit),
            pytest.raises(SystemExit) as end,
        ):
            cli.main()
        assert isinstance(end.value.code, int)
        return Result(words, end.value.code, out.getvalue(), err.getvalue())

    def start(self, *words: str | Path, script: str = SCRIPT) -> warm.Child:
        """The command line, in a process of its own, in the folder."""
        return warm.Child(script, words, self._environment(), self.folder)

    def tercet(self, *words: str | Path) -> Result:
        """The same to its end."""
        return warm.finished(SCRIPT, words, self._environment(), 1200, self.folder)

    def start_anew(self, *words: str | Path, **more: str) -> "subprocess.Popen[str]":
        """The command line in the folder, in a process that has imported nothing yet."""
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, *map(str, words)],
            cwd=self.folder,
            env=self._environment() | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def typed_anew(self, *words: str | Path, **more: str) -> Result:
        """The same to its end."""
        with self.start_anew(*words, **more) as child:
            out, err = child.communicate(timeout=1200)
        return Result(child.args, child.returncode, out, err)

    def _environment(self) -> dict[str, str]:
        own = {k: v for k, v in os.environ.items() if not k.startswith(("TERCET_", "PREFECT_"))}
        return {**own, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}

    def runs(self, recipe: Path, *words: str | Path) -> Result:
        """`tercet run`, to the sentences unless told otherwise."""
        more = () if "--until" in words else ("--until", "sentences")
        return self.types("run", recipe, "--no-server", "--store", self.store, *more, *words)

    def goes_on(self, until: str = "sentences") -> None:
        """A good run in the store ends with 0."""
        result = self.runs(self.good, "--until", until)
        assert result.returncode == 0, result.stderr


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: Path) -> Place:
    made = Place(tmp_path_factory.mktemp("bad"), tiny_backbone)
    lines = [" ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 9)) for i in range(1, 40)]
    (made.folder / "notes.txt").write_text("\n".join(lines) + "\n")
    made.good.write_text(RECIPE.format(folder=made.folder, backbone=tiny_backbone))
    made.goes_on()
    return made


def sentence(result: Result, code: int) -> str:
    """The one sentence of a failure. There is nothing else but lines of progress before it."""
    *before, last = result.stderr.splitlines() or [""]
    assert result.returncode == code, result.stderr
    assert last.startswith("tercet: "), result.stderr
    assert not [line for line in before if not PROGRESS.match(line)], result.stderr
    assert result.stdout == ""
    return last.removeprefix("tercet: ")
