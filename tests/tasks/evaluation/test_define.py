"""Stage `define`: ranks of held-out definitions, by hand, for each arm."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from stages import emitted, stored

from tercet.models.encoders.encoder import encode, load_encoder, save_encoder
from tercet.models.encoders.entry_space import create_space
from tercet.models.losses.definition import Projection
from tercet.storage.rows import Rows
from tercet.tasks.corpus.held_out import HELD_OUT_DEFINITIONS
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.evaluation import define
from tercet.tasks.evaluation.define import DefineConfig

WIDTH = 32
# Entry 2 has lost its row.
ENTRY_IDS = [0, 1, 3, 4]
TAUGHT = [("red file", [0]), ("blue value", [1]), ("old text row", [3]), ("green column", [4])]
HELD = [("the red file", [0]), ("a row of text", [1, 3]), ("number", [2])]


def given(folder: Path, taught: list[Any], held: list[Any], *more: Any) -> dict[str, Rows]:
    """Rows of (row_id, text, entries), and other rows held out."""
    names, shared = ("row_id", "anchor", "entries"), {"corpus": "words", "kind": "definitions"}
    rows = [dict(zip(names, row, strict=True)) | shared for row in taught]
    held_out = [dict(zip(names, row, strict=True)) | {"corpus": "words"} for row in held]
    return stored(
        folder,
        labelled=pa.Table.from_pylist(rows, LABELLED),
        held_out_definitions=pa.Table.from_pylist([*held_out, *more], HELD_OUT_DEFINITIONS),
    )


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Rows]:
    taught = [(i, *row) for i, row in enumerate(TAUGHT)]
    held = [(9 - i, *row) for i, row in enumerate(HELD)]
    other = {"row_id": 50, "corpus": "other", "anchor": "list", "entries": [0]}
    return given(tmp_path, taught, held, other)


@pytest.fixture
def models(tmp_path: Path, tiny_backbone: Path) -> dict[str, Path]:
    from safetensors.torch import save_file

    torch.manual_seed(1)
    trained = save_encoder(load_encoder(tiny_backbone, "mean"), tmp_path / "trained")
    (trained / "losses").mkdir(exist_ok=True)
    projection = Projection(WIDTH, WIDTH, "tanh", 2.0)
    save_file(projection.state_dict(), trained / "losses" / "projection.safetensors")
    models = {"trained": trained, "encoder": tiny_backbone}
    for seed, slot in ((2, "entry_matrix"), (3, "own_entries")):
        models[slot] = spaced(tmp_path / slot, ENTRY_IDS, np.random.default_rng(seed))
    return models


def spaced(folder: Path, ids: list[int], draw: np.random.Generator) -> Path:
    """Random rows of these entries."""
    rows = create_space(folder, np.array(ids), [f"e{i}" for i in ids], WIDTH)
    rows[:] = draw.normal(size=rows.shape)
    rows.flush()  # type: ignore[attr-defined]
    return folder


def made(
    inputs: dict[str, Rows], models: dict[str, Path], scratch: Path, **settings: Any
) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table."""
    config = DefineConfig(**{"name": "first", "part": "first", "corpus": "words", **settings})
    tables = emitted(define.STAGE, config, inputs, scratch, models)
    return {name: table.to_pylist() for name, table in tables.items()}


def rank(scores: Any, own: list[int]) -> int:
    best = max(scores[place] for place in own)
    return 1 + sum(score > best for score in scores)


def test_what_has_lost_its_entry_is_a_reject_and_words_find_the_others(
    inputs: dict[str, Rows], models: dict[str, Path], tmp_path: Path
) -> None:
    found = made(inputs, models, tmp_path)
    ranks = {(row["arm"], row["row_id"]): row["rank"] for row in found["definition_ranks"]}
    # Each shares words with its entry's definition alone.
    assert (ranks["words", 8], ranks["words", 9]) == (1, 1)
    figures = {(row["arm"], row["metric"]): row for row in found["definition_figures"]}
    assert {row["n"] for row in figures.values()} == {2}
    assert {(row["name"], row["seed"]) for row in figures.values()} == {("first", 3)}
    mrr = {arm: 50 * sum(1 / ranks[arm, row] for row in (8, 9)) for arm, _ in ranks}
    assert figures["projection", "mrr"]["value"] == pytest.approx(mrr["projection"])
    gain = mrr["own_entries"] - mrr["before"]
    assert figures["own_entries", "mrr_gain"]["value"] == pytest.approx(gain)
    assert figures["words", "recall@1"]["value"] == 100.0
    # Of so few there is no interval.
    assert {row["ci_low"] for row in figures.values()} == {None}
    assert ("before", "mrr_gain") not in figures
    (reject,) = found["rejects"]
    assert (reject["reason"], reject["row_id"]) == ("no_entry", None)


WORDS = ["red", "blue", "green", "old", "file", "row", "text", "value", "column", "number"]


