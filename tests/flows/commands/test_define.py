"""Which dictionary `tercet define` answers from, where a phase was trained on several."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run
from failures import fails

from tercet.errors import ErrorKind
from tercet.flows.commands import define
from tercet.flows.results.queries import find_artifact
from tercet.storage.store import Store, open_store
from tercet.tasks.evaluation.define import DEFINITION_FIGURES


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A training on two dictionaries; by nouns the projection is better, by verbs cosine."""
    made = open_store(str(tmp_path / "store"))
    encoder = folder(tmp_path / "encoder")
    (encoder / "modules.json").write_text("[]")
    (encoder / "losses").mkdir()
    for part, mrr in (("verbs", 20.0), ("nouns", 60.0)):
        (encoder / "losses" / f"{part}.projection.safetensors").write_bytes(b"")
        for step in (f"{part}space", f"{part}own"):
            make_artifact(made, f"entry_matrix.{step}", step, {}, model=folder(tmp_path / step))
        shared: dict[str, Any] = {"name": part, "seed": 1, "metric": "mrr", "n": 30}
        rows = [
            {**shared, "arm": arm, "value": value}
            for arm, value in (("projection", mrr), ("own_entries", 40.0))
        ]
        components = {
            "stage": "define",
            "config": {"part": part, "own": "mean"},
            "models": {"trained": "abcd", "own_entries": f"{part}own"},
        }
        figures = {"definition_figures": pa.Table.from_pylist(rows, DEFINITION_FIGURES)}
        manifest = {"components": components, "created": "2026-01-01T00:00:05"}
        make_artifact(made, f"define.all.{part}", f"define{part}", figures, manifest)
    spaces = {f"{part}.entry_matrix": f"{part}space" for part in ("verbs", "nouns")}
    trained = {"components": {"stage": "train", "config": {}, "models": spaces}}
    make_artifact(made, "train", "abcd", {}, trained, encoder)
    make_run(made, "words", {"train": ("abcd", "made", {})})
    return made


def folder(path: Path) -> Path:
    path.mkdir()
    (path / "config.json").write_text("{}")
    return path


def test_each_part_has_its_own_entries_projection_and_measurement(store: Store) -> None:
    artifact = find_artifact(store, "train", None)
    encoder = Path(artifact.model_dir() or "")
    for part, projection, space in (
        ("nouns", encoder / "losses" / "nouns.projection.safetensors", "nounsspace"),
        ("verbs", None, "verbsown"),
    ):
        way = define._way(store, artifact, encoder, part)
        assert (way.projection, way.space) == (projection, define.made_model(store, space))


@pytest.mark.parametrize(("part", "kind"), [(None, "missing_key"), ("noun", "unknown_name")])
def test_of_several_parts_one_must_be_named(
    store: Store, part: str | None, kind: ErrorKind
) -> None:
    with fails(kind, part or "", "verbs, nouns"):
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
