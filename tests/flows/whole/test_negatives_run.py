"""A whole run that mines negatives for rows of three sources and trains with them."""

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_run import Tiny, documents, ended_well, query, states, tercet


def recipe(tiny: Tiny, folder: Path) -> dict[str, Any]:
    """Columns of queries and answers, and clicks of another file."""
    clicks = folder / "clicks.csv"
    with clicks.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("query", "answer"))
        for row in documents(40, seed=8):
            writer.writerow((row["query"], row["answer"]))
    content = yaml.safe_load(tiny.recipe.read_text())
    content["corpora"].append(
        {"name": "clicks", "source": str(clicks), "role": "labelled", "kind": "pairs"}
        | {"columns": {"anchor": "query", "positive": "answer"}}
    )
    content["ingest"]["passages"] = {"tokens": 24}
    del content["synthesise"], content["select"]
    content["negatives"] = {"k": 3, "by": "both", "margin": 0.0}
    # Graded pairs of what the corpus says, so that some negatives have to stay out of training.
    graded = folder / "graded.csv"
    with graded.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("sentence1", "sentence2", "score"))
        for score, row in enumerate(documents(30)):
            writer.writerow((*row["answer"].split(". ")[:2], score % 5))
    content["evaluate"]["sts_sets"] = {"ours": str(graded)}
    parts = [
        {"name": "found", "rows": {"from": "document_pairs", "negatives": 3}, "loss": "info_nce"},
        {"name": "clicked", "rows": {"from": "clicks", "negatives": 2}, "loss": "info_nce"},
        {
            "name": "ordered",
            "rows": {"from": "document_pairs", "negatives": 1},
            "loss": "pairwise_logistic",
        },
    ]
    phase = {"name": "search", "batch_size": 12, "mini_batch": 4, "max_steps": 3, "parts": parts}
    content["train"]["phases"] = [phase]
    return content


@pytest.fixture(scope="module")
def made(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of one run."""
    folder = tmp_path_factory.mktemp("negatives")
    file, store = folder / "own.yaml", folder / "store"
    file.write_text(yaml.safe_dump(recipe(tiny, folder), sort_keys=False))
    ended_well(tercet("run", str(file), "--no-server", "--store", str(store)))
    return store


def test_pairs_and_labelled_rows_have_negatives_from_other_documents(made: Path) -> None:
    assert {"negatives.document_pairs", "negatives.labelled"} <= set(states(made))
    rows = query(
        made,
        """SELECT n.text, p.text, p.split, p.doc_id = d.doc_id, contains(n.text, d.answer)
           FROM negatives n JOIN document_pairs d ON d.pair_id = n.triplet_id
           JOIN passages p USING (passage_id)""",
    )
    assert len(rows) > 100
    assert all(text == own and split == "train" for text, own, split, *_ in rows)
    assert not any(same or contains for *_, same, contains in rows)
    clicked = query(
        made, "SELECT count(*) FROM negatives n JOIN labelled l ON l.row_id = n.triplet_id"
    )
    assert clicked[0][0] > 20
    ranks = query(made, "SELECT DISTINCT rank FROM negatives ORDER BY rank")
    assert [rank for (rank,) in ranks] == [1, 2, 3]


def test_the_guard_finds_negatives_with_evaluation_texts(made: Path) -> None:
    found = query(
        made,
        """SELECT count(DISTINCT n.text) FROM negatives n JOIN contamination c USING (text)
           JOIN rejects r ON r.row_id = n.triplet_id
           WHERE c.removed AND r.stage = 'guard' AND r.text = n.text""",
    )
    assert found[0][0] > 3
    assert "guard.negatives" in states(made)


def test_what_has_fewer_is_told(made: Path) -> None:
    told = query(made, "SELECT key, count > 0 FROM warnings WHERE kind = 'few_negatives'")
    assert all(more for _, more in told)
    terms = query(made, "SELECT map_keys(terms) FROM training_log LIMIT 1")[0][0]
    assert {"found.loss", "clicked.loss", "ordered.in_order"} <= set(terms)
