"""A recipe makes a model, another one takes it by its tag, and what cannot be made is told."""

from pathlib import Path

import pytest
import yaml
from good_and_bad import Place, Result, sentence
from tiny_models import WORDS
from tiny_run import query

QUICK = {"layers": 1, "width": 32, "heads": 2, "vocabulary": 70, "max_length": 32}
QUICK |= {"steps": 4, "batch_tokens": 256, "measure_steps": 2, "precision": "fp32"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, tiny_backbone: Path) -> Place:
    """A folder with a corpus to pretrain on."""
    folder = tmp_path_factory.mktemp("pretrain")
    count = len(WORDS)
    lines = [" ".join(WORDS[(i * k + k) % count] for k in range(1, 9)) for i in range(1, 300)]
    (folder / "general.txt").write_text("\n".join(lines), encoding="utf-8")
    (folder / "field.txt").write_text("\n".join(lines[:60:2]), encoding="utf-8")
    return Place(folder, tiny_backbone)


def recipe(own: Place, **content: object) -> Path:
    given = {
        "name": "maker",
        "corpora": [{"name": "general", "source": "general.txt", "role": "pretrain"}],
        "models": {"small": {"pretrain": {"form": "masked", **QUICK}}},
    }
    path = own.folder / f"{content.get('name', 'maker')}.yaml"
    path.write_text(yaml.safe_dump({**given, **content}), encoding="utf-8")
    return path


def run(own: Place, path: Path, *words: str) -> Result:
    return own.types("run", path, "--no-server", "--store", own.store, *words)


def test_a_model_is_made_tagged_and_taken_by_another_recipe(own: Place) -> None:
    made = run(own, recipe(own))
    assert made.returncode == 0, made.stderr
    log = query(own.store, "SELECT phase, step FROM training_log ORDER BY step")
    assert log[-1] == ("small", 4)
    splits = query(own.store, "SELECT DISTINCT split FROM pretrain_sentences")
    assert ("train",) in splits
    assert not list(own.store.glob("artifacts/*/*/data/sentences"))
    ((version,),) = query(own.store, "SELECT version FROM run_steps WHERE step = 'pretrain.small'")
    assert f"tercet tag pretrain.small@{version} NAME" in made.stdout
    tagged = own.types("tag", f"pretrain.small@{version}", "general_masked", "--store", own.store)
    assert tagged.returncode == 0, tagged.stderr
    taker = recipe(
        own,
        name="taker",
        corpora=[{"name": "field", "source": "field.txt"}],
        models={
            "borrowed": "tag:general_masked",
            "adapted": {
                "pretrain": {"form": "masked", "init": "borrowed", "steps": 2, "precision": "fp32"}
            },
        },
        backbone="adapted",
        ingest={"dev": 0.1, "test": 0.1},
        train={
            "phases": [{"rows": "anchors", "loss": "info_nce", "batch_size": 8, "max_steps": 1}]
        },
        evaluate={"retrieval": False},
    )
    taken = run(own, taker, "--until", "train")
    assert taken.returncode == 0, taken.stderr
    parents = query(
        own.store,
        "SELECT parent FROM lineage JOIN run_steps ON version = child "
        "WHERE step = 'pretrain.adapted'",
        "taker",
    )
    assert (version,) in parents
    again = run(own, taker, "--until", "train")
    assert again.returncode == 0
    assert " made " not in again.stderr


BAD = {
    "another form": ({"init": "BACKBONE", "form": "causal"}, "form: causal needs a decoder"),
    "custom code": ({"init": "CUSTOM", "form": "masked"}, "Python code of its own (auto_map)"),
    "its own form": (
        {"init": "small", "form": "t5"},
        "models.bad.pretrain.init: the model 'small'",
    ),
}


@pytest.mark.parametrize(("settings", "words"), BAD.values(), ids=BAD)
def test_an_init_that_does_not_fit_is_told_before_anything_runs(
    own: Place, tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    from spoilt_models import spoilt

    places = {"BACKBONE": own.backbone, "CUSTOM": spoilt(own.backbone, "custom", tmp_path)}
    settings = {**settings, "init": str(places.get(settings["init"], settings["init"]))}
    models = {"small": {"pretrain": {"form": "masked", **QUICK}}, "bad": {"pretrain": settings}}
    path = recipe(own, name="bad", models=models)
    store = tmp_path / "store"
    said = own.types("run", path, "--no-server", "--store", store)
    assert words in sentence(said, 2)
    assert not store.exists()
    assert not (tmp_path / "ran").exists()


def test_what_only_the_stage_can_know_is_told_and_loses_nothing(own: Place) -> None:
    path = recipe(own, name="large", models={"big": {"pretrain": {"form": "masked", "steps": 2}}})
    said = sentence(run(own, path), 2)
    assert "pretrain.big: the corpora yield a vocabulary of only" in said
    (own.folder / "empty.txt").write_text("\n", encoding="utf-8")
    said = sentence(run(own, recipe(own, name="empty"), "--corpus", "empty.txt"), 2)
    assert "empty" in said
