"""What a run is measured by beside its own pairs: pairs that its user graded, and awareness."""

import csv
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
import yaml
from scipy.stats import spearmanr
from tiny_run import Tiny, documents, ended_well, query, states, tercet
from transformers import BertConfig, BertModel


@pytest.fixture(scope="module")
def words(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The recipe and the store of one run, which has ended."""
    folder = tmp_path_factory.mktemp("measured")
    texts = [row["query"].split(". ")[0] for row in documents(80, seed=5)]
    rows = [(*texts[i : i + 2], str(i % 5), "test") for i in range(0, 78)]
    rows += [(a, b, score, "dev") for b, a, score, _ in rows]
    rows.append((texts[0], texts[1], "unknown", "test"))
    with (folder / "graded.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text1", "text2", "label", "split"), *rows])
    # The tiny backbone with other random weights.
    teacher = Path(shutil.copytree(tiny.backbone, folder / "teacher"))
    torch.manual_seed(1)
    BertModel(BertConfig.from_pretrained(teacher)).save_pretrained(teacher)
    content = yaml.safe_load(tiny.recipe.read_text())
    del content["select"]["methods"]["word_repetition"]
    content["ingest"]["dev"] = 0.3
    content["synthesise"] = {"next_sentences": None, "entity_swap": None}
    content["awareness"] = {"teacher": str(teacher)}
    content["evaluate"] |= {"sts_sets": {"ours": str(folder / "graded.csv")}}
    content["train"] |= {"choose": {"by": "ours", "every": 5}}
    (folder / "own.yaml").write_text(yaml.safe_dump(content))
    given = (str(folder / "own.yaml"), "--store", str(folder / "store"))
    ended_well(tercet("run", *given, "--no-server"))
    return given


@pytest.fixture
def store(words: tuple[str, ...]) -> Path:
    return Path(words[-1])


def test_graded_pairs_are_measured_before_and_after(store: Path, tiny: Tiny) -> None:
    found = query(
        store,
        """SELECT task, metric, n, ci_low IS NOT NULL FROM evaluations
           WHERE suite = 'sts_sets' ORDER BY phase, metric""",
    )
    assert found == [
        ("ours", "spearman", 78, True),
        ("ours", "spearman", 78, True),
        ("ours", "spearman_gain", 78, True),
    ]
    # They choose the checkpoint, and the guard looks for them in what is trained on.
    chosen = query(
        store, "SELECT DISTINCT dev_metric FROM training_log WHERE dev_value IS NOT NULL"
    )
    assert [metric.split()[:3] for (metric,) in chosen] == [["sts_sets", "ours", "dev"]]
    assert "guard.triplets" in states(store)
    options = ("--tasks", "sts_sets", "--store", str(store), "--format", "csv")
    told = ended_well(tercet("eval", "train", str(tiny.backbone), *options)).stdout
    assert told.count(",sts_sets,") == 3


def test_awareness_is_the_correlation_with_the_teacher(store: Path, words: tuple[str, ...]) -> None:
    pairs = dict(query(store, "SELECT kind, count(*) FROM awareness_pairs GROUP BY kind"))
    assert min(pairs[kind] for kind in ("entity", "quantity")) >= 30
    figures = query(
        store,
        """SELECT metric, task, n, value, model_version FROM evaluations
        WHERE suite = 'awareness' AND ci_low <= value AND value <= ci_high""",
    )
    assert Counter(metric for metric, *_ in figures) == {"spearman": 6, "spearman_gain": 3}
    for metric, task, n, value, model in figures:
        assert n == pairs.get(task, n)
        items = query(
            store,
            "SELECT gold, value FROM evaluation_items WHERE suite = 'awareness' "
            f"AND task = '{task}' AND model_version = '{model}'",
        )
        if metric == "spearman":
            correlation = spearmanr(*zip(*items, strict=True)).statistic
            assert (n, value) == (len(items), pytest.approx(100 * correlation, abs=1e-6))
    # Another number of rows makes the measure anew, and nothing else.
    planned = ended_well(tercet("plan", *words, "--set", "awareness.rows=40"))
    lines = [line.split() for line in planned.stdout.splitlines()[:-1]]
    steps = states(store)
    made = {step for step, state, *_ in lines if step in steps and state != "reuse"}
    assert made == {"awareness", "evaluate.base", "evaluate.encoder"}
