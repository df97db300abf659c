"""Corpora that something damaged, through `init` and `run --until ingest`.

No input ends in anything but a sentence, and every row becomes a document or a reject.
TERCET_MUTATED=500 tries five hundred; TERCET_MUTATED=100:200 those with these seeds, and 1000:1300
three hundred pages in HTML, XHTML and Markdown, in which a tag may rightly hide what follows.
"""

import csv
import gzip
import io
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tercet.flows.commands.init import write_recipe
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_steps
from tercet.models.text.words import fold
from tercet.storage.artifacts import artifacts_of
from tercet.storage.store import open_store
from tercet.tasks.corpus.sources.streams import format_of, open_text
from tercet.tasks.corpus.sources.tables import parquet_rows
from tercet.tasks.stage import BadInput

# Those that once ended in a traceback, or in rows that were glued or lost without a word.
SEEDS = (2, 14, 43, 45, 135, 138, 172, 198, 204, 220, 289, 454, 1041, 1139, 1235)
SPLITS = ("train", "dev", "test")
Tables = dict[str, list[dict[str, Any]]]

# Small valid corpora in every format. Each row's text has a token (`tok0017x`) near its beginning,
# by which it is found again.
ROWS = 60
TOKEN = re.compile(r"tok\d{4}x")
_WORDS = (
    "baker|clerk|diver|farmer|gardener|judge|pilot|sailor|tailor|weaver",
    "carried|counted|found|lost|mended|moved|painted|sold|washed|weighed",
    "apple|basket|bell|boat|clock|cloth|coin|crate|kettle|ladder|lamp|rope",
    "at noon|in the yard|by the river|near the bridge|under the roof|on the pier",
)


def sentence(number: int) -> str:
    draw = random.Random(number)
    who, did, what, where = (draw.choice(words.split("|")) for words in _WORDS)
    return f"The tok{number:04d}x {who} {did} a {what} {where}, for {draw.randrange(10**6)} crowns."


def _table(**columns: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


SENTENCES = [sentence(number) for number in range(ROWS)]
PLAIN = _table(
    id=[str(n) for n in range(ROWS)],
    text=[f'{t} He said "so".' if n % 7 == 3 else t for n, t in enumerate(SENTENCES)],
    label=["good" if n % 2 else "bad" for n in range(ROWS)],
)
BROKEN = [{**row, "text": row["text"].replace(", for", ",\nfor")} for row in PLAIN]
PAIRS = _table(
    question=[f"What did number {n} do in the year {n * 37}?" for n in range(ROWS)],
    answer=[f"Answer {n}: {sentence(n + 500)[4:]}" for n in range(ROWS)],
)


def _separated(rows: Sequence[dict[str, Any]], **dialect: Any) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), **dialect)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def _parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    table = pa.Table.from_pylist(list(rows))
    raw = pa.array([bytes([n % 256, 200, n * 7 % 256]) for n in range(len(rows))], pa.binary())
    out = io.BytesIO()
    pq.write_table(table.append_column("raw", raw), out)
    return out.getvalue()


