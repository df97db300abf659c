"""Texts as people have them: files of any form and name, and a shipped recipe run on them."""

import csv
import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from good_and_bad import Place
from tiny_run import ended_well, query, states, tercet

TEXTS = [
    f'The {n} old "ships", of harbour {n}; carry grain | and salt, since the year {n * 37}.'
    for n in range(40)
]
ROWS = [[str(n), text, "ab"[n % 2]] for n, text in enumerate(TEXTS)]
HEADER = ["id", "text", "label"]
LINES = "".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\r\n" for row in ROWS)
BYTES = [b"\xff\xfe" + bytes([n, 200]) for n in range(40)]


def written(header: list[str] = HEADER, rows: list[list[str]] = ROWS, **dialect: object) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, **dialect).writerows([header, *rows])  # type: ignore[arg-type]
    return out.getvalue().encode()


def by_hand(mark: str, quoted: Callable[[str], str]) -> bytes:
    lines = [HEADER, *([n, quoted(text), label] for n, text, label in ROWS)]
    return "".join(mark.join(line) + "\n" for line in lines).encode()


def parquet(**columns: object) -> bytes:
    out = io.BytesIO()
    labels = [label for *_, label in ROWS]
    pq.write_table(pa.table({"text": TEXTS, "label": labels} | columns), out)
    return out.getvalue()


BOM = b"\xef\xbb\xbf"
BROKEN = [[n, text.replace(", of", ",\nof"), label] for n, text, label in ROWS]
OTHER = ["id", "body", "label", "text"]
NULLS = [[*row, "NULL"] for row in ROWS]
TABLES: dict[str, dict[str, bytes]] = {
    "bom.csv.gz": {"a.csv.gz": gzip.compress(BOM + written(quoting=csv.QUOTE_ALL))},
    "cr.jsonl": {"a.jsonl": LINES.replace("\r\n", "\r").encode()},
    "a tsv of bars": {"a.tsv.gz": gzip.compress(written(delimiter="|", rows=BROKEN))},
    "blanks behind signs": {"a.csv": by_hand("; ", lambda t: '"' + t.replace('"', '""') + '"')},
    "a hint": {"a.csv": b"sep=;\r\n" + written(delimiter=";")},
    "breaks escaped": {"a.tsv": by_hand("\t", lambda text: text.replace(" ", "\\\n"))},
    "marks escaped": {
        "a.csv": written(delimiter=";", escapechar="\\", doublequote=False, quoting=csv.QUOTE_ALL)
    },
    "nothing before the header": {"a.tsv": b"\x1a\n\x00\n" + written(delimiter="\t")},
    "nothing among objects": {"a.jsonl": BOM + BOM + b"\n" + LINES.encode() + b"\x1a\n\0\0"},
    "text is null": {"a.tsv": written(OTHER, NULLS, delimiter="\t")},
    "text is binary": {"a.parquet": parquet(text=pa.array(BYTES), body=TEXTS)},
    "structs of bytes": {"a.parquet": parquet(other=pa.array([{"b": b} for b in BYTES]))},
    "no text in the first file": {
        "0.csv": written(rows=[["-1", "", "a"]] * 3), "1.csv": written(),
    },
    "the first file at fault": {"0.csv": b"id,text,label\n1,2,3,4\n", "1.csv": written()},
    "nothing in the first file": {
        "0.parquet.gz": gzip.compress(b""), "1.parquet.gz": gzip.compress(parquet()),
    },
}  # fmt: skip
REJECTS = {"no text in the first file": 3, "the first file at fault": 1}


@pytest.mark.parametrize("case", TABLES)
def test_each_row_of_a_table_is_a_sentence(case: str, tmp_path: Path) -> None:
    place = Place(tmp_path, tmp_path)
    for name, content in TABLES[case].items():
        (tmp_path / "table").mkdir(exist_ok=True)
        (tmp_path / "table" / name).write_bytes(content)
    source = "table" if len(TABLES[case]) > 1 else f"table/{next(iter(TABLES[case]))}"
    init = place.types("init", source, "-o", "r.yaml")
    assert init.returncode == 0, init.stderr
    words = ["run", "r.yaml", "--until", "ingest", "--no-server", "--store", place.store]
    result = place.types(*words)
    assert result.returncode == 0, result.stderr
    rows = query(
        place.store,
        "SELECT text, label FROM sentences JOIN documents USING (doc_id) "
        "WHERE sentences.corpus <> 'plain' ORDER BY TRY_CAST(split_part(text, ' ', 2) AS INT)",
    )
    assert rows == [(text, label) for _, text, label in ROWS]
    rejected = "SELECT count(*) FROM rejects WHERE detail NOT LIKE 'plain_english%'"
    assert query(place.store, rejected) == [(REJECTS.get(case, 0),)]


