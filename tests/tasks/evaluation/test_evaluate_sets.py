"""Cases, graded pairs and queries of one's own as the stage `evaluate` measures them."""

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from beir_folder import write_beir
from evaluation_stage import constant, encoder, model, run_stage, words
from failures import fails
from scipy.stats import spearmanr

from tercet.flows.pipeline.fingerprints import without
from tercet.models import seeding
from tercet.tasks.evaluation.evaluate import STAGE, EvaluateConfig, externals

__all__ = ["encoder", "model"]

Measured = Callable[..., Any]
CASES = ("anchor", "rewording", "changed", "kind")


@pytest.fixture
def measured(tmp_path: Path, encoder: SimpleNamespace, model: Path) -> Measured:
    """The tables that the stage makes of these settings alone."""
    return lambda **settings: run_stage(tmp_path / "work", model, [], retrieval=False, **settings)


def figures(tables: Any, suite: str) -> dict[tuple[str, ...], dict[str, Any]]:
    """The rows of a suite by task, part and metric."""
    rows = [row for row in tables["evaluations"].to_pylist() if row["suite"] == suite]
    return {(row["task"], row["subset"], row["metric"]): row for row in rows}


def write(path: Path, *lines: tuple[Any, ...]) -> str:
    path.write_text("\n".join("\t".join(map(str, line)) for line in lines))
    return str(path)


# By shared words, the first and the third are in order, the second ties, the last is not.
ORDERED = [
    ("a b c d", "a b c x", "a b x y", "number", "test"),
    ("a b c d", "a b x y", "a b y z", "name", "test"),
    ("e f g h", "e f g x", "e x y z", "number", "dev"),
    ("i j k l", "i x y z", "i j k x", "number", "test"),
]


@pytest.fixture
def cases(tmp_path: Path) -> str:
    return write(tmp_path / "ours.tsv", (*CASES, "split"), *ORDERED)


def test_cases_by_hand(measured: Measured, encoder: SimpleNamespace, cases: str) -> None:
    out = measured(fact_order={"ours": cases}, splits=["dev", "test"])
    found = figures(out, "fact_order")
    assert {key: row["value"] for key, row in found.items()} == {
        ("ours", "all", "accuracy"): 50.0,
        ("ours", "number", "accuracy"): 50.0,
        ("ours", "name", "accuracy"): 50.0,
        ("ours dev", "all", "accuracy"): 100.0,
    }
    assert found["ours", "all", "accuracy"]["n"] == 3
    items = out["evaluation_items"].to_pylist()
    assert [(i["task"], i["subset"], i["item"], i["value"]) for i in items] == [
        ("ours", "number", 0, 1.0),
        ("ours", "number", 1, 0.0),
        ("ours", "name", 0, 0.5),
        ("ours dev", "number", 0, 1.0),
    ]
    anchors = seeding.text_ids([ORDERED[place][0] for place in (0, 3, 1, 2)])
    assert [item["anchor_id"] for item in items] == anchors.tolist()
    rows = out["fact_order_cases"].to_pylist()
    assert [(c["task"], c["kind"], c["item"]) for c in rows] == [
        ("ours", "number", 0),
        ("ours", "name", 0),
        ("ours", "number", 1),
        ("ours dev", "number", 0),
    ]
    assert tuple(rows[0][name] for name in CASES) == ORDERED[0][:4]
    assert rows[0]["rewording_similarity"] == pytest.approx(0.75)
    assert rows[0]["changed_similarity"] == pytest.approx(0.5)
    # Each distinct text once.
    assert sorted(encoder.seen) == sorted({text for case in ORDERED for text in case[:3]})


def test_gains_are_paired_and_a_collapsed_encoder_gets_a_half(
    measured: Measured, encoder: SimpleNamespace, cases: str
) -> None:
    base = measured(fact_order=cases)
    encoder.embed = constant
    found = figures(measured(fact_order=cases, baseline=base), "fact_order")
    assert found["ours", "all", "accuracy"]["value"] == 50.0
    assert found["ours", "number", "accuracy_gain"]["value"] == 0.0
    # In all resamples every case is a tie, so the gain varies as the first model's figure does.
    before = figures(base, "fact_order")["ours", "all", "accuracy"]
    gain = found["ours", "all", "accuracy_gain"]
    assert gain["ci_high"] == pytest.approx(50 - before["ci_low"])


