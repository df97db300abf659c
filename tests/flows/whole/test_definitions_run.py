"""DefSent+ in two steps: each from the backbone, the second against entries that the first made."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file
from tiny_models import WORDS
from tiny_run import Finished, copy_of, ended_well, query, tercet

from tercet.flows.results.queries import find_artifact
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.encoders.entry_space import read_space
from tercet.models.losses.definition_loss import read_projection
from tercet.storage.store import open_store

LOSS = {"name": "definition", "entries": "cls"}
STEPS = {"backbone": "base", "rows": "terms", "batch_size": 8, "max_steps": 8}
PHASES: list[dict[str, Any]] = [
    {"name": "step1", "loss": LOSS, "models": {"entry_matrix": "base"}, **STEPS,
     "learning_rate": 1e-3},
    # Next to nothing is learnt, so that the weights show where they come from.
    {"name": "step2", "loss": LOSS, "models": {"entry_matrix": "step1"}, **STEPS,
     "learning_rate": 1e-12},
]  # fmt: skip


def dictionary(path: Path) -> Path:
    """Sixty made-up definitions of forty terms; some have several terms, some terms several."""
    draw = random.Random(3)
    lines = ["members\tdefinition"]
    for number in range(60):
        terms = {f"term {number % 40}", *(f"term {t}" for t in draw.sample(range(40), number % 2))}
        lines.append(f"{'|'.join(sorted(terms))}\t{' '.join(draw.sample(WORDS, 6))}")
    path.write_text("\n".join([*lines, "\tthe first file", lines[1]]) + "\n")
    return path


@pytest.fixture(scope="module")
def recipe(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("definitions")
    content = yaml.safe_load(finished.tiny.recipe.read_text())
    for key in ("synthesise", "evaluator", "select"):
        del content[key]
    terms = {"name": "terms", "role": "labelled", "kind": "definitions", "held_out": 0.3}
    content["corpora"].append({**terms, "source": str(dictionary(folder / "terms.tsv"))})
    content["train"] = {"pooling": "cls", "max_length": 32, "log_steps": 2, "phases": PHASES}
    path = folder / "definitions.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def words(recipe: Path, store: Path, *options: str) -> list[str]:
    return ["run", str(recipe), "--no-server", "--store", str(store), *options]


@pytest.fixture(scope="module")
def undisturbed(finished: Finished, recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = copy_of(finished.store, tmp_path_factory.mktemp("undisturbed") / "store")
    ended_well(tercet(*words(recipe, store)))
    return store


def model(store: Path, step: str) -> Path:
    return Path(find_artifact(open_store(str(store), create=False), step, None).model_dir() or "")


def test_the_second_step_starts_from_the_backbone_and_reads_the_firsts_entries(
    finished: Finished, undisturbed: Path
) -> None:
    backbone = load_file(finished.tiny.backbone / "model.safetensors")
    first, second = (load_file(model(undisturbed, f"train.step{k}") / "model.safetensors")
                     for k in (1, 2))  # fmt: skip
    assert any(not torch.allclose(first[name], backbone[name], atol=1e-4) for name in first)
    assert all(torch.allclose(second[name], backbone[name], atol=1e-7) for name in second)
    # The first step's encoder has made the second one's entries, and the backbone the first's.
    rows = query(undisturbed, "SELECT anchor, entries FROM labelled ORDER BY row_id")
    for step, encoder in (("step1", finished.tiny.backbone), ("step2", model(undisturbed, "train.step1"))):  # noqa: E501  # fmt: skip
        space = read_space(model(undisturbed, f"entry_matrix.{step}"))
        vectors = encode(load_encoder(encoder, "cls"), [text for text, _ in rows], normalise=False)
        for entry, row in zip(space.entry_ids.tolist(), space.matrix.numpy(), strict=True):
            own = [v for v, (_, owners) in zip(vectors, rows, strict=True) if entry in owners]
            assert np.allclose(row, sum(own) / len(own), atol=1e-4)


def test_a_run_tells_of_its_entries(undisturbed: Path) -> None:
    counts = dict(query(undisturbed, "SELECT name, value FROM entry_spaces WHERE metric='entries'"))
    assert counts == {"step1": 40, "step2": 40, "step2.own": 40}
    terms = query(undisturbed, "SELECT DISTINCT unnest(map_keys(terms)) FROM training_log")
    assert {name for (name,) in terms} == {"recall_1", "floor"}
    reasons = query(
        undisturbed, "SELECT reason, count(*) FROM rejects WHERE stage = 'labelled' GROUP BY ALL"
    )
    assert dict(reasons) == {"missing_text": 1, "duplicate": 1}


def test_a_run_measures_what_held_out_definitions_find(undisturbed: Path) -> None:
    held = query(
        undisturbed, "SELECT row_id, anchor, entries FROM held_out_definitions ORDER BY row_id"
    )
    assert len(held) > 3
    found = query(undisturbed, "SELECT name, arm, row_id, rank FROM definition_ranks ORDER BY ALL")
    assert {(name, arm) for name, arm, _, _ in found} == {
        (name, arm)
        for name in ("step1", "step2")
        for arm in ("projection", "own_entries", "before", "words")
    }
    # By hand, as `tercet define` does it.
    folder = model(undisturbed, "train.step2")
    space = read_space(model(undisturbed, "entry_matrix.step2"))
    projection = read_projection(folder / "losses" / "projection.safetensors")
    vectors = encode(load_encoder(folder), [text for _, text, _ in held], normalise=False)
    with torch.no_grad():
        scores = projection(torch.from_numpy(vectors)) @ space.matrix.T
    ranks = {row: rank for name, arm, row, rank in found if (name, arm) == ("step2", "projection")}
    assert len(ranks) == len(held)
    for (row_id, _, entries), row in zip(held, scores.tolist(), strict=True):
        own = {space.entry_ids.tolist().index(entry) for entry in entries}
        best = max(row[place] for place in own)
        assert ranks[row_id] == 1 + sum(score > best for score in row)
    ((recall, low, high, n),) = query(
        undisturbed,
        "SELECT value, ci_low, ci_high, n FROM definition_figures"
        " WHERE name = 'step2' AND arm = 'projection' AND metric = 'recall@10'",
    )
    assert (n, recall) == (
        len(held), pytest.approx(100 * np.mean([rank <= 10 for rank in ranks.values()]))
    )  # fmt: skip
    assert (low, high) == (None, None)  # of so few
