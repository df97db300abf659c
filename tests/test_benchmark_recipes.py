"""The recipes and arms of the benchmarks say nothing that a recipe no longer understands."""

import gzip
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from small_suites import SICK_HEADER, write_sts

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe import file
from tercet.flows.recipe.file import resolve
from tercet.flows.studies.arms import arms_of

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# Arms of a file beside the recipe, an arm of them, and steps that it has.
ARMS = [
    ("quickstart", "arms_pydocs", "seeds=5", "with mined negatives", "mine"),
    ("by_role.yaml", "arms_by_role", "train.phases.0.rows.max_rows=1280", None, "train"),
    ("quickstart", "arms_rules", "train.phases.0.max_steps=65", None, "train"),
    ("search.yaml", "arms_search", "seed=1", None, "train"),
    ("tercet", "arms_tercet", "seeds=2", "discriminator", "fit_pair.judge"),
    ("tercet", "arms_tercet", "seeds=2", "adapted", "pretrain.adapted"),
    ("quickstart", "arms_on_top", "seeds=3", "definitions after it", "entry_matrix.definitions"),
    ("quickstart", "arms_pair", "seeds=3", "with the discriminator", "fit_pair.judge"),
    ("gense_written.yaml", "arms_written", "seeds=9", "written, then labelled", "train.synthetic"),
    ("defsent_plus_cpu", "arms_definitions", "seeds=4", None, "entry_matrix.step2"),
    ("generate_cse_cpu", "arms_drawn", "backbone=x/y", None, "evaluate.encoder"),
    ("gcse_small", "arms_small", "seeds=3", "the model writes all", "synthesise.quantity_revision"),
    ("decay_orders.yaml", "arms_decay_nli", "seeds=5", "none", "fit_evaluator"),
    ("decay_orders.yaml", "arms_decay_asset", "seeds=5", "random", "fit_evaluator"),
    ("both_roles.yaml", "arms_both_roles", "seeds=5", "both roles", "select"),
    ("sarcse_cpu", "arms_sarcse", "backbone=x/y", "without the decoder", "count_tokens.counts"),
]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steps_of(recipe: str, overrides: tuple[str, ...] = (), corpus: str | None = None) -> set[str]:
    return {step.name for step in compile_steps(resolve(file.load(recipe, overrides, corpus)))}


def compiled(recipe: str, arms: Path, *common: str) -> dict[str, set[str]]:
    """The names of each arm's steps."""
    planned = arms_of(recipe, [], str(arms), common)
    return {arm.name: steps_of(arm.recipe, tuple(arm.overrides)) for arm in planned}


@pytest.mark.parametrize(("recipe", "arms", "override", "arm", "step"), ARMS)
def test_arms(recipe: str, arms: str, override: str, arm: str | None, step: str) -> None:
    if recipe.endswith(".yaml"):
        recipe = str(BENCHMARKS / recipe)
    steps = compiled(recipe, BENCHMARKS / f"{arms}.yaml", override)
    assert all(step in names for name, names in steps.items() if arm in (None, name))
    assert arm is None or arm in steps


@pytest.mark.parametrize(
    ("recipe", "steps"),
    [
        ("definitions_steps", {"entry_matrix.step3", "evaluate.step2"}),
        ("definitions_first", {"entry_matrix.definitions", "select"}),
        ("gense_nli", {"fit_generator.writer", "fit_pair.judge"}),
        ("generators_sick", {"fit_generator.vaegpt"}),
    ],
)
def test_recipes(recipe: str, steps: set[str]) -> None:
    assert steps <= steps_of(str(BENCHMARKS / f"{recipe}.yaml"))


@pytest.mark.parametrize("field", ["pydocs", "wiki"])
def test_every_recipe(field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = script("every_recipe")
    monkeypatch.chdir(BENCHMARKS.parent)
    lines = tmp_path / "corpora" / "wiki_300k.txt.gz"
    lines.parent.mkdir()
    lines.write_bytes(gzip.compress(b"A fox ran over the hill at nine.\nIt rained in York.\n"))
    for arm in module.arms(field).values():
        _, _, recipe, *rest = module.command(arm, str(tmp_path), "store", 2, None)
        overrides = tuple(rest[i + 1] for i, word in enumerate(rest) if word == "--set")
        corpus = rest[rest.index("--corpus") + 1] if "--corpus" in rest else None
        assert "evaluate.encoder.seed43" in steps_of(recipe, overrides, corpus)


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
    assert steps_of(str(path))


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


def suite_of(root: Path, texts: list[str]) -> Path:
    """The seven sets, three pairs of these texts in each file."""
    pairs = list(zip(texts[:3], texts[3:6], strict=True))
    for path in write_sts(root).glob("STS/*/STS.input.*.txt"):
        path.write_text("".join(f"{one}\t{other}\n" for one, other in pairs))
    scored = [f"g\tf\t2012\t{i}\t{i}.5\t{one}\t{other}\n" for i, (one, other) in enumerate(pairs)]
    (root / "STS/STSBenchmark/sts-test.csv").write_text("".join(scored))
    rated = [f"{i}\t{one}\t{other}\t{i + 1}\tNEUTRAL\n" for i, (one, other) in enumerate(pairs)]
    (root / "SICK/SICK_test_annotated.txt").write_text(SICK_HEADER + "".join(rated))
    return root


def test_published_encoders_stand_beside_their_papers(
    tiny_backbone: Path,
    tiny_texts: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pickled = tmp_path / "pickled"
    pickled.mkdir()
    (pickled / "config.json").write_text("{}")
    (pickled / "pytorch_model.bin").write_bytes(b"")
    suite = suite_of(tmp_path / "downstream", tiny_texts)
    simcse, defsent = (
        "princeton-nlp/unsup-simcse-bert-{}-uncased",
        "RyuKT/DefSentPlus-bert-{}-uncased",
    )
    folders = {
        simcse.format("base"): tiny_backbone,
        simcse.format("large"): pickled,
        defsent.format("base"): tiny_backbone,
        defsent.format("large"): pickled,
    }
    given = [f"{name}={folder}" for name, folder in folders.items()]
    script("released").main([str(suite), "--only=-bert-", *given])
    _, *lines = capsys.readouterr().out.splitlines()
    papers = [line.split() for line in lines if line.endswith("paper")]
    assert [name for name, *_ in papers] == list(folders)
    assert [paper[8] for paper in papers] == ["76.25", "78.41", "78.98", "80.36"]
    assert sum(line.endswith("here") for line in lines) == 2
    assert sum("safetensors" in line for line in lines) == 2
