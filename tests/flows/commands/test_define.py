"""Which dictionary `tercet define` answers from, where a phase was trained on several."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run
from failures import fails

from tercet.flows.commands import define
from tercet.flows.results.queries import find_artifact
from tercet.storage.artifacts import Artifact
from tercet.storage.store import Store, open_store
from tercet.tasks.evaluation.define import DEFINITION_FIGURES
from tercet.tasks.stage import BadInput

PARTS = ("verbs", "nouns")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A training on two dictionaries; by nouns the projection is better, by verbs cosine."""
    made = open_store(str(tmp_path / "store"))
    encoder = folder(tmp_path / "encoder")
    (encoder / "modules.json").write_text("[]")
    (encoder / "losses").mkdir()
    spaces = {f"{part}.entry_matrix": f"{part}space" for part in PARTS}
    for part in PARTS:
        (encoder / "losses" / f"{part}.projection.safetensors").write_bytes(b"")
        for step in (f"{part}space", f"{part}own"):
            make_artifact(made, f"entry_matrix.{step}", step, {}, model=folder(tmp_path / step))
    train(made, "train", "abcd", spaces, encoder)
    for part in PARTS:
        measured(made, part, "abcd", {"projection": 60.0 if part == "nouns" else 20.0})
    make_run(made, "words", {"train": ("abcd", "made", {})})
    return made


def folder(path: Path) -> Path:
    path.mkdir()
    (path / "config.json").write_text("{}")
    return path


def train(store: Store, step: str, version: str, models: dict[str, str], encoder: Path) -> None:
    components = {"stage": "train", "config": {}, "models": models}
    make_artifact(store, step, version, {}, {"components": components}, encoder)


def measured(store: Store, part: str, trained: str, mrr: dict[str, float]) -> None:
    shared: dict[str, Any] = {"name": part, "seed": 1, "metric": "mrr", "n": 30}
    rows = [{**shared, "arm": arm, "value": value} for arm, value in mrr.items()]
    rows.append({**shared, "arm": "own_entries", "value": 40.0})
    components = {
        "stage": "define",
        "config": {"part": part, "own": "mean"},
        "models": {"trained": trained, "own_entries": f"{part}own"},
    }
    table = pa.Table.from_pylist(rows, DEFINITION_FIGURES)
    make_artifact(
        store,
        f"define.all.{part}",
        f"define{part}",
        {"definition_figures": table},
        {"components": components, "created": f"2026-01-01T00:00:0{len(part)}"},
    )


def trained(store: Store) -> Artifact:
    return find_artifact(store, "train", None)


def test_each_part_has_its_own_entries_projection_and_measurement(store: Store) -> None:
    artifact = trained(store)
    encoder = Path(artifact.model_dir() or "")
    nouns = define._way(store, artifact, encoder, "nouns")
    assert nouns.projection == encoder / "losses" / "nouns.projection.safetensors"
    assert nouns.space == define.made_model(store, "nounsspace")
    assert "60.0 by the projection" in nouns.why
    verbs = define._way(store, artifact, encoder, "verbs")
    assert verbs.projection is None
    assert verbs.space == define.made_model(store, "verbsown")
    assert "20.0 by the projection" in verbs.why


@pytest.mark.parametrize("part", [None, "noun"])
def test_of_several_parts_one_must_be_named(store: Store, part: str | None) -> None:
    with pytest.raises(BadInput, match=rf"{part or ''}.*verbs, nouns"):
        define.define(["a word"], "train", part, 3, "table", store.location, None)


@pytest.mark.parametrize("allowed", [True, False])
def test_code_of_a_backbone_runs_only_where_the_recipe_let_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    components = {
        "stage": "train",
        "config": {"trust_remote_code": allowed},
        "models": {"nouns.entry_matrix": "nounsspace"},
    }
    encoder = folder(tmp_path / "own")
    (encoder / "modules.json").write_text("[]")
    (encoder / "losses").mkdir()
    (encoder / "losses" / "projection.safetensors").write_bytes(b"")
    make_artifact(store, "train", "wild", {}, {"components": components}, encoder)
    asked = []

    def load(*given: object, trust_remote_code: bool) -> None:
        asked.append(trust_remote_code)
        raise ValueError("it is enough to have asked")

    monkeypatch.setattr("tercet.models.encoders.encoder.load_encoder", load)
    with fails("unfit_model"):
        define.define(["a word"], "train@wild", None, 3, "table", str(tmp_path / "store"), None)
    assert asked == [allowed]
