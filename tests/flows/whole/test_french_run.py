"""A corpus in another language, by a pipeline of spaCy: from lines to triplets of altered facts."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from french_corpus import french_lines
from tiny_run import ended_well, query, tercet

# No swap crosses types: whatever comes in has been mentioned with the type of what goes.
CROSSED = """
    SELECT m.text, m.type, n.text FROM candidates c
    JOIN mentions m ON m.mention_id = c.detail.mention_id
    JOIN kg_nodes n ON n.node_id = c.detail.node_id
    WHERE c.method = 'entity_swap' AND NOT EXISTS (
        FROM mentions o WHERE o.node_id = n.node_id AND o.type = m.type)"""
VOWEL = re.compile(r"[AEIOUÉ]")


@pytest.fixture(scope="module")
def store(pipelines: Path, tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("french")
    (folder / "lignes.txt").write_text("\n".join(french_lines(600)) + "\n")
    recipe: dict[str, Any] = {
        "name": "french",
        "backbone": str(tiny_backbone),
        "corpora": [{"name": "lignes", "source": str(folder / "lignes.txt")}],
        "extract": {"pipeline": "fr_core_news_sm"},
        "synthesise": {"word_repetition": None, "entity_swap": None, "quantity_change": None},
        "evaluator": {"model": str(tiny_backbone)},
        "select": {"positive_min": 0.0, "negative_max": 1.0},
        "train": {"max_length": 32, "phases": [{"batch_size": 8, "max_steps": 2}]},
        "run": {"device": "cpu", "part_rows": 300},
    }
    (folder / "french.yaml").write_text(yaml.safe_dump(recipe))
    words = ["--no-server", "--store", str(folder / "store"), "--until", "triplets"]
    ended_well(tercet("run", str(folder / "french.yaml"), *words))
    return folder / "store"


def test_both_methods_alter_facts_and_reach_triplets(store: Path) -> None:
    counts = dict(query(store, "SELECT method, count(*) FROM candidates GROUP BY method"))
    assert counts["entity_swap"] > 200
    assert counts["quantity_change"] > 200
    joined = "FROM triplets t JOIN candidates c ON c.candidate_id = t.negative_id"
    used = query(store, f"SELECT DISTINCT c.method {joined}")
    assert {("entity_swap",), ("quantity_change",)} <= set(used)


def test_no_swap_crosses_types(store: Path) -> None:
    assert query(store, CROSSED) == []
    types = query(store, "SELECT DISTINCT type FROM mentions WHERE kind = 'entity'")
    assert {("LOC",), ("PER",)} <= set(types)


def test_what_is_elided_before_a_name_still_is(store: Path) -> None:
    swaps = query(
        store, "SELECT detail.old, detail.new FROM candidates WHERE method = 'entity_swap'"
    )
    for old, new in swaps:
        assert bool(VOWEL.match(old)) == bool(VOWEL.match(new))
