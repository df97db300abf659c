"""The recipes and arms of the benchmarks say nothing that a recipe no longer understands."""

import gzip
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe import file
from tercet.flows.recipe.file import resolve
from tercet.flows.studies.arms import arms_of

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(recipe: str, arms: Path, *common: str) -> dict[str, set[str]]:
    """The names of each arm's steps."""
    return {
        arm.name: {
            step.name for step in compile_steps(resolve(file.load(arm.recipe, arm.overrides)))
        }
        for arm in arms_of(recipe, [], str(arms), common)
    }


def test_arms_of_the_quickstart() -> None:
    arms = compiled("quickstart", BENCHMARKS / "arms_pydocs.yaml", "seeds=5")
    assert "mine" in arms["with mined negatives"]
    assert "select" not in arms["pairs alone"]
    by_role = str(BENCHMARKS / "by_role.yaml")
    few = "train.phases.0.rows.max_rows=1280"
    assert all(
        "train" in arm for arm in compiled(by_role, BENCHMARKS / "arms_by_role.yaml", few).values()
    )
    rules = compiled("quickstart", BENCHMARKS / "arms_rules.yaml", "train.phases.0.max_steps=65")
    assert len({frozenset(steps) for steps in rules.values()}) > 1


def test_arms_of_search() -> None:
    arms = compiled(str(BENCHMARKS / "search.yaml"), BENCHMARKS / "arms_search.yaml")
    steps = ("synthesise.question", "score.round_trip", "negatives")
    assert [len(arms[name] & set(steps)) for name in arms] == [0, 2, 2, 3]


def test_arms_of_the_recipe_of_all() -> None:
    arms = compiled("tercet", BENCHMARKS / "arms_tercet.yaml", "seeds=2")
    wanted = {
        "mined negatives": "mine",
        "discriminator": "fit_pair.judge",
        "rewordings": "synthesise.synonym",
        "definitions": "labelled",
        "adapted": "pretrain.adapted",
    }
    for name, step in wanted.items():
        assert step in arms[name], name
        assert step not in arms["recipe"], name
    assert arms["recipe"] - arms["without whitening"] == {
        "guard.sentences",
        "whiten",
        "whiten.seed43",
    }


def test_arms_on_top_of_the_quickstart() -> None:
    arms = compiled("quickstart", BENCHMARKS / "arms_on_top.yaml", "seeds=3")
    assert "entry_matrix.definitions" in arms["definitions after it"] - arms["quickstart"]
    through, rebuilt = (
        arms[f"{name}, through the head"] for name in ("the quickstart", "reconstruction")
    )
    assert rebuilt - through == {"count_tokens.counts"}