def test_kinds_are_resampled_by_themselves(tmp_path: Path, measured: Measured) -> None:
    """As wide as an interval over as many independent cases."""
    rows = []
    for i in range(200):
        near, far = (f"a{i} b{i} u", f"a{i} v w") if i % 2 else (f"a{i} v w", f"a{i} b{i} u")
        rows.append((f"a{i} b{i} c{i}", near, far, "early" if i < 100 else "late"))
    found = figures(measured(fact_order=write(tmp_path / "m.tsv", CASES, *rows)), "fact_order")
    for subset, n in (("all", 200), ("early", 100), ("late", 100)):
        row = found["m", subset, "accuracy"]
        assert row["n"] == n
        # Hashed words may collide.
        assert row["value"] == pytest.approx(50, abs=2)
        expected = 2 * 1.96 * 50 / np.sqrt(n)
        assert row["ci_high"] - row["ci_low"] == pytest.approx(expected, rel=0.2)


def test_several_cases_of_an_anchor_are_drawn_together(tmp_path: Path, measured: Measured) -> None:
    """With one anchor there is nothing to draw, however many cases it has."""
    rows = [("a b c d", f"a b c x{i}", f"a b y{i} z{i}", "number") for i in range(5)]
    rows += [("a b c d", f"a u{i} v{i} w{i}", f"a b c x{i}", "number") for i in range(5)]
    out = measured(fact_order=write(tmp_path / "one.tsv", CASES, *rows))
    row = figures(out, "fact_order")["one", "all", "accuracy"]
    assert (row["value"], row["ci_low"], row["ci_high"], row["n"]) == (50.0, 50.0, 50.0, 10)


# Two texts, their score and their split: by shared words, not all are in order.
PAIRS = [
    ("a b c d", "a b c d", 5, "test"),
    ("a b c d", "a b c x", 2, "test"),
    ("a b c d", "a b x y", 3, "test"),
    ("e f g h", "e x y z", 1, "test"),
    ("e f g h", "w x y z", 0, "test"),
    ("i j k l", "i j k l", 9, "dev"),
    ("i j k l", "i j k x", 8, "dev"),
    ("i j k l", "w x y z", 1, "dev"),
    ("m n o p", "", 1, "test"),
]


@pytest.fixture
def pairs(tmp_path: Path) -> str:
    return write(tmp_path / "pairs.tsv", ("one", "two", "gold", "split"), *PAIRS)


def test_pairs_by_hand(measured: Measured, pairs: str) -> None:
    out = measured(sts_sets={"ours": pairs}, splits=["dev", "test"])
    found = figures(out, "sts_sets")
    assert set(found) == {("ours", "all", "spearman"), ("ours dev", "all", "spearman")}
    row = found["ours", "all", "spearman"]
    expected = 100 * spearmanr([1, 0.75, 0.5, 0.25, 0], [5, 2, 3, 1, 0]).statistic
    assert row["value"] == pytest.approx(expected)
    assert row["ci_low"] <= row["value"] <= row["ci_high"]
    assert row["n"] == 5
    assert found["ours dev", "all", "spearman"]["value"] == pytest.approx(100)
    items = out["evaluation_items"].to_pylist()
    gold = [("ours", score) for _, _, score, _ in PAIRS[:5]]
    assert [(item["task"], item["gold"]) for item in items[:6]] == [*gold, ("ours dev", 9)]
    (left_out,) = out["rejects"].to_pylist()
    assert left_out["reason"] == "missing_text"
    assert "row 10" in left_out["detail"]


