"""What a run is measured by beside its own pairs: pairs that its user graded, and awareness."""

import csv
import shutil
from pathlib import Path

import pytest
import torch
import yaml
from scipy.stats import spearmanr
from tiny_run import Tiny, documents, ended_well, query, states, tercet
from transformers import BertConfig, BertModel

AWARE = ["all", "entity", "quantity"]


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


def test_awareness_pairs_are_of_dev_alone(store: Path) -> None:
    outside = query(
        store,
        """SELECT count(*) FROM awareness_pairs p LEFT JOIN sentences s USING (sentence_id)
        WHERE s.split IS DISTINCT FROM 'dev' OR s.text <> p.anchor
            OR lower(p.text) IN (SELECT lower(text) FROM sentences WHERE split <> 'dev')""",
    )
    assert outside == [(0,)]


def test_awareness_is_the_correlation_with_the_teacher(store: Path, words: tuple[str, ...]) -> None:
    pairs = dict(query(store, "SELECT kind, count(*) FROM awareness_pairs GROUP BY kind"))
    assert set(pairs) == {"entity", "quantity"}
    assert min(pairs.values()) >= 30
    figures = {
        (phase, task, metric): (value, low, high, n)
        for phase, task, metric, value, low, high, n in query(
            store,
            """SELECT phase, task, metric, value, ci_low, ci_high, n FROM evaluations
            WHERE suite = 'awareness' ORDER BY ALL""",
        )
    }
    assert sorted(figures) == sorted(
        [("base", task, "spearman") for task in AWARE]
        + [("encoder", task, metric) for task in AWARE for metric in ("spearman", "spearman_gain")]
    )
    for (phase, task, metric), (value, low, high, n) in figures.items():
        assert -200 <= low <= value <= high <= 200
        if task != "all":
            assert n == pairs[task]
        if metric == "spearman_gain":
            after, before = (figures[p, task, "spearman"][0] for p in ("encoder", "base"))
            assert value == pytest.approx(after - before, abs=1e-9)
            continue
        items = query(
            store,
            f"""SELECT i.gold, i.value FROM evaluation_items i
            JOIN (SELECT DISTINCT model_version FROM evaluations WHERE phase = '{phase}')
                USING (model_version)
            WHERE i.suite = 'awareness' AND i.task = '{task}' ORDER BY i.item""",
        )
        gold, cosines = zip(*items, strict=True)
        assert len(gold) == n
        assert value == pytest.approx(100 * spearmanr(gold, cosines).statistic, abs=1e-6)
    # Another number of rows makes the measure anew, and nothing else.
    planned = ended_well(tercet("plan", *words, "--set", "awareness.rows=40"))
    lines = [line.split() for line in planned.stdout.splitlines()[:-1]]
    steps = states(store)
    made = {step for step, state, *_ in lines if step in steps and state != "reuse"}
    assert made == {"awareness", "evaluate.base", "evaluate.encoder"}
