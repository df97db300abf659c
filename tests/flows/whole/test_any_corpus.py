"""A shipped recipe on corpora as people have them, typed as a new user would."""

import random
from pathlib import Path

from tiny_run import ended_well, query, tercet

WORDS = "heron pond reed fish stone bridge boat rain wind morning cold deep calm wide old"


def write_reviews(path: Path, rows: int) -> None:
    """One sentence each, with a label that shows in its words; ordered by the label."""
    draw = random.Random(1)
    lines = ["text,verdict"]
    for number in range(rows):
        good = number < rows / 2
        words = [draw.choice(WORDS.split()) for _ in range(24)]
        words[3] = "lovely" if good else "dreadful"
        lines.append(f"{' '.join(words)} {number},{'good' if good else 'bad'}")
    path.write_text("\n".join(lines) + "\n")


def run(store: Path, backbone: Path, corpus: Path, *options: str) -> "tuple[str, str]":
    models = ("--set", f"backbone={backbone}", "--set", f"evaluator.model={backbone}")
    small = ("--set", "sample.rows=200", "--set", "train.phases.0.batch_size=16")
    words = ("quickstart", "--corpus", str(corpus), "--store", str(store), "--no-server")
    done = ended_well(tercet("run", *words, *models, *small, *options))
    return done.stdout, done.stderr


def test_reviews_end_with_before_and_after(tmp_path: Path, tiny_backbone: Path) -> None:
    corpus, store, kept = tmp_path / "reviews.csv", tmp_path / "store", tmp_path / "mine.yaml"
    write_reviews(corpus, 400)
    shown, told = run(store, tiny_backbone, corpus, "--write", str(kept))
    assert "400 rows of single sentences (column 'text')" in told
    for name in ("retrieval halves test recall@1", "labels reviews.verdict probe"):
        assert name in shown
    gains = query(
        store,
        "SELECT task, ci_low, value, ci_high FROM evaluations WHERE metric IN "
        "('recall@1_gain', 'accuracy_gain') AND NOT task LIKE '% dev' AND subset != 'dev'",
    )
    assert {task for task, *_ in gains} == {
        "halves", "plain", "reviews.verdict nearest", "reviews.verdict probe"
    }  # fmt: skip
    assert all(low <= value <= high for _, low, value, high in gains)
    # Labels measure, and occur in nothing that trains.
    assert query(store, "SELECT count(*) FROM sentences WHERE text LIKE '%,good'") == [(0,)]
    # The recipe that was kept is the recipe that was run.
    again = ended_well(tercet("run", str(kept), "--store", str(store), "--no-server"))
    assert " made " not in again.stderr


def test_few_rows_are_told_before_they_train(tmp_path: Path, tiny_backbone: Path) -> None:
    corpus = tmp_path / "lines.txt"
    words = WORDS.split()
    lines = [f"Line {i} tells of {words[i % 15]} and {words[i * 7 % 15]}." for i in range(30)]
    corpus.write_text("\n".join(lines) + "\n")
    _, told = run(tmp_path / "store", tiny_backbone, corpus)
    (line,) = [line for line in told.splitlines() if "there are only" in line]
    assert "anchors for topical" in line
    assert "batches of 12, which teach an encoder little" in line
    assert told.index(line) < told.index("train ")