@pytest.mark.parametrize("end", ["", "/**/*.txt", "/**"])
def test_each_line_of_a_folder_is_a_row_once(place: Place, tmp_path: Path, end: str) -> None:
    """Whatever its files are called, and however many links lead to them."""
    names = ["plain.txt", "caf\udce9.txt", "deep/\udcff\udcfe.txt", "deep/er/[a] b.txt"]
    for number, name in enumerate(names):
        path = tmp_path / "texts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [f"The {number} old ships of harbour {n} carry grain." for n in range(10)]
        path.write_text("\n".join(lines) + "\n")
    for place_of, target in (("again", "."), ("deep/up", ".."), ("circle", "circle"),
                             ("gone.txt", "nowhere.txt"), ("other.txt", "plain.txt")):  # fmt: skip
        (tmp_path / "texts" / place_of).symlink_to(target)
    store = tmp_path / "store"
    words = ["run", place.good, "--corpus", f"{tmp_path}/texts{end}", "--until", "sentences"]
    result = place.types(*words, "--no-server", "--store", store)
    assert result.returncode == 0, result.stderr
    counts = "SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM sentences), \
        (SELECT count(*) FROM rejects), (SELECT count(DISTINCT split_part(path, ':', 1)) \
        FROM documents)"
    assert query(store, counts) == [(40, 40, 0, 4)]
    paths = {row[0] for row in query(store, "SELECT split_part(path, ':', 1) FROM documents")}
    assert {"caf\\xe9.txt", "deep/\\xff\\xfe.txt"} < paths


FRONT = "Good morning dear people at the desk of the harbour office"


def write_reviews(path: Path, rows: int) -> None:
    """One sentence each behind a set phrase, with a label that its words show; by label."""
    draw = random.Random(1)
    lines = ["text,verdict"]
    for number in range(rows):
        good = number < rows / 2
        words = [f"w{draw.randrange(900)}" for _ in range(24)]
        words[3] = "lovely" if good else "dreadful"
        lines.append(f"{FRONT} {' '.join(words)} {number},{'good' if good else 'bad'}")
    path.write_text("\n".join(lines) + "\n")


def run(store: Path, backbone: Path, corpus: Path, *options: str) -> None:
    models = ("--set", f"backbone={backbone}", "--set", f"evaluator.model={backbone}")
    small = ("--set", "sample.rows=200", "--set", "train.phases.0.batch_size=16")
    words = ("quickstart", "--corpus", str(corpus), "--store", str(store), "--no-server")
    ended_well(tercet("run", *words, *models, *small, *options))


def test_reviews_end_with_before_and_after(tmp_path: Path, tiny_backbone: Path) -> None:
    corpus, store, kept = tmp_path / "reviews.csv", tmp_path / "store", tmp_path / "mine.yaml"
    write_reviews(corpus, 400)
    run(store, tiny_backbone, corpus, "--write", str(kept))
    gains = query(
        store,
        "SELECT task, ci_low, value, ci_high FROM evaluations WHERE metric IN "
        "('recall@1_gain', 'accuracy_gain') AND NOT task LIKE '% dev' AND subset != 'dev'",
    )
    assert {task for task, *_ in gains} == {
        "halves", "plain", "reviews.verdict nearest", "reviews.verdict probe"
    }  # fmt: skip
    assert all(low <= value <= high for _, low, value, high in gains)
    # The phrase ties no rows together, nor do made texts fall to it since dev and test have it.
    count = "SELECT split, count(*) FROM sentences WHERE corpus = 'reviews' GROUP BY split"
    splits = dict(query(store, count))
    assert sum(splits.values()) == 400
    assert splits["train"] > 260
    # Labels measure, and occur in nothing that trains.
    assert query(store, "SELECT count(*) FROM sentences WHERE text LIKE '%,good'") == [(0,)]
    # The recipe that was kept is the recipe that was run.
    ended_well(tercet("run", str(kept), "--store", str(store), "--no-server"))
    assert set(states(store).values()) == {"reused"}


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
    corpus, store = tmp_path / "zh.txt", tmp_path / "store"
    corpus.write_text("\n".join(rows) + "\n", encoding="utf-8")
    run(store, tiny_backbone, corpus)
    count = "SELECT count(*), min(n_words), max(n_words) FROM sentences WHERE corpus = 'zh'"
    ((number, least, most),) = query(store, count)
    assert number > 300
    assert 10 <= least <= most <= 20
    measured = "SELECT n FROM evaluations WHERE task = 'halves' AND subset = 'test'"
    assert min(n for (n,) in query(store, measured)) >= 20
