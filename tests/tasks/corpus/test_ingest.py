"""The stage as a whole: tables, rejects, splits, and that they depend on nothing else."""

import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failures import fails
from pydantic import ValidationError
from stages import emitted, rows_in

from tercet.models import seeding
from tercet.storage.rows import Rows
from tercet.tasks.corpus import gather, ingest
from tercet.tasks.corpus.shared_keys import SharedKeys
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.stage import Resources

Run = Callable[..., dict[str, pa.Table]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Calls the stage on corpora, or on one whose text is given."""

    def run(
        corpora: Any, seed: int = 0, part: int = 50, prose: Any = None, **more: Any
    ) -> dict[str, pa.Table]:
        if isinstance(corpora, str):
            (tmp_path / "a.txt").write_text(corpora)
            corpora = [{"name": "a", "source": f"{tmp_path}/a.txt", "prose": prose}]
        config = IngestConfig.model_validate({"corpora": corpora, **more})
        resources = Resources(part_rows=part)
        return emitted(ingest.STAGE, config, {}, tmp_path / "scratch", None, seed, resources)

    return run


def generated(count: int) -> list[str]:
    """Lines of prose made up of a small vocabulary, some of them copies, some near-copies."""
    vocabulary = [f"w{number}" for number in range(60)]
    lines = []
    for number in range(count):
        ids = seeding.below(0, "words", seeding.mix(seeding.text_ids([str(number)] * 40)), 60,
                            seeding.mix(seeding.text_ids(map(str, range(40)))))  # fmt: skip
        words = [vocabulary[index] for index in ids]
        if number % 7 == 3:  # ten words of the one before
            words[5:15] = lines[-1].replace(".", "").split()[5:15]
        length = 4 + number % 30
        lines.append(" ".join(words[:length]).capitalize() + ".")
        if number % 11 == 5:
            lines.append(lines[-1])
    return lines


def grams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"[^\W_]+", text.lower())
    return {tuple(words[start : start + 8]) for start in range(len(words) - 7)}


def texts_by_split(tables: dict[str, pa.Table]) -> dict[str, list[str]]:
    """All texts, those of one paragraph joined."""
    found: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    rows = tables["sentences"].to_pylist()
    for key, part in itertools.groupby(rows, key=lambda row: (row["doc_id"], row["paragraph"])):
        assert key is not None
        part = list(part)
        found[part[0]["split"]].append(" ".join(row["text"] for row in part))
    for pair in tables["document_pairs"].to_pylist():
        found[pair["split"]] += [pair["query"], pair["answer"]]
    return found


def assert_nothing_shared(tables: dict[str, pa.Table]) -> None:
    texts = texts_by_split(tables)
    held = {split: set().union(*map(grams, some)) for split, some in texts.items()}
    whole = {split: {text.lower() for text in some} for split, some in texts.items()}
    for one, other in itertools.combinations(held, 2):
        assert not held[one] & held[other]
        assert not whole[one] & whole[other]


def test_tables_of_a_small_corpus(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "The first one is short. No.\\n\\nA second paragraph is here."}\n'
        '{"text": "The first one is short. It is not alone here."}\n'
        '{"text": 5}\n'
    )
    tables = run([{"name": "a", "source": str(path)}], min_words=3, max_words=6, test=0.0, dev=0.0)
    rows = tables["sentences"].to_pylist()
    assert [(row["text"], row["paragraph"], row["position"], row["n_words"]) for row in rows] == [
        ("The first one is short.", 0, 0, 5),
        ("A second paragraph is here.", 1, 2, 5),
        ("It is not alone here.", 0, 1, 5),
    ]
    assert {row["split"] for row in rows} == {"train"}
    assert {(row["corpus"], row["source"]) for row in rows} == {("a", "a.jsonl")}
    assert all(row["sentence_id"] == seeding.text_id(row["text"]) for row in rows)
    documents = tables["documents"].to_pylist()
    assert [document["path"] for document in documents] == ["a.jsonl:1", "a.jsonl:2"]
    first, second = (document["doc_id"] for document in documents)
    assert [row["doc_id"] for row in rows] == [first, first, second]
    rejects = {row["reason"]: row["text"] for row in tables["rejects"].to_pylist()}
    duplicate = "The first one is short."
    assert rejects == {"too_short": "No.", "duplicate": duplicate, "missing_text": ""}
    assert set(tables["rejects"]["stage"].to_pylist()) == {"ingest"}


def test_every_row_arrives_or_is_rejected(run: Run) -> None:
    lines = generated(400)
    tables = run("\n".join(lines), test=0.2, dev=0.2, min_words=5, max_words=30)
    there = Counter(tables["sentences"]["text"].to_pylist())
    assert max(there.values()) == 1
    gone = Counter(text for text in tables["rejects"]["text"].to_pylist())
    assert there + gone == Counter(lines)
    reasons = set(tables["rejects"]["reason"].to_pylist())
    assert reasons >= {"too_short", "too_long", "duplicate"}


def test_outcomes_count_what_the_tables_hold_by_corpus(run: Run, tmp_path: Path) -> None:
    lines = generated(400)
    lines[0] += " né"
    (tmp_path / "a.txt").write_bytes("\n".join(lines[:250]).encode() + b"\n\xff\xfe bad line\n")
    pairs = [f"{lines[i]}\t{lines[i + 1]}" for i in range(250, 390, 2)]
    (tmp_path / "b.tsv").write_text("\n".join(["query\tanswer", *pairs, *pairs[:3]]))
    corpora = [
        {"name": "a", "source": str(tmp_path / "a.txt")},
        {"name": "b", "source": str(tmp_path / "b.tsv"), "query": "query", "answer": "answer"},
    ]
    tables = run(corpora, test=0.2, dev=0.2, min_words=5, max_words=30, largest_cluster=1.0)
    found: Counter[tuple[str, ...]] = Counter()
    for row in tables["corpus_outcomes"].to_pylist():
        found[row["corpus"], row["unit"], row["outcome"]] += row["n"]
    owner = {row["doc_id"]: row["corpus"] for row in tables["documents"].to_pylist()}
    wanted: Counter[tuple[str, ...]] = Counter()
    for name, unit in (("documents", "document"), ("sentences", "sentence")):
        for row in tables[name].to_pylist():
            wanted[row["corpus"], unit, row["split"]] += 1
    for row in tables["document_pairs"].to_pylist():
        wanted[owner[row["doc_id"]], "pair", row["split"]] += 1
    for row in tables["rejects"].to_pylist():
        unit = "pair" if row["detail"].endswith(": pair") else "sentence"
        unit = "row" if row["reason"] == "not_utf8" else unit
        wanted[row["detail"][0], unit, row["reason"]] += 1
    assert {(key, n) for key, n in found.items() if key[2] != "nothing_kept"} == set(wanted.items())
    # Documents of which nothing is kept stand in no table.
    assert sum(n for key, n in found.items() if key[:2] == ("b", "document")) == 73
    assert found["a", "row", "not_utf8"] == 1
    assert found["b", "pair", "duplicate_query"] >= 3


def test_no_8_gram_is_shared_between_splits(run: Run) -> None:
    text = "\n".join(generated(600))
    tables = run(text, test=0.3, dev=0.2)
    assert_nothing_shared(tables)
    counts = Counter(tables["sentences"]["split"].to_pylist())
    assert min(counts[split] for split in ("train", "dev", "test")) > 50
    # Without clusters the splits still share nothing, but at the price of many more rejects.
    loose = run(text, test=0.3, dev=0.2, max_shingle_frequency=1)
    assert_nothing_shared(loose)
    price = [
        sum(reason.startswith("shared") for reason in made["rejects"]["reason"].to_pylist())
        for made in (tables, loose)
    ]
    assert price[0] < price[1]


def test_pairs_share_nothing_either_and_are_distinct(run: Run, tmp_path: Path) -> None:
    lines = generated(300)
    rows = [
        f"{lines[number]}\t{lines[number + 1]} {lines[number + 2]}"
        for number in range(0, 290, 3)
    ]  # fmt: skip
    rows += ["What is new now?\tThe same old answer.", "What else is new?\tThe same old answer.",
             "What is new now?\tQuite another answer."]  # fmt: skip
    path = tmp_path / "pairs.tsv"
    path.write_text("q\ta\n" + "\n".join(rows) + "\n")
    tables = run([{"name": "a", "source": str(path), "query": "q", "answer": "a"}],
                 test=0.3, dev=0.1)  # fmt: skip
    assert_nothing_shared(tables)
    pairs = tables["document_pairs"].to_pylist()
    assert len({pair["query"] for pair in pairs}) == len(pairs)
    assert len({pair["answer"] for pair in pairs}) == len(pairs)
    assert {pair["split"] for pair in pairs} == {"train", "dev", "test"}
    owners = {row["doc_id"]: row["split"] for row in tables["documents"].to_pylist()}
    assert all(owners[pair["doc_id"]] == pair["split"] for pair in pairs)
    assert pairs[0]["pair_id"] == seeding.text_id(pairs[0]["query"], pairs[0]["answer"])
    reasons = Counter(tables["rejects"]["reason"].to_pylist())
    assert reasons["duplicate_query"] >= 1
    assert reasons["duplicate_answer"] >= 1


def test_nothing_depends_on_batches(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = generated(500)
    text = "\n\n".join(" ".join(lines[i : i + 3]) for i in range(0, 400, 2))
    one = run(text, part=50, prose=True, test=0.2)
    monkeypatch.setattr(gather, "BATCH_ITEMS", 17)
    other = run(text, part=7, prose=True, test=0.2)
    outcomes = one.pop("corpus_outcomes"), other.pop("corpus_outcomes")
    assert len(outcomes[0]) == len(outcomes[1])
    assert one == other


def test_a_corpus_that_grows_keeps_ids_and_splits(run: Run) -> None:
    lines = generated(600)
    before, after = (run("\n".join(lines[:n]) + "\n", test=0.3, dev=0.1) for n in (400, None))
    old = {row["sentence_id"]: row for row in before["sentences"].to_pylist()}
    new = {row["sentence_id"]: row for row in after["sentences"].to_pylist()}
    kept = old.keys() & new.keys()
    assert len(kept) > 0.8 * len(old)
    assert all(old[key] == new[key] for key in kept)
    assert old.keys() - kept <= {
        row["row_id"]
        for row in after["rejects"].to_pylist()
        if row["reason"] in ("shared_with_test", "shared_with_dev")
    }
    later = {row["doc_id"]: row for row in after["documents"].to_pylist()}
    assert all(later.get(r["doc_id"], r) == r for r in before["documents"].to_pylist())


def test_a_page_lies_in_one_split_and_a_book_in_several(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    lines = iter(generated(3600))
    for number in range(40):
        text = "\n\n".join(next(lines) for _ in range(50))
        (tmp_path / "pages" / f"{number:02}.md").write_text(text)
    (tmp_path / "book.md").write_text("\n\n".join(lines))
    corpora = [{"name": name, "source": str(tmp_path / name)} for name in ("pages", "book.md")]
    made = run(corpora, test=0.3, dev=0.1)
    splits = defaultdict(list)
    for row in made["documents"].to_pylist():
        splits[row["source"]].append(row["split"])
    assert set(splits.pop("book.md")) == {"train", "dev", "test"}
    assert all(len(set(of_file)) == 1 for of_file in splits.values())
    assert sum(map(len, splits.values())) > 2 * len(splits)
    assert {of_file[0] for of_file in splits.values()} == {"train", "dev", "test"}


def test_equal_sentences_of_two_corpora_stay_with_the_first(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(
            f"The shared line stands here.\nOnly {name} has this one.\n"
        )
    corpora = [{"name": name, "source": str(tmp_path / f"{name}.txt")} for name in ("a", "b")]
    tables = run(corpora, test=0.0, dev=0.0)
    assert tables["sentences"]["corpus"].to_pylist() == ["a", "a", "b"]
    assert tables["documents"]["path"].to_pylist() == ["a.txt:1", "a.txt:2", "b.txt:2"]


def test_a_corpus_without_a_usable_sentence_is_told(run: Run) -> None:
    with fails("no_rows", "'a'", "1", "too_short"):
        run("One two.\n")


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_words": 9, "max_words": 8},
        {"dev": 0.5, "test": 0.5},
        {"corpora": [{"name": "a", "source": "pydocs", "files": 1.5}]},
        {"corpora": [{"name": "a", "source": "pydocs", "files": 0}]},
    ],
)
def test_configs_that_contradict_themselves(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        IngestConfig.model_validate({"corpora": [{"name": "a", "source": "x.txt"}], **wrong})


def test_no_text_of_test_is_like_one_of_train(run: Run) -> None:
    lines = generated(400)
    # A copy of each with one word changed in ten, so that few share eight words in a row.
    copies = []
    for line in lines[::2]:
        words = line.rstrip(".").split()
        words[len(words) // 2 :: 10] = ["other"] * len(words[len(words) // 2 :: 10])
        copies.append(" ".join(words[::-1]) + ".")
    text = "\n".join(lines + copies)
    made = run(text, dev=0.2, test=0.3, max_shingle_frequency=1)
    sets: dict[str, list[set[str]]] = {"train": [], "dev": [], "test": []}
    for row in made["sentences"].to_pylist():
        sets[row["split"]].append(set(re.findall(r"\w+", row["text"].lower())))

    def alike(one: str, other: str) -> int:
        return sum(5 * len(a & b) >= 4 * len(a | b) for a in sets[one] for b in sets[other])

    assert (alike("test", "train"), alike("test", "dev"), alike("dev", "train")) == (0, 0, 0)
    reasons = Counter(made["rejects"]["reason"].to_pylist())
    assert reasons["like_test"] > 10
    assert reasons["like_dev"] > 5
    tied = run(text, dev=0.2, test=0.3)
    fewer = Counter(tied["rejects"]["reason"].to_pylist())
    assert fewer["like_test"] < reasons["like_test"]


def test_docstrings_of_a_package_and_questions_about_what_is_held_out(run: Run) -> None:
    corpus = {"name": "docs", "source": "pydocs", "packages": ["networkx"], "files": 80}
    made = run([corpus], part=20_000, test=0.4, dev=0.1)
    assert_nothing_shared(made)
    assert made["document_pairs"].num_rows >= 50
    paths = made["documents"]["path"].to_pylist()
    assert all(path.startswith("networkx.") and path.count(":") == 1 for path in paths)
    assert len(set(made["documents"]["doc_id"].to_pylist())) == len(paths)
    asked = made["questions"].to_pylist()
    assert {row["question"] for row in asked} == {"name_to_summary", "method_to_class"}
    splits = {row["doc_id"]: row["split"] for row in made["documents"].to_pylist()}
    assert {row["split"] for row in asked} == {"dev", "test"}
    assert all(splits[row["doc_id"]] == row["split"] for row in asked)
    for side in ("query", "answer"):
        assert len({(row["question"], row[side]) for row in asked}) == len(asked)
    trained = [r["text"] for r in made["sentences"].to_pylist() if r["split"] == "train"]
    seen = {gram for text in trained for gram in grams(text)} | set(trained)
    for row in asked:
        texts = (row["query"], row["answer"])[row["question"] == "name_to_summary" :]
        assert not any(seen & (grams(text) | {text}) for text in texts)


# Documents of a version that is kept stay in their splits, whatever comes and goes.
FAMILIES = 80
COPIES = 3


def family_text(family: int, copy: int) -> str:
    """Twenty words that all of the family share, and its own last one."""
    names = [f"{family} {place}" for place in range(20)]
    drawn = seeding.below(0, "words", seeding.text_ids(names), 900, seeding.text_ids(names))
    return " ".join(f"w{word}" for word in drawn.tolist()) + f" copy{copy}"


def read(folder: Path, lines: list[str], kept: Rows | None = None) -> dict[str, pa.Table]:
    """The tables of a corpus of these lines."""
    folder.mkdir()
    (folder / "lines.txt").write_text("\n".join(lines) + "\n")
    corpora = [{"name": "lines", "source": f"{folder}/lines.txt"}]
    config = IngestConfig.model_validate({"corpora": corpora, "dev": 0.2, "test": 0.3})
    inputs = {} if kept is None else {"kept": kept}
    return emitted(ingest.STAGE, config, inputs, folder / "scratch", seed=0)


def splits(made: dict[str, pa.Table]) -> dict[str, str]:
    """The split of each text."""
    rows = made["sentences"].to_pylist()
    return {row["text"]: row["split"] for row in rows}


Before = tuple[dict[str, str], Rows]


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Before:
    """A corpus of families of near-copies: the split of each text, and what is kept of it."""
    folder = tmp_path_factory.mktemp("before")
    lines = [family_text(family, copy) for copy in range(COPIES) for family in range(FAMILIES)]
    made = read(folder / "corpus", lines)
    return splits(made), rows_in(folder, documents=made["documents"])


def test_a_family_stays_when_its_first_goes_and_new_ones_follow(
    tmp_path: Path, before: Before
) -> None:
    was, kept = before
    # The first of each family is deleted; another copy is read before all that were there.
    new = [family_text(family, COPIES) for family in range(FAMILIES)]
    old = [family_text(family, copy) for copy in range(1, COPIES) for family in range(FAMILIES)]
    drawn = splits(read(tmp_path / "drawn", [*new, *old]))
    assert sum(drawn[line] != was[line] for line in old) > 20
    now = splits(read(tmp_path / "kept", [*new, *old], kept))
    assert [now[line] for line in old] == [was[line] for line in old]
    assert [now[line] for line in new] == [
        was[family_text(family, 0)] for family in range(FAMILIES)
    ]


def test_what_belongs_to_two_splits_is_shared_by_none(tmp_path: Path, before: Before) -> None:
    was, kept = before
    families = [family_text(family, 0) for family in range(FAMILIES)]
    # Each has half of a family and half of the next.
    bridges = [
        " ".join([*one.split()[:10], *other.split()[10:20]])
        for one, other in itertools.combinations(families[:12], 2)
    ]
    made = read(tmp_path / "corpus", [*bridges, *was], kept)
    now = splits(made)
    assert all(now.get(line, split) == split for line, split in was.items())
    assert_nothing_shared(made)
    assert {*now.values()} == {"train", "dev", "test"}
    assert "shared_with_test" in made["rejects"]["reason"].to_pylist()


def test_a_corpus_that_is_all_new_is_drawn(tmp_path: Path, before: Before) -> None:
    lines = [family_text(family, 0) for family in range(FAMILIES, 2 * FAMILIES)]
    assert splits(read(tmp_path / "kept", lines, before[1])) == splits(
        read(tmp_path / "drawn", lines)
    )


@pytest.mark.parametrize("split", [None, "train", "test"])
def test_outcomes_are_of_where_documents_are_kept(tmp_path: Path, split: str | None) -> None:
    """Each holds the end of the one before it; half of them were there, or none."""
    lines = [" ".join(f"w{word}" for word in range(9 * i, 9 * i + 18)) for i in range(300)]
    kept = None
    if split:
        were = read(tmp_path / "before", lines[:150])["documents"]
        place = were.column_names.index("split")
        were = were.set_column(place, "split", pa.array([split] * len(were)))
        kept = rows_in(tmp_path, documents=were)
    outcomes = {
        (row["unit"], row["outcome"]): row["n"]
        for row in read(tmp_path / "now", lines, kept)["corpus_outcomes"].to_pylist()
    }
    assert outcomes["document", "test" if split == "test" else "large_cluster"] == 300
    # Without ties the first half would stay as well.
    assert split != "train" or outcomes["parted", "train"] > 140


# Set phrases: what very many texts share ties none of them and keeps none out of train.
draw = random.Random(7)
ENDS = ("t", "sk", "")
WORDS = [a + b + c for a in "bdfglmnprst" for b in ("an", "or", "il", "ea") for c in ENDS]


def words(count: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(count))


PHRASES = [words(12) for _ in range(20)]
COUNT = 400


def split_texts(lines: list[str], run: Run, **more: object) -> dict[str, list[str]]:
    """The kept sentences by split."""
    found: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for row in run("\n".join(lines) + "\n", seed=3, test=0.2, **more)["sentences"].to_pylist():
        found[row["split"]].append(row["text"])
    return found


@pytest.mark.parametrize(
    "line",
    [
        lambda n: f"{PHRASES[0]} {words(14)}",
        lambda n: f"{words(14)} {PHRASES[0]}",
        lambda n: f"{PHRASES[n % 10]} {words(14)}",
        lambda n: f"{PHRASES[0]} {words(14)}" if n % 2 else words(14),
    ],
)
def test_a_set_phrase_ties_no_texts(line: Callable[[int], str], run: Run) -> None:
    lines = [line(number) for number in range(COUNT)]
    found = split_texts(lines, run)
    assert sum(map(len, found.values())) >= 0.99 * COUNT  # some are near-duplicates by chance
    assert 0.12 * COUNT < len(found["test"]) < 0.28 * COUNT
    assert len(found["train"]) > 0.65 * COUNT
    # Without set phrases, whatever shares one with test is lost.
    assert len(split_texts(lines, run, common=1.0)["train"]) < 0.5 * COUNT


@pytest.mark.parametrize(
    "line",
    [
        "{0}. {1}. Sent from my small phone today.",
        "Good morning to you all. {0}. With kind regards and thanks. {1}.",
    ],
)
def test_sentences_of_very_many_documents_tie_none(line: str, run: Run) -> None:
    lines = [line.format(words(9).capitalize(), words(9).capitalize()) for _ in range(COUNT)]
    found = split_texts(lines, run, prose="lines")
    common = line.count(".") - 2
    assert 2 * COUNT * 0.98 <= sum(map(len, found.values())) <= 2 * COUNT + common
    assert 0.12 < len(found["test"]) / (2 * COUNT) < 0.28
    assert len(found["train"]) > 0.65 * 2 * COUNT


@pytest.mark.parametrize("around", [2, 3, 8])
def test_texts_that_differ_by_number_are_on_one_side(around: int, run: Run) -> None:
    front, back = words(6 * around), words(6 * around)
    family = [f"{front} {number} {back}" for number in range(60)]
    found = split_texts([words(14) for _ in range(COUNT)] + family, run)
    sides = {name for name, texts in found.items() if set(texts) & set(family)}
    assert len(sides) == 1


def test_a_text_that_stands_twice_is_on_one_side(run: Run) -> None:
    lines = [f"{PHRASES[0]} {words(14)}" for _ in range(COUNT)]
    copies = [line.upper() + "!" for line in lines[::3]]
    found = split_texts(lines + copies, run)
    plain = [{text.lower().rstrip("!") for text in texts} for texts in found.values()]
    assert not any(one & other for one in plain for other in plain if one is not other)


def test_what_few_documents_share_is_no_set_phrase(tmp_path: Path) -> None:
    for number, (holders, documents, share, wanted) in enumerate(
        (
            (20, 100, 0.01, False),
            (21, 100, 0.01, True),
            (50, 10_000, 0.01, False),
            (101, 10_000, 0.01, True),
            (10_000, 10_000, 1.0, False),
        )
    ):
        held = SharedKeys(tmp_path / str(number))
        held.add(np.full(holders, 5, dtype=np.uint64), np.arange(holders))
        held.close()
        owner = np.arange(holders, dtype=np.int32)
        assert (len(gather.set_phrases(held, owner, documents, share)) == 1) is wanted
    # Often in one document is not in many.
    assert not len(gather.set_phrases(held, np.zeros(10_000, np.int32), 1000, 0.01))


def test_its_progress_grows_to_the_number_of_all_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(generated(120)))
    corpora = [{"name": "a", "source": f"{tmp_path}/a.txt", "prose": False}]
    config = IngestConfig.model_validate({"corpora": corpora})
    reports: list[tuple[int, int | None]] = []
    resources = Resources(
        part_rows=50, progress=lambda done, total, unit: reports.append((done, total))
    )
    emitted(ingest.STAGE, config, {}, tmp_path / "scratch", None, 0, resources)
    done, totals = zip(*(report for report in reports if report[1] is not None), strict=True)
    assert len(done) > 1
    assert list(done) == sorted({*done})
    assert {*totals} == {done[-1]}
