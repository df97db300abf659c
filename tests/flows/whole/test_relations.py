"""Topical rows of one corpus and strict rows of another in one batch, with mined negatives."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_run import Tiny, ended_well, query, states, tercet

PARTS: list[dict[str, Any]] = [
    {
        "name": "topical",
        "rows": {"from": "triplets", "relation": "topic"},
        "loss": "info_nce",
        "share": 0.5,
    },
    {
        "name": "strict",
        "rows": {"from": "triplets", "relation": "alters", "one_per": "sentence"},
        "loss": "pairwise_logistic",
        "weight": 0.5,
        "share": 0.5,
    },
]


@pytest.fixture(scope="module")
def store(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("relations")
    lines = folder / "lines.txt"
    lines.write_text(
        "".join(
            f"The {kind} tower near the river holds {number} bells and {number + 3} old stones.\n"
            for number, kind in enumerate(["red", "tall", "small", "grey"] * 30, start=4)
        )
    )
    content = yaml.safe_load(tiny.recipe.read_text())
    content["corpora"].append(
        {"name": "lines", "source": str(lines), "role": "general", "min_context_sentences": 0}
    )
    content["sample"] = {"min_context_sentences": 1}
    content["synthesise"] = {
        "next_sentences": {"role": "domain"},
        "cutoff": {"role": "general"},
        "quantity_change": {"role": "general"},
    }
    content["mine"] = {"below": 0.99}
    content["select"] = {
        "positive_min": 0.0,
        "negative_max": 1.0,
        "fallback_positive": False,
        "relations": {"alters": {"negative_max": 1.0}},
    }
    phase = {"batch_size": 8, "max_steps": 10, "learning_rate": 1e-3, "name": "both"}
    content["train"]["phases"] = [{**phase, "parts": PARTS}]
    path = folder / "relations.yaml"
    path.write_text(yaml.safe_dump(content))
    done = ended_well(tercet("run", str(path), "--store", str(folder / "store"), "--no-server"))
    assert "Traceback" not in done.stderr
    return folder / "store"


def test_each_corpus_gives_the_rows_that_it_is_for(store: Path) -> None:
    found = query(
        store,
        "SELECT DISTINCT t.relation, s.corpus, t.positive_method FROM triplets t "
        "JOIN sentences s USING (sentence_id) ORDER BY ALL",
    )
    assert found == [
        ("alters", "lines", "cutoff"),
        *([("keeps", "lines", "cutoff")] if ("keeps", "lines", "cutoff") in found else []),
        ("topic", "prose", "next_sentences"),
    ]


def test_mined_negatives_are_of_other_documents_and_farther_than_the_positive(store: Path) -> None:
    assert states(store)["mine"] == "made"
    rows = query(
        store,
        "SELECT negative_method, negative_similarity < 0.99 * positive_similarity, count(*) "
        "FROM triplets WHERE relation = 'topic' AND negative IS NOT NULL GROUP BY ALL",
    )
    assert [(method, nearer) for method, nearer, _ in rows] == [("mined", True)]
    ((own,),) = query(
        store,
        "SELECT count(*) FROM triplets t JOIN sentences s USING (sentence_id) "
        "JOIN sentences o ON o.doc_id = s.doc_id AND contains(t.negative, o.text) "
        "WHERE t.negative_method = 'mined'",
    )
    assert own == 0


def test_both_parts_train_and_report_their_terms(store: Path) -> None:
    ((topical, order, drawn),) = query(
        store,
        "SELECT min(terms['topical.loss']), max(terms['strict.in_order']), "
        "(SELECT count(DISTINCT method) FROM draws) FROM training_log",
    )
    assert topical > 0
    assert 0 <= order <= 1
    # The strict part draws a row a sentence: its kept and its altered text.
    assert drawn == 2