CORPORA: dict[str, bytes] = {
    "lines.txt": "".join(f"{text}\n" for text in SENTENCES).encode(),
    "prose.txt": "\n\n".join(" ".join(SENTENCES[n : n + 3]) for n in range(0, ROWS, 3)).encode(),
    "notes.md": "\n\n".join(["# Notes", *SENTENCES]).encode(),
    "rows.jsonl": "".join(json.dumps(row) + "\n" for row in PLAIN).encode(),
    "pairs.jsonl": "".join(json.dumps(row) + "\n" for row in PAIRS).encode(),
    "commas.csv": _separated(BROKEN),
    "bars.csv": _separated(PLAIN, delimiter="|", lineterminator="\n"),
    "spark.csv": _separated(PLAIN, escapechar="\\", doublequote=False, quoting=csv.QUOTE_ALL),
    "pandas.tsv": _separated(BROKEN, delimiter="\t", lineterminator="\n"),
    "rows.parquet": _parquet(PLAIN),
}
_PARAGRAPHS = "\n".join(f"<p>{text}</p>" for text in SENTENCES)
PAGES: dict[str, bytes] = {
    "page.html": f"<title>Notes</title>\n<h1>Notes</h1>\n{_PARAGRAPHS}".encode(),
    "page.xhtml": f"""<?xml version="1.0"?>
<html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="a.js"/></head>
<body><h1>Notes</h1>\n{_PARAGRAPHS}\n</body></html>""".encode(),
    "page.md": "\n\n".join(["# Notes", *SENTENCES]).encode(),
}
_TAGS = [
    *b"<pre> </pre> <div> </div> <td> <table><tr><td> <h2> </a> <br/> <script/> <nav> <!--".split(),
    *b"--> &nbsp; &#0; | [ ]( {{ }} **".split(),
    *(b"<a href=x>", b"<p ", b"<?xml ", b"\n```\n", b"\n~~~~\n", b"\n:::note\n", b"\n```{note}\n"),
    *(b"\n- ", b"\n> ", b"\n\n    ", b"\n===\n", b"[^1]: ", b"\n!!! note\n"),
]
_NASTY = [
    *(b'"', b'""', b"'", b'\\"', b"\\", b",", b";", b"|", b"\t", b"\n", b"\r", b"\r\n", b"\n\n"),
    *(b"\0", b"\x1a", b"\x1b[2J", b"\xef\xbb\xbf", b"\xff\xfe", b"\xff", b"\xc3", b"\xed\xa0\x80"),
    *(s.encode() for s in ("\u200b", "\u2028", "\x85", "\u202e", "📦", "é", "漢字", "e\u0301")),
    *(b"#", b"---\n", b"```\n", b"<b>", b"{", b"}", b"[", b"null", b"NaN", b"\\N", b" " * 50),
]  # fmt: skip
_HEADINGS = ["text", "", "id", "a\nb", 'x"y', "# a: b", "📦", "Body ", "null", "\ufeff", "label"]
Mutation = Callable[[random.Random, bytes], bytes]


def _place(draw: random.Random, data: bytes) -> int:
    return draw.randrange(len(data) + 1)


def _flip(draw: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice([1, 3, 30])):
        if changed:
            changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def _insert(draw: random.Random, data: bytes) -> bytes:
    for _ in range(draw.choice([1, 1, 4, 20])):
        at = _place(draw, data)
        data = data[:at] + draw.choice(_NASTY) + data[at:]
    return data


