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
def store(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("definitions")
    content = yaml.safe_load(finished.tiny.recipe.read_text())
    for key in ("synthesise", "evaluator", "select"):
        del content[key]
    terms = {"name": "terms", "role": "labelled", "kind": "definitions", "held_out": 0.3}
    content["corpora"].append({**terms, "source": str(dictionary(folder / "terms.tsv"))})
    content["train"] = {"pooling": "cls", "max_length": 32, "log_steps": 2, "phases": PHASES}
    path = folder / "definitions.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    store = copy_of(finished.store, folder / "store")
    ended_well(tercet("run", str(path), "--no-server", "--store", str(store)))
    return store


def model(store: Path, step: str) -> Path:
    return Path(find_artifact(open_store(str(store), create=False), step, None).model_dir() or "")


def test_the_second_step_starts_from_the_backbone_and_reads_the_firsts_entries(
    finished: Finished, store: Path
) -> None:
    backbone = load_file(finished.tiny.backbone / "model.safetensors")
    first, second = (load_file(model(store, f"train.step{k}") / "model.safetensors")
                     for k in (1, 2))  # fmt: skip
    assert any(not torch.allclose(first[name], backbone[name], atol=1e-4) for name in first)
    assert all(torch.allclose(second[name], backbone[name], atol=1e-7) for name in second)
    # The first step's encoder has made the second one's entries, and the backbone the first's.
    rows = query(store, "SELECT anchor, entries FROM labelled ORDER BY row_id")
    for step, encoder in (("step1", finished.tiny.backbone), ("step2", model(store, "train.step1"))):  # noqa: E501  # fmt: skip
        space = read_space(model(store, f"entry_matrix.{step}"))
        vectors = encode(load_encoder(encoder, "cls"), [text for text, _ in rows], normalise=False)
        for entry, row in zip(space.entry_ids.tolist(), space.matrix.numpy(), strict=True):
            vectors_of = [
                v for v, (_, owners) in zip(vectors, rows, strict=True) if entry in owners
            ]
            assert np.allclose(row, sum(vectors_of) / len(vectors_of), atol=1e-4)


def test_a_run_tells_of_its_entries_and_what_held_out_definitions_find(store: Path) -> None:
    counts = dict(query(store, "SELECT name, value FROM entry_spaces WHERE metric='entries'"))
    assert counts == {"step1": 40, "step2": 40, "step2.own": 40}
    terms = query(store, "SELECT DISTINCT unnest(map_keys(terms)) FROM training_log")
    assert {name for (name,) in terms} == {"recall_1", "floor"}
    reasons = query(
        store, "SELECT reason, count(*) FROM rejects WHERE stage = 'labelled' GROUP BY ALL"
    )
    assert dict(reasons) == {"missing_text": 1, "duplicate": 1}
    ((held,),) = query(store, "SELECT count(*) FROM held_out_definitions")
    measured = query(
        store,
        """SELECT r.name, r.arm, count(*),
            r.arm <> 'projection' OR abs(100 * avg((rank <= 10)::INT) - any_value(value)) < 1e-6
        FROM definition_ranks r JOIN definition_figures f
        ON (f.name, f.arm, f.metric) = (r.name, r.arm, 'recall@10') GROUP BY 1, 2 ORDER BY ALL""",
    )
    arms = ("before", "own_entries", "projection", "words")
    # By the others some entries tie, of whose places a figure counts the share.
    assert measured == [(name, arm, held, True) for name in ("step1", "step2") for arm in arms]
