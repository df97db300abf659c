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
    assert "anchors to train 'topical'" in line
    assert "batches of 12, which teach an encoder little" in line
    assert told.index(line) < told.index("train ")


def test_texts_that_begin_with_a_set_phrase_train(tmp_path: Path, tiny_backbone: Path) -> None:
    draw = random.Random(2)
    corpus, store = tmp_path / "letters.csv", tmp_path / "store"
    front = "Good morning dear people at the desk of the harbour office"
    rows = [" ".join(f"w{draw.randrange(900)}" for _ in range(24)) for _ in range(400)]
    corpus.write_text("id,Comment\n" + "".join(f"{n},{front} {r}\n" for n, r in enumerate(rows)))
    _, told = run(store, tiny_backbone, corpus)
    assert "ingest: corpus 'letters': text in column 'Comment'" in told
    assert "sentences are left out" not in told
    count = "SELECT split, count(*) FROM sentences WHERE corpus = 'letters' GROUP BY split"
    splits = dict(query(store, count))
    assert sum(splits.values()) == 400
    assert splits["train"] > 260
    # Neither do made texts fall to the phrase that dev and test have too.
    refused = "SELECT count(*) FROM rejects WHERE reason = 'held_out_text' AND text LIKE 'Good %'"
    assert query(store, refused) == [(0,)]
    assert query(store, "SELECT count(*) FROM evaluations WHERE task = 'halves'") != [(0,)]


def test_sentences_in_chinese_train_and_are_measured(tmp_path: Path, tiny_backbone: Path) -> None:
    draw = random.Random(3)
    parts = (
        ["天亮以前", "昨天下午", "下雨的时候"],
        ["老木匠", "年轻渔夫", "村里老师", "灯塔看守", "小镇裁缝"],
        ["在港口", "在市场上", "在磨坊后面", "在阁楼里"],
        ["修好了", "画下了", "卖掉了", "找到了"],
        ["木梯", "渔船", "铜壶", "旧地图", "车站的钟"],
    )
    rows = [
        "".join(draw.choice(part) for part in parts) + f"，一共花了他{number}块钱和两天时间。"
        for number in draw.sample(range(1000, 9999), 400)
    ]
    corpus, store, kept = tmp_path / "zh.txt", tmp_path / "store", tmp_path / "mine.yaml"
    corpus.write_text("\n".join(rows) + "\n", encoding="utf-8")
    _, told = run(store, tiny_backbone, corpus, "--write", str(kept))
    assert "The rules are for English: they change plain alone." in told
    count = "SELECT count(*), min(n_words), max(n_words) FROM sentences WHERE corpus = 'zh'"
    ((number, least, most),) = query(store, count)
    assert number > 300
    assert 10 <= least <= most <= 20
    assert query(store, "SELECT count(*) FROM anchors WHERE corpus = 'zh'") != [(0,)]
    measured = "SELECT n FROM evaluations WHERE task = 'halves' AND subset = 'test'"
    assert min(n for (n,) in query(store, measured)) >= 20
    made = "SELECT count(*) FROM candidates JOIN sentences USING (sentence_id) WHERE corpus = 'zh'"
    assert query(store, made) == [(0,)]


def test_what_a_corpus_loses_is_told(tmp_path: Path, tiny_backbone: Path) -> None:
    """Tickets that each quote the one before, so that few can be held out; and rows of Latin-1."""
    words = [f"w{number}" for number in range(3000)]
    lines = ["title,body"]
    for number in range(300):
        said = " ".join(words[number * 9 : number * 9 + 18])
        lines.append(f"Ticket {number} on the heron {number * 7},{said}")
    (tmp_path / "tickets.csv").write_text("\n".join(lines) + "\n")
    old = "".join(f"Die Br\xfccke {number} h\xe4lt nicht mehr lange\n" for number in range(30))
    (tmp_path / "old.txt").write_bytes(
        old.encode("latin-1") + "Nothing else can bé read.\n".encode()
    )
    (tmp_path / "recipe.yaml").write_text(
        f"""
name: tickets
backbone: {tiny_backbone}
corpora:
  - {{name: tickets, source: {tmp_path}/tickets.csv, query: title, answer: body}}
  - {{name: again, source: {tmp_path}/tickets.csv, text: body}}
  - {{name: old, source: {tmp_path}/old.txt}}
ingest: {{test: 0.3, dev: 0.2}}
train:
  phases: [{{rows: document_pairs, loss: info_nce, batch_size: 64, max_steps: 1}}]
"""
    )
    line = ("run", str(tmp_path / "recipe.yaml"), "--store", str(tmp_path / "store"), "--no-server")
    for _ in range(2):  # reused or not
        told = ended_well(tercet(*line, "--until", "ingest")).stdout
        assert "ingest: corpus 'tickets': of 300 documents " in told
        assert "where 30% and 20% were asked for; " in told
        assert "are tied together by runs of eight words or by nearly all" in told
        assert "ingest: corpus 'again': no document of it is used (duplicate " in told
        assert "ingest: corpus 'old': 30 of 31 rows cannot be used (not_utf8 30): " in told
    rare = ended_well(
        tercet(*line, "--set", "ingest.max_shingle_frequency=1", "--until", "train")
    ).stderr
    (few,) = [line for line in rare.splitlines() if "there are only" in line]
    assert "Pairs were left out as shared_with_test " in few
    assert few.endswith("lower ingest.test, or add text.")