def test_each_arm_has_an_encoder_and_a_pooling_of_its_own(
    tmp_path: Path, tiny_backbone: Path
) -> None:
    """Over enough definitions that no other encoder gives the same ranks, and intervals."""
    from safetensors.torch import save_file

    from tercet.models.encoders.entry_space import read_space

    # Forty entries with a definition each, 25 more held out of the first entries.
    draw = np.random.default_rng(7)
    every = [" ".join(draw.choice(WORDS, 4).tolist()) + f" {i}" for i in range(65)]
    taught, texts = [(i, every[i], [i]) for i in range(40)], every[40:]
    held = [(100 + i, text, [i]) for i, text in enumerate(texts)]
    inputs = given(tmp_path / "many", taught, held)
    torch.manual_seed(8)
    model = load_encoder(tiny_backbone, "cls")
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.2 * torch.randn_like(weight)
    trained = save_encoder(model, tmp_path / "trained")
    (trained / "losses").mkdir(exist_ok=True)
    projection = Projection(WIDTH, WIDTH, "tanh", 2.0)
    save_file(projection.state_dict(), trained / "losses" / "projection.safetensors")
    models = {"trained": trained, "encoder": tiny_backbone}
    for slot in ("entry_matrix", "own_entries"):
        models[slot] = spaced(tmp_path / slot, list(range(40)), draw)
    spaces = {slot: read_space(models[slot]).matrix for slot in ("entry_matrix", "own_entries")}

    def vectors(folder: Path, pooling: Any) -> torch.Tensor:
        return torch.from_numpy(encode(load_encoder(folder, pooling), texts, normalise=False))

    def ranked(found: torch.Tensor, matrix: torch.Tensor) -> list[int]:
        scores = torch.nn.functional.normalize(found) @ torch.nn.functional.normalize(matrix).T
        return [rank(row, [own]) for own, row in enumerate(scores.tolist())]

    projected = projection(vectors(trained, "cls")).detach() @ spaces["entry_matrix"].T
    expected = {
        "projection": [rank(row, [own]) for own, row in enumerate(projected.tolist())],
        "own_entries": ranked(vectors(trained, "mean"), spaces["own_entries"]),
        "before": ranked(vectors(tiny_backbone, "cls"), spaces["entry_matrix"]),
    }
    assert expected["own_entries"] != ranked(vectors(trained, "cls"), spaces["own_entries"])
    assert expected["own_entries"] != ranked(vectors(tiny_backbone, "mean"), spaces["own_entries"])
    assert expected["before"] != ranked(vectors(tiny_backbone, "mean"), spaces["entry_matrix"])
    assert expected["before"] != ranked(vectors(trained, "cls"), spaces["entry_matrix"])

    found = made(inputs, models, tmp_path, entries="cls", own="mean")
    for arm, wanted in expected.items():
        mine = [row for row in found["definition_ranks"] if row["arm"] == arm]
        assert [row["row_id"] for row in mine] == list(range(100, 125))
        assert [row["rank"] for row in mine] == wanted, arm
    figures = {(row["arm"], row["metric"]): row for row in found["definition_figures"]}
    mean = 100 * np.mean([1 / place for place in expected["own_entries"]])
    own = figures["own_entries", "mrr"]
    assert own["value"] == pytest.approx(mean)
    # Twice the standard error of the mean, about.
    error = 100 * np.std([1 / place for place in expected["own_entries"]]) / 25**0.5
    assert own["ci_low"] == pytest.approx(mean - 2 * error, abs=0.7 * error)
    assert own["ci_high"] == pytest.approx(mean + 2 * error, abs=0.7 * error)
    gain = figures["own_entries", "mrr_gain"]
    assert gain["value"] == pytest.approx(mean - figures["before", "mrr"]["value"])
    assert gain["ci_low"] < gain["value"] < gain["ci_high"]


@pytest.mark.parametrize("settings", [{"ica": 0.26}, {"entries": "words"}])
def test_entries_that_are_no_sentence_vectors_have_nothing_before(
    inputs: dict[str, Rows], models: dict[str, Path], tmp_path: Path, settings: dict[str, Any]
) -> None:
    found = made(inputs, models, tmp_path, **settings)
    arms = {row["arm"] for row in found["definition_ranks"]}
    assert arms == {"projection", "own_entries", "words"}
    assert not [row for row in found["definition_figures"] if row["metric"].endswith("_gain")]


def test_the_projection_of_one_of_several_parts(
    inputs: dict[str, Rows], models: dict[str, Path], tmp_path: Path
) -> None:
    alone = made(inputs, models, tmp_path)
    folder = models["trained"] / "losses"
    (folder / "projection.safetensors").rename(folder / "second.projection.safetensors")
    found = made(inputs, models, tmp_path, part="second", model_seed=7)
    kept = [{**row, "seed": 3} for row in found["definition_ranks"]]
    assert kept == alone["definition_ranks"]
    assert {row["seed"] for row in found["definition_ranks"]} == {7}


def test_what_the_guard_removes_gives_the_words_nothing(
    inputs: dict[str, Rows], models: dict[str, Path], tmp_path: Path
) -> None:
    removed = pa.table({"text": ["red file"], "removed": [True]})
    guarded = {"guarded_labelled": stored(tmp_path, contamination=removed)["contamination"]}
    found = made({**inputs, **guarded}, models, tmp_path)
    ranks = {(row["arm"], row["row_id"]): row["rank"] for row in found["definition_ranks"]}
    # Among four entries that share no word with it.
    assert ranks["words", 9] == 2.5


def test_where_nothing_is_held_out_a_reject_says_so(
    inputs: dict[str, Rows], models: dict[str, Path], tmp_path: Path
) -> None:
    found = made(inputs, models, tmp_path, corpus="third")
    (reject,) = found.pop("rejects")
    assert (reject["reason"], reject["row_id"]) == ("no_held_out", None)
    assert not any(found.values())