# By shared letters, "a b" is nearest to its own document, and "x y" to another's.
DOCUMENTS = {"1": "a b c", "2": "x y", "3": "x y " + "z " * 9, "4": "m n"}
QUERIES = {"p": "a b", "q": "x y", "r": "m q"}
GRADES = [("p", "1", 1), ("q", "3", 2), ("q", "2", 0), ("r", "gone", 1), ("r", "4", 1)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_beir(tmp_path / "ours", DOCUMENTS, QUERIES, {"test": GRADES})


def test_queries_by_hand(measured: Measured, folder: Path) -> None:
    # A split without judgements is left out.
    out = measured(retrieval_sets=str(folder), splits=["dev", "test"])
    found = figures(out, "retrieval_sets")
    metrics = {"ndcg@10", "recall@10", "recall@100", "map", "mrr@10"}
    tasks = {"ours", "ours bm25", "ours hybrid"}
    assert set(found) == {(task, "all", metric) for task in tasks for metric in metrics}
    # p: first; q: second, behind its own words; r: 4 first, and one that cannot be found.
    second = 1 / np.log2(3)
    for metric, expected in (
        ("ndcg@10", 1 + second + 1 / (1 + second)),
        ("mrr@10", 1 + 1 / 2 + 1),
        ("recall@10", 1 + 1 + 1 / 2),
    ):
        assert found["ours", "all", metric]["value"] == pytest.approx(100 * expected / 3)
    assert found["ours", "all", "ndcg@10"]["n"] == 3
    items = out["evaluation_items"].to_pylist()
    assert len(items) == len(tasks) * len(metrics) * len(QUERIES)
    assert {item["metric"] for item in items} == metrics
    (absent,) = out["rejects"].to_pylist()
    assert absent["reason"] == "no_document"
    rows = out["question_ranks"].to_pylist()
    (row,) = (row for row in rows if (row["query"], row["way"]) == ("x y", "encoder"))
    assert (row["rank"], row["first_id"], row["first"]) == (2, None, "x y")
    assert row["query_id"] == seeding.text_id("x y")
    with fails("missing_file", "qrels/dev.tsv"):
        measured(retrieval_sets=str(folder), splits=["dev"])


def test_only_what_an_encoder_changes_has_gains(
    measured: Measured, encoder: SimpleNamespace, folder: Path
) -> None:
    base = measured(retrieval_sets=str(folder))
    encoder.embed = lambda text: words(text[::-1]) + 0.1 * words(text[:1])
    out = measured(retrieval_sets=str(folder), baseline=base)
    found, before = (figures(tables, "retrieval_sets") for tables in (out, base))
    for task in ("ours", "ours hybrid"):
        gain = found[task, "all", "ndcg@10_gain"]
        now, then = (rows[task, "all", "ndcg@10"]["value"] for rows in (found, before))
        assert gain["value"] == pytest.approx(now - then)
        assert gain["ci_low"] <= gain["value"] <= gain["ci_high"]
    assert ("ours bm25", "all", "ndcg@10_gain") not in found
    bm25 = ("ours bm25", "all", "map")
    assert found[bm25]["value"] == before[bm25]["value"]


def test_the_content_of_the_files_counts_and_not_their_place(
    cases: str, pairs: str, folder: Path
) -> None:
    def version(**given: Any) -> tuple[Any, dict[str, str]]:
        config = EvaluateConfig.model_validate(given)
        files = {name: str(path) for name, path in externals(config).items()}
        return without(config.model_dump(mode="json"), STAGE.locations), files

    plain, _ = version()
    assert version(fact_order=cases) == (plain, {"fact_order/ours": cases})
    _, files = version(retrieval=False, retrieval_sets=str(folder))
    names = ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")
    assert files.keys() == {f"retrieval_sets/ours/{name}" for name in names}
    stripped, _ = version(retrieval_sets=str(folder))
    assert stripped["retrieval_sets"] == {"ours": {"dev": "dev", "test": "test"}}
    moved = shutil.copy(pairs, f"{pairs}.copy.tsv")
    one, files = version(sts_sets={"ours": {"source": pairs}})
    assert files == {"sts_sets/ours": pairs}
    assert version(sts_sets={"ours": {"source": moved}})[0] == one
    columns = {"anchor": "two", "positive": "one", "label": "gold"}
    assert version(sts_sets={"ours": {"source": pairs, "columns": columns}})[0] != one
