"""A package that is installed beside ours adds a method, a loss, a scorer and a reader."""

import shutil
import site
import subprocess
import venv
from pathlib import Path

import pytest
from tiny_run import MAIN, environment

SOURCE = Path(__file__).parents[2] / "support" / "plugin"
RECIPE = """
name: toys
backbone: {backbone}
corpora: [{{name: towns, source: "towns:40"}}]
synthesise: {{backwards: {{per_sentence: 1}}}}
score: {{length: {{words: 3}}}}
select: {{p_min: 0.9}}
train:
  phases: [{{rows: pairs, loss: {{name: margin, margin: 0.2}}, batch_size: 8, max_steps: 4}}]
run: {{device: cpu}}
"""


def install(folder: Path) -> Path:
    """A fresh environment that has our libraries too, in which pip installs the package."""
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    libraries = "".join(f"import site; site.addsitedir({p!r})\n" for p in site.getsitepackages())
    (packages / "libraries.pth").write_text(libraries)
    # Building it leaves files beside its source.
    source = shutil.copytree(SOURCE, folder / "source")
    offline = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    pip = [folder / "bin" / "python", "-m", "pip", "install", *offline, source]
    subprocess.run(pip, check=True)
    return packages


@pytest.mark.slow
def test_all_four_train_a_model_and_an_edit_remakes_the_steps_of_what_it_edits(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    packages = install(tmp_path / "venv")
    (tmp_path / "toys.yaml").write_text(RECIPE.format(backbone=tiny_backbone))

    def tercet(*words: str) -> str:
        """What it says, in that environment."""
        line = [tmp_path / "venv" / "bin" / "python", "-P", "-c", MAIN, *words]
        done = subprocess.run(
            [*line, "toys.yaml", "--until", "train"],
            env=environment(),
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    added = "From tercet-toys 0.1: reader towns:, method backwards, scorer length, loss margin."
    assert added in tercet("plan").splitlines()
    assert "SentenceTransformer(" in tercet("run", "--no-server")
    for module, old, new in (("margin", "+ far", "+ 2 * far"), ("length", "/ work", "/ 2 / work")):
        file = packages / "tercet_toys" / f"{module}.py"
        file.write_text(file.read_text().replace(old, new))
    planned = tercet("plan")
    lines = {line.split()[0]: line for line in planned.splitlines()}
    assert "code of tercet_toys.length" in lines["score.length"]
    assert "code of tercet_toys.margin" in lines["train"]
    assert "7 steps: 4 reused, 3 to run" in planned