@pytest.mark.parametrize("field", ["pydocs", "wiki"])
def test_every_recipe(field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("every_recipe")
    monkeypatch.chdir(BENCHMARKS.parent)
    lines = tmp_path / "corpora" / "wiki_300k.txt.gz"
    lines.parent.mkdir()
    lines.write_bytes(gzip.compress(b"A fox ran over the hill at nine.\nIt rained in York.\n"))
    steps = {}
    for name, arm in module.arms(field).items():
        _, _, recipe, *rest = module.command(arm, str(tmp_path), "store", 2, None)
        overrides = [rest[i + 1] for i, word in enumerate(rest) if word == "--set"]
        corpus = rest[rest.index("--corpus") + 1] if "--corpus" in rest else None
        steps[name] = {
            step.name for step in compile_steps(resolve(file.load(recipe, overrides, corpus)))
        }
    assert all("evaluate.encoder.seed43" in found for found in steps.values())
    assert "fit_pair.judge" in steps["GenSE"]
    assert "fit_pair.judge" not in steps["quickstart"]


def test_arms_of_discriminators() -> None:
    arms = compiled("quickstart", BENCHMARKS / "arms_pair.yaml", "seeds=3")
    judged = {"labelled", "guard.labelled", "fit_pair.judge", "score.pair"}
    assert arms["with the discriminator"] - arms["as it is"] == judged
    written = BENCHMARKS / "gense_written.yaml"
    arms = compiled(str(written), BENCHMARKS / "arms_written.yaml", "seeds=9")
    assert "fit_pair.judge" in arms["written, then half the labels"]
    assert "train.synthetic" in arms["written, then labelled"]
    assert "train.synthetic" not in arms["labelled alone"]


def test_three_steps_of_definitions() -> None:
    steps = {
        step.name
        for step in compile_steps(resolve(file.load(str(BENCHMARKS / "definitions_steps.yaml"))))
    }
    assert {"entry_matrix.step3", "evaluate.step2", "evaluate.encoder"} <= steps


def test_definitions_before_the_recipe_of_all() -> None:
    recipe = file.load(str(BENCHMARKS / "definitions_first.yaml"))
    assert recipe.train is not None
    second = recipe.train.phases[1]
    shipped = file.load("tercet").train
    assert shipped is not None
    differing = {"rows", "name"}
    for part, own in zip(shipped.phases[0].parts, second.parts, strict=True):
        assert part.model_dump(exclude=differing) == own.model_dump(exclude=differing)
    whole = {"parts"}
    assert shipped.phases[0].model_dump(exclude=whole) == second.model_dump(exclude=whole)
    assert {step.name for step in compile_steps(resolve(recipe))} >= {
        "entry_matrix.definitions",
        "select",
    }


def test_arms_of_definitions() -> None:
    arms = compiled("defsent_plus_cpu", BENCHMARKS / "arms_definitions.yaml", "seeds=4")
    assert all("entry_matrix.step2" in steps for steps in arms.values())


def test_arms_of_what_is_drawn() -> None:
    arms = compiled("generate_cse_cpu", BENCHMARKS / "arms_drawn.yaml", "seeds=6", "backbone=x/y")
    assert all("evaluate.encoder.seed47" in steps for steps in arms.values())


def test_arms_of_the_small_language_model() -> None:
    arms = compiled("gcse_small", BENCHMARKS / "arms_small.yaml", "seeds=3")
    assert "synthesise.quantity_revision" in arms["the model writes all"]
    assert not any("rewrite" in step for step in arms["rules write all"])


def test_arms_of_reconstruction() -> None:
    arms = compiled("sarcse_cpu", BENCHMARKS / "arms_sarcse.yaml", "seeds=6", "backbone=x/y")
    assert all("evaluate.encoder.seed47" in steps for steps in arms.values())
    assert "count_tokens.counts" in arms["without the decoder"]
    assert "count_tokens.counts" not in arms["SimCSE, mean pooling"]


def test_the_generators() -> None:
    recipe = file.load(str(BENCHMARKS / "generators_sick.yaml"))
    assert set(recipe.generators) >= {"vaegpt", "gpt2", "t5"}


def test_the_discriminators() -> None:
    steps = compile_steps(resolve(file.load(str(BENCHMARKS / "gense_nli.yaml"))))
    assert {step.name for step in steps} >= {"fit_generator.writer", "fit_pair.judge"}


def test_the_second_field(tmp_path: Path) -> None:
    module = script("second_field")
    recipe, arms = tmp_path / "recipe.yaml", tmp_path / "arms.yaml"
    recipe.write_text(module.RECIPE)
    arms.write_text(module.ARMS)
    assert {"field, triplets", "wiki, dropout pairs"} <= set(compiled(str(recipe), arms))


def test_the_learned_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = script("learned_llm")
    path = module.write_recipe(tmp_path / "base.yaml", tmp_path / "c.txt", tmp_path / "m", "python")
    assert compile_steps(resolve(file.load(str(path))))


def test_throughput_has_a_form_without_a_gpu_and_says_so(
    tiny_backbone: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    throughput = script("gpu_throughput")
    monkeypatch.setattr(throughput, "ON", "cpu")
    few = ["--texts", "24", "--batch", "4", "--steps", "4", "--turns", "1", "--peak", "1"]
    rows = throughput.main(["--model", str(tiny_backbone), *few])
    assert "No GPU was measured" in capsys.readouterr().out
    both = ("tercet", "sentence-transformers")
    assert [(row["what"], row["library"]) for row in rows] == [
        (what, who) for what in ("embed", "score", "train") for who in both
    ]
    assert all(row["tokens_a_second"] > 0 and row["share"] < 1 for row in rows)
