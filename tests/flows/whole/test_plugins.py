"""What users add: a package beside ours with seven parts, and methods that a recipe defines."""

import json
import shutil
import site
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest
import yaml
from faulty_server import FaultyServer, Reply, Seen
from tiny_run import MAIN, Tiny, ended_well, environment, query, tercet

SOURCE = Path(__file__).parents[2] / "support" / "plugin"
RECIPE = """
name: toys
backbone: {backbone}
corpora: [{{name: towns, source: "towns:40"}}]
llm: {{name: obeying}}
synthesise: {{backwards: {{per_sentence: 1}}, headline: null}}
score: {{length: {{words: 6}}}}
select: {{p_min: 0.5}}
train:
  phases: [{{rows: pairs, loss: {{name: margin, margin: 0.2}}, batch_size: 8, max_steps: 4}}]
run: {{device: cpu, llm: {{endpoints: [{endpoint}]}}}}
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


PROMPTS = {
    "asking": "Ask what the passage below answers. Answer with the question alone.\n\n"
    "Passage: {{ passage }}",
    "headline": "Write a headline for the sentence below.\n\nSentence: {{ sentence }}",
    "absence": "Say that nothing of the kind was the case.\n\nSentence: {{ sentence }}",
}
SHOT = {
    "passage": "The mill was built in 1820. It burnt down twice.",
    "answer": "How often did the mill burn down?",
}


def obey(seen: Seen) -> Reply:
    """What each prompt asks for, of the last turn alone."""
    instruction, _, text = seen.prompts[0].partition("\n\n")
    sentence = text.partition(": ")[2]
    words = sentence.rstrip(".").split()
    answer = {
        "Ask": f"What is said of {' '.join(words[2:6])}?",
        "Write": f"News of {' '.join(words[3:7])}",
        "Say": f"It is not so that {sentence}",
    }[instruction.split()[0]]
    choice = {"index": 0, "message": {"content": answer}, "finish_reason": "stop"}
    return Reply(200, json.dumps({"choices": [choice]}).encode())


@pytest.mark.slow
def test_all_train_a_model_and_an_edit_remakes_the_steps_of_what_it_edits(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    packages = install(tmp_path / "venv")

    def types(*words: str) -> str:
        """What the command line says, in that environment."""
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

    with FaultyServer(obey) as server:
        recipe = RECIPE.format(backbone=tiny_backbone, endpoint=server.url)
        (tmp_path / "toys.yaml").write_text(recipe)
        assert "tercet-toys 0.1" in types("plan")
        first = types("run", "--no-server")
    assert "Length of sentences" in first
    ((methods, warned),) = query(
        tmp_path / "tercet-store",
        """SELECT (SELECT list(DISTINCT method ORDER BY method) FROM generations),
            (SELECT count(*) FROM warnings WHERE kind = 'short')""",
    )
    assert (methods, warned) == (["backwards", "headline"], 1)
    for module, old, new in (
        ("margin_loss", "+ far", "+ 2 * far"),
        ("length", "/ work", "/ 2 / work"),
    ):
        file = packages / "tercet_toys" / f"{module}.py"
        file.write_text(file.read_text().replace(old, new))
    planned = types("plan")
    lines = {line.split()[0]: line for line in planned.splitlines()}
    assert "code of tercet_toys.length" in lines["score.length"]
    assert "code of tercet_toys.margin_loss" in lines["train"]
    steps = {"score.length", "select", "train"}
    assert {step for step, line in lines.items() if line.split()[1:2] == ["run"]} == steps


@pytest.fixture(scope="module")
def ran(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FaultyServer]:
    folder = tmp_path_factory.mktemp("own")
    for name, text in PROMPTS.items():
        (folder / f"{name}.jinja").write_text(text)
    (folder / "asking.jsonl").write_text(json.dumps(SHOT))
    methods: dict[str, Any] = {name: {"prompt": str(folder / f"{name}.jinja")} for name in PROMPTS}
    methods["asking"] |= {"shots": str(folder / "asking.jsonl"), "checks": ["question"]}
    methods["asking"] |= {"unit": "passage", "as_anchor": True, "relation": "topic"}
    methods["headline"] |= {"relation": "keeps"}
    methods["absence"] |= {"relation": "alters"}
    with FaultyServer(obey) as server:
        content = yaml.safe_load(tiny.recipe.read_text())
        content |= {
            "sample": {"rows": 60},
            "llm": {"name": "obeying"},
            "synthesise": {**methods, "cutoff": None},
            "select": {"positive_min": 0.0, "negative_max": 1.0, "fallback_positive": False},
        }
        content["train"]["phases"][0] |= {"max_steps": 2, "rows": "pairs", "loss": "info_nce"}
        content["run"]["llm"] = {"endpoints": [server.url]}
        recipe = folder / "own.yaml"
        recipe.write_text(yaml.safe_dump(content, sort_keys=False))
        words = ("run", str(recipe), "--no-server", "--store", str(folder / "store"))
        ended_well(tercet(*words, "--until", "train"))
    return folder / "store", server


def test_they_end_in_triplets_as_their_relation_says(ran: tuple[Path, FaultyServer]) -> None:
    rows = query(
        ran[0],
        """SELECT relation, positive_method, negative_method, count(*) > 5 FROM triplets
        GROUP BY ALL ORDER BY ALL""",
    )
    assert ("alters", "headline", "absence", True) in rows
    assert ("topic", "asking", None, True) in rows
    assert {"cutoff", "asking"} <= {method for _, *pair, _ in rows for method in pair}