def _insert_at_lines(draw: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    for _ in range(draw.choice([1, 2, 6])):
        at = draw.randrange(len(lines))
        nasty = draw.choice(_NASTY)
        lines[at] = draw.choice([nasty + lines[at], lines[at] + nasty, nasty])
    return b"\n".join(lines)


def _cut(draw: random.Random, data: bytes) -> bytes:
    at, length = _place(draw, data), draw.choice([1, 10, 300])
    return draw.choice([data[:at], data[at:], data[:at] + data[at + length :]])


def _tags(draw: random.Random, data: bytes) -> bytes:
    for _ in range(draw.choice([1, 4, 20])):
        at = _place(draw, data)
        data = data[:at] + draw.choice(_TAGS) + data[at:]
    return data


def _again(draw: random.Random, data: bytes) -> bytes:
    at, length = _place(draw, data), draw.choice([1, 80, 2000])
    return draw.choice([data + data, data[:at] + data[at : at + length] + data[at:]])


def _ends(draw: random.Random, data: bytes) -> bytes:
    ends = draw.choice([[b"\r"], [b"\r\n"], [b"\n", b"\r"], [b"\n", b"\r\n", b"\n\n"], [b"\n\r"]])
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    return b"".join(line + draw.choice(ends) for line in lines)


def _encoding(draw: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace").replace("for", "für", draw.choice([1, 5, 100]))
    encoding = draw.choice(["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig", "utf-32"])
    return text.encode(encoding, "replace")


def _heading(draw: random.Random, data: bytes) -> bytes:
    first, end, rest = data.partition(b"\n")
    mark = next((m for m in (b"|", b"\t", b",") if m in first), b",")
    fields = first.split(mark)
    fields[draw.randrange(len(fields))] = draw.choice(_HEADINGS).encode()
    changed = draw.choice(
        [mark.join(fields), mark.join(fields[:-1]), mark.join([*fields, b""]), b""]
    )
    return changed + end + rest


def _types(draw: random.Random, data: bytes) -> bytes:
    values = ["5", "null", "[]", '{"a": 1}', "true", '""', '"\\ud800"', "1e999", '"NaN"', '["a"]']
    lines = data.split(b"\n")
    for at in draw.sample(range(len(lines)), len(lines) // draw.choice([1, 3, 20])):
        new = draw.choice(values)
        lines[at] = re.sub(rb'": "[^"]*"', lambda _: b'": ' + new.encode(), lines[at], count=2)  # noqa: B023
    return b"\n".join(lines)


_MUTATIONS: Sequence[Mutation] = (
    _flip, _insert, _insert, _insert_at_lines, _insert_at_lines, _cut, _again, _ends, _encoding,
    _heading, _types,
)  # fmt: skip


def _mutated_parquet(draw: random.Random) -> bytes:
    rows = [dict(row) for row in PLAIN]
    for row in draw.sample(rows, draw.choice([1, 20])):
        row["text"] = draw.choice(["", " ", "NaN", None, "\0", "\u200b", row["text"] * 3, "短い文"])
    table = pa.Table.from_pylist(rows)
    kind = draw.choice([pa.large_string(), pa.binary(), pa.string_view(), pa.string()])
    table = table.set_column(
        1, draw.choice(["text", "Text", "a\nb", "id"]), table["text"].cast(kind)
    )
    raw = pa.array([draw.randbytes(4) for _ in rows], draw.choice([pa.binary(), pa.binary(4)]))
    table = table.append_column("raw", raw).append_column("v", pa.array([[0.5, 1.0]] * len(rows)))
    table = table.append_column("when", pa.array(range(len(rows)), pa.timestamp("s", "UTC")))
    out = io.BytesIO()
    pq.write_table(table.slice(0, draw.choice([0, 1, len(rows), len(rows)])), out)
    data = out.getvalue()
    return _flip(draw, data) if draw.random() < 0.2 else data


def _packed(draw: random.Random, data: bytes, name: str) -> tuple[bytes, str]:
    kind = draw.choice(["", "", "", ".gz", ".zst"])
    if kind == ".gz":
        cut = _place(draw, data)
        data = draw.choice(
            [gzip.compress(data), gzip.compress(data[:cut]) + gzip.compress(data[cut:])]
        )
    elif kind == ".zst":
        data = pa.compress(data, codec="zstd", asbytes=True)
    chance = draw.random()
    if kind and chance < 0.05:
        data = data[: _place(draw, data)]
    elif chance < 0.08:
        kind = draw.choice(["", ".gz", ".zst"])
    return data, name + kind


def write_mutation(seed: int, folder: Path) -> Path:
    """One of the corpora, changed by the seed; from 1,000 on one of the pages."""
    draw = random.Random(seed)
    corpora = CORPORA if seed < 1000 else PAGES
    name = draw.choice(list(corpora))
    if name == "rows.parquet":
        data = _mutated_parquet(draw)
    else:
        data = corpora[name]
        mutations = _MUTATIONS if seed < 1000 else (*_MUTATIONS, *[_tags] * 9)
        for _ in range(draw.choice([1, 1, 2, 3])):
            data = draw.choice(mutations)(draw, data)
    data, name = _packed(draw, data, name)
    path = folder / name
    path.write_bytes(data)
    if draw.random() < 0.1:
        (folder / f"0{name}").write_bytes(draw.choice([b"", b"\n", data[:9]]))
    return path


def seeds() -> list[int]:
    first, _, last = os.environ.get("TERCET_MUTATED", "").partition(":")
    if last:
        return list(range(int(first), int(last)))
    return list(range(int(first))) if first else list(SEEDS)


@pytest.mark.parametrize("seed", seeds())
def test_every_row_becomes_a_document_or_a_reject(seed: int, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    path = write_mutation(seed, folder)
    source = str(path if len(list(folder.iterdir())) == 1 else folder)
    recipe, store = tmp_path / "recipe.yaml", str(tmp_path / "store")
    refused = ""
    try:
        write_recipe(source, str(recipe))
        tables = ingested(recipe, store)
    except BadInput as error:
        refused = str(error)
    assert "\n" not in refused
    if not refused:
        rejected = check(folder, recipe, tables)
        if seed < 1000:
            check_tokens(folder, tables, rejected)


def check(folder: Path, recipe: Path, tables: Tables) -> list[dict[str, Any]]:
    """Counts are those of the rows that were kept and left out; the rejects."""
    outcomes: Counter[tuple[str, str]] = Counter()
    for row in tables["corpus_outcomes"]:
        outcomes[row["unit"], row["outcome"]] += row["n"] * (row["corpus"] != "plain")
    rejected = [row for row in tables["rejects"] if not is_plain(row)]
    left_out = Counter({key: n for key, n in outcomes.items() if key[1] not in SPLITS})
    for key in list(left_out):
        if key[0] in ("document", "parted"):
            del left_out[key]
    assert len(rejected) == left_out.total(), (len(rejected), left_out)
    rows = sum(n for (unit, _), n in outcomes.items() if unit in ("document", "row"))
    wanted = expected_rows(folder, recipe)
    # A row of nothing but sentences that are too short or too long is no document.
    short = outcomes["sentence", "too_short"] + outcomes["sentence", "too_long"]
    assert wanted is None or rows <= wanted <= rows + short
    return rejected


def is_plain(reject: dict[str, Any]) -> bool:
    """Whether it is of the everyday sentences that the recipe brings along."""
    return str(reject["detail"]).startswith("plain_english.txt:")


def ingested(recipe: Path, store: str) -> Tables:
    plan = prepare(RunArguments(str(recipe), store, until="ingest"))
    with open_run(plan, lambda line: None) as handle:
        run_steps(handle)
    (artifact,) = artifacts_of(open_store(store), "ingest")
    rows = artifact.rows()
    names = ("corpus_outcomes", "documents", "sentences", "rejects", "document_pairs")
    return {name: rows.table(name).to_pylist() for name in names}


def lines_of(path: Path) -> list[bytes]:
    with open_text(path) as file:
        data = file.read().removeprefix(b"\xef\xbb\xbf")
    return re.split(rb"\r*\n|\r", data)


def expected_rows(folder: Path, recipe: Path) -> int | None:
    """Rows of the files, counted in another way; None where that takes a parser of its own."""
    count = 0
    for path in folder.iterdir():
        form, compression = format_of(path)
        if form == ".parquet" and not compression:
            count += parquet_rows(path)
        elif form == ".jsonl" or (form == ".txt" and "prose: false" in recipe.read_text()):
            count += sum(bool(fold(line.decode("utf-8", "replace"))) for line in lines_of(path))
        else:
            return None
    return count


def check_tokens(folder: Path, tables: Tables, rejected: list[dict[str, Any]]) -> None:
    """Each row's token stands in a sentence, or in a reject, or there is a reject without one.

    No document of a table has tokens of two lines unless they are those of one record.
    """
    lines = [
        set(TOKEN.findall(line.decode("utf-8", "replace")))
        for path in folder.iterdir()
        if format_of(path)[0] != ".parquet"
        for line in lines_of(path)
    ]
    given = set().union(*lines)
    texts = [row["text"] for row in (*tables["sentences"], *rejected)]
    texts += [text for row in tables["document_pairs"] for text in (row["query"], row["answer"])]
    kept = {token for text in texts for token in TOKEN.findall(text)}
    unnamed = sum(not TOKEN.search(row["text"]) for row in rejected)
    assert len(given - kept) <= unnamed, sorted(given - kept)
    if any(".md" in path.name or "prose" in path.name for path in folder.iterdir()):
        return
    by_document: dict[int, set[str]] = {}
    for row in tables["sentences"]:
        by_document.setdefault(row["doc_id"], set()).update(TOKEN.findall(row["text"]))
    for tokens in by_document.values():
        assert len(tokens) < 2 or any(tokens <= line for line in lines), sorted(tokens)
