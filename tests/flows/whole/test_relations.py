"""Rows of several sources in one batch: topical, strict, found and labelled, with negatives."""

import csv
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny_run import Tiny, documents, ended_well, query, states, tercet
from transformers import BertConfig, BertModel

TRIPLETS = {"from": "triplets"}
PARTS: list[dict[str, Any]] = [
    {"name": "topical", "rows": TRIPLETS | {"relation": "topic"}, "loss": "info_nce"},
    {"name": "strict", "rows": TRIPLETS | {"relation": "alters", "one_per": "sentence"},
     "loss": "pairwise_logistic", "weight": 0.5},
    {"name": "found", "rows": {"from": "document_pairs", "negatives": 3}, "loss": "info_nce"},
    {"name": "clicked", "rows": {"from": "clicks", "negatives": 1}, "loss": "pairwise_logistic"},
]  # fmt: skip


def table(path: Path, *rows: tuple[Any, ...]) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


@pytest.fixture(scope="module")
def store(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run on documents, on lines for what changes a fact, and on clicks."""
    folder = tmp_path_factory.mktemp("relations")
    (folder / "lines.txt").write_text(
        "".join(
            f"The {kind} tower near the river holds {number} bells and {number + 3} old stones.\n"
            for number, kind in enumerate(["red", "tall", "small", "grey"] * 30, start=4)
        )
    )
    questions = [(row["query"], row["answer"]) for row in documents(40, seed=8)]
    clicks = table(folder / "clicks.csv", ("query", "answer"), *questions)
    # Graded pairs of what the corpus says, so that some negatives have to stay out of training.
    pairs = [(*row["answer"].split(". ")[:2], score % 5) for score, row in enumerate(documents(30))]
    graded = table(folder / "graded.csv", ("sentence1", "sentence2", "score"), *pairs)
    content = yaml.safe_load(tiny.recipe.read_text())
    lines = {"name": "lines", "source": str(folder / "lines.txt"), "role": "general"}
    labelled = {"name": "clicks", "source": clicks, "role": "labelled", "kind": "pairs"}
    content["corpora"] += [
        lines | {"min_context_sentences": 0},
        labelled | {"columns": {"anchor": "query", "positive": "answer"}},
    ]
    content["ingest"] |= {"passages": {"tokens": 24}, "dev": 0.3}
    # The backbone with other random weights.
    teacher = Path(shutil.copytree(tiny.backbone, folder / "teacher"))
    torch.manual_seed(1)
    BertModel(BertConfig.from_pretrained(teacher)).save_pretrained(teacher)
    content["awareness"] = {"teacher": str(teacher)}
    content["evaluate"]["sts_sets"] = {"ours": graded}
    content |= {
        "sample": {"min_context_sentences": 1},
        "synthesise": {
            "next_sentences": {"role": "domain"},
            "cutoff": {"role": "general"},
            "quantity_change": {"role": "general"},
        },
        "mine": {"below": 0.99},
        "negatives": {"k": 3, "by": "both", "margin": 0.0},
        "select": {
            "positive_min": 0.0,
            "negative_max": 1.0,
            "fallback_positive": False,
            "relations": {"alters": {"negative_max": 1.0}},
        },
    }
    phase = {"batch_size": 16, "mini_batch": 4, "max_steps": 10, "learning_rate": 1e-3}
    content["train"]["phases"] = [
        {**phase, "name": "both", "parts": [part | {"share": 0.25} for part in PARTS]}
    ]
    path = folder / "relations.yaml"
    path.write_text(yaml.safe_dump(content))
    ended_well(tercet("run", str(path), "--store", str(folder / "store"), "--no-server"))
    return folder / "store"


def test_each_source_gives_the_rows_that_it_is_for(store: Path) -> None:
    sources = query(
        store,
        "SELECT DISTINCT t.relation, s.corpus, t.positive_method FROM triplets t "
        "JOIN sentences s USING (sentence_id) WHERE t.relation <> 'keeps' ORDER BY ALL",
    )
    assert sources == [("alters", "lines", "cutoff"), ("topic", "prose", "next_sentences")]
    # Mined ones and those of the step `negatives` are of other documents.
    rows = query(
        store,
        "SELECT DISTINCT negative_method, negative_similarity < 0.99 * positive_similarity "
        "FROM triplets WHERE relation = 'topic' AND negative IS NOT NULL",
    )
    assert rows == [("mined", True)]
    ((pairs, own),) = query(
        store,
        """SELECT count(*), count(*) FILTER (p.doc_id = d.doc_id OR p.split <> 'train')
           FROM negatives n JOIN document_pairs d ON d.pair_id = n.triplet_id
           JOIN passages p USING (passage_id)""",
    )
    assert own == 0 < pairs
    clicked = "SELECT count(*) > 20 FROM negatives n JOIN labelled l ON l.row_id = n.triplet_id"
    assert query(store, clicked) == [(True,)]


def test_graded_pairs_and_awareness_measure_before_and_after_and_are_not_trained_on(
    store: Path,
) -> None:
    measured = query(
        store,
        """SELECT suite, count(*) FROM evaluations WHERE metric = 'spearman_gain'
        AND suite IN ('sts_sets', 'awareness') AND ci_low <= value GROUP BY ALL ORDER BY ALL""",
    )
    assert measured == [("awareness", 3), ("sts_sets", 1)]
    assert {"guard.negatives", "guard.triplets"} <= set(states(store))


def test_each_part_trains_and_reports_its_terms(store: Path) -> None:
    ((topical, order, drawn),) = query(
        store,
        "SELECT min(terms['topical.loss']), max(terms['strict.in_order']), "
        "(SELECT count(DISTINCT method) FROM draws) FROM training_log",
    )
    assert topical > 0
    assert 0 <= order <= 1
    # The strict part draws a row a sentence: its kept and its altered text.
    assert drawn == 2
    terms = query(store, "SELECT map_keys(terms) FROM training_log LIMIT 1")[0][0]
    assert {"found.loss", "clicked.in_order"} <= set(terms)
