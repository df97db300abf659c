"""A run that measures, and chooses its checkpoint by, pairs that its user graded."""

from pathlib import Path

import yaml
from tiny_run import Tiny, documents, ended_well, query, states, tercet


def test_graded_pairs_are_measured_before_and_after(tiny: Tiny, tmp_path: Path) -> None:
    texts = [row["query"].split(". ")[0] for row in documents(80, seed=5)]
    rows = [(*texts[i : i + 2], str(i % 5), "test") for i in range(0, 78)]
    rows += [(a, b, score, "dev") for b, a, score, _ in rows]
    rows.append((texts[0], texts[1], "unknown", "test"))
    file = tmp_path / "graded.csv"
    lines = [("text1", "text2", "label", "split"), *rows]
    file.write_text("".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines))
    content = yaml.safe_load(tiny.recipe.read_text())
    content["evaluate"] |= {"sts_sets": {"ours": str(file)}}
    content["train"] |= {"choose": {"by": "ours", "every": 5}}
    recipe, store = tmp_path / "own.yaml", tmp_path / "store"
    recipe.write_text(yaml.safe_dump(content))
    done = ended_well(tercet("run", str(recipe), "--no-server", "--store", str(store)))
    assert "sts sets ours all spearman" in done.stdout
    assert done.stderr.count("1 of 79 rows of ours cannot be used, such as") == 1
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
    chosen = query(
        store, "SELECT DISTINCT dev_metric FROM training_log WHERE dev_value IS NOT NULL"
    )
    assert chosen == [("sts_sets ours dev all spearman",)]
    # The guard looks for these sentences in what is trained on.
    assert "guard.triplets" in states(store)
    report = tmp_path / "report.html"
    ended_well(tercet("report", "--store", str(store), "-o", str(report)))
    assert "ours, Spearman" in report.read_text()
    card = tmp_path / "encoder"
    ended_well(tercet("export", "train", str(card), "--store", str(store)))
    assert "ours" in (card / "README.md").read_text()
    options = ("--tasks", "sts_sets", "--store", str(store), "--format", "csv")
    told = ended_well(tercet("eval", "train", str(tiny.backbone), *options)).stdout
    assert told.count(",sts_sets,") == 3
