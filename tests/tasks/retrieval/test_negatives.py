"""Stage `negatives`: which passages become a row's negatives, against sentence-transformers'."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from datasets import Dataset
from failures import fails
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import mine_hard_negatives
from stages import rows_in, work_of

from tercet.models import seeding
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.text.passages import passage_text
from tercet.tasks.corpus.ingest import DOCUMENT_PAIRS, SENTENCES
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.corpus.passages import PASSAGES
from tercet.tasks.findings.finding import Look, look_for
from tercet.tasks.findings.trainings import FINDINGS
from tercet.tasks.retrieval import negatives
from tercet.tasks.retrieval.negatives import NEGATIVES, NegativesConfig
from tercet.tasks.retrieval.passage_vectors import PASSAGE_VECTORS
from tercet.tasks.scoring.select import TRIPLETS

WORDS = [f"w{number}" for number in range(400)]


def static_encoder(folder: Path) -> Path:
    """A saved encoder: the mean of a random vector for each word."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {word: place for place, word in enumerate(["[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    weights = np.random.default_rng(5).normal(size=(len(vocabulary), 256)).astype(np.float32)
    module = StaticEmbedding(tokenizer, embedding_weights=weights)
    SentenceTransformer(modules=[module], device="cpu").save(str(folder))
    return folder


def passage(text: str, context: str = "", doc: int = 0, split: str = "train") -> dict[str, Any]:
    """A row of `passages`."""
    passage_id = seeding.text_id(passage_text(context, text))
    own = {"passage_id": passage_id, "doc_id": doc, "text": text, "context": context}
    return {**own, "corpus": "docs", "split": split}


def mined(
    folder: Path,
    encoder: Path,
    passages: Sequence[dict[str, Any]],
    rows: list[dict[str, Any]],
    source: str = "labelled",
    held_out: Sequence[str] = (),
    **settings: Any,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of `negatives` from all parts in order of their row and rank, and the rejects.

    rows: of the table that the source names. held_out: sentences of the split test.
    """
    schemas = {"document_pairs": DOCUMENT_PAIRS, "labelled": LABELLED, "queries": TRIPLETS}
    table = "triplets" if source == "queries" else source
    config = NegativesConfig.model_validate({"source": source, **settings})
    sentences = [
        {"doc_id": number, "paragraph": 0, "position": 0, "text": text, "split": "test"}
        for number, text in enumerate(held_out)
    ]
    inputs = {
        "sentences": pa.Table.from_pylist(sentences, SENTENCES),
        "passages": pa.Table.from_pylist(list(passages), PASSAGES),
        table: pa.Table.from_pylist(rows, schemas[source]),
    }
    models = {}
    if config.by != "bm25":
        texts = [passage_text(row["context"], row["text"]) for row in passages]
        ids = [row["passage_id"] for row in passages]
        vectors = encode(load_encoder(encoder), texts, side="document").tolist()
        inputs["passage_vectors"] = pa.table([ids, vectors], schema=PASSAGE_VECTORS)
        models = {"encoder": encoder}
    slots = {name: rows_in(folder, **{name: table}) for name, table in inputs.items()}
    found: dict[str, list[pa.Table]] = {"negatives": [NEGATIVES.empty_table()], "rejects": []}
    emit = lambda name, table: found[name].append(table)  # noqa: E731
    work = work_of(config, slots, folder, models=models, emit=emit, stage="negatives")
    for spec in negatives.plan(work):
        negatives.run(replace(work, spec=spec))
    order = [("triplet_id", "ascending"), ("rank", "ascending")]
    made = pa.concat_tables(found["negatives"]).sort_by(order).to_pylist()
    return made, [row for table in found["rejects"] for row in table.to_pylist()]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return static_encoder(tmp_path_factory.mktemp("static"))


def labelled(anchor: str, positive: str, row_id: int | None = None) -> dict[str, Any]:
    """A row of `labelled`."""
    own = seeding.text_id(anchor, positive, "") if row_id is None else row_id
    return {"row_id": own, "corpus": "clicks", "anchor": anchor, "positive": positive}


def drawn(rng: np.random.Generator, count: int) -> str:
    return " ".join(WORDS[place] for place in rng.integers(0, len(WORDS), count))


def corpus_and_rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """1,500 passages, half of them another with some words changed; 750 queries.

    A query has some of a passage's words, and others; for every tenth both are positives. Half of
    the passages have a context.
    """
    rng = np.random.default_rng(11)
    passages, rows = [], []
    for number in range(750):
        words = drawn(rng, 12).split()
        context = drawn(rng, 3) if number % 2 else ""
        changed = [*words[: 11 - number % 3], *drawn(rng, 1 + number % 3).split(), "w0"]
        both = [passage(" ".join(one), context, number) for one in (words, changed)]
        anchor = " ".join([*rng.choice(words, 8, replace=False), drawn(rng, 2)])
        for one in both[: 2 if number % 10 == 0 else 1]:
            rows.append(labelled(anchor, passage_text(one["context"], one["text"])))
        passages += both
    return passages, rows


@pytest.mark.parametrize("k", [1, 4])
def test_the_ids_are_those_that_sentence_transformers_mines(
    encoder: Path, tmp_path: Path, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passages, rows = corpus_and_rows()
    monkeypatch.setattr(negatives, "_PART", 500)
    found, _ = mined(tmp_path, encoder, passages, rows, k=k)
    ours = defaultdict(list)
    for row in found:
        ours[row["triplet_id"]].append(row["passage_id"])
        assert row["rank"] == len(ours[row["triplet_id"]])
    columns = {name: [row[name] for row in rows] for name in ("anchor", "positive")}
    dataset = mine_hard_negatives(
        Dataset.from_dict(columns),
        SentenceTransformer(str(encoder), device="cpu"),
        corpus=[passage_text(row["context"], row["text"]) for row in passages],
        relative_margin=0.05,
        range_max=100,
        num_negatives=k,
        sampling_strategy="top",
        output_format="triplet",
        verbose=False,
    )
    theirs = defaultdict(list)
    for row in dataset:
        row_id = seeding.text_id(row["anchor"], row["positive"], "")
        theirs[row_id].append(seeding.text_id(row["negative"]))
    ids = [row["row_id"] for row in rows]
    equal = sum(ours[row_id] == theirs[row_id] for row_id in ids)
    assert equal >= 0.999 * len(ids)
    assert len(found) > 0.95 * len(ids) * k


def ids_of(found: list[dict[str, Any]]) -> dict[int, list[int]]:
    """Passages by row, in order of their ranks."""
    by_row = defaultdict(list)
    for row in found:
        by_row[row["triplet_id"]].append(row["passage_id"])
    return dict(by_row)


# Five passages that share ever less with the query "w1 w2 w3 w4 w5 w6".
NEAR = [
    passage("w1 w2 w3 w4 w5 w10", doc=1),
    passage("w1 w2 w3 w4 w11 w12", doc=2),
    passage("w1 w2 w3 w13 w14 w15", doc=3),
    passage("w1 w2 w16 w17 w18 w19", doc=4),
    passage("w1 w20 w21 w22 w23 w24", doc=5),
]
QUERY, POSITIVE = "w1 w2 w3 w4 w5 w6", "w2 w1 w3 w4 w5 w6 w2 w1 w3 w4 w5"


def texts(found: list[dict[str, Any]]) -> list[str]:
    return [row["text"] for row in found]


@pytest.mark.parametrize("by", ["vectors", "bm25", "both"])
def test_the_nearest_come_first(encoder: Path, tmp_path: Path, by: str) -> None:
    rows = [labelled(QUERY, POSITIVE)]
    found, _ = mined(tmp_path, encoder, NEAR, rows, by=by, k=3, margin=0.0)
    assert texts(found) == [row["text"] for row in NEAR[:3]]
    assert [row["rank"] for row in found] == [1, 2, 3]
    scores = [row["score"] for row in found]
    assert scores == sorted(scores, reverse=True)
    # BM25 scores beside cosines.
    assert (max(scores) > 1) == (by == "bm25")


@pytest.mark.parametrize("by", ["vectors", "bm25"])
def test_the_margin_is_a_share_of_the_score(encoder: Path, tmp_path: Path, by: str) -> None:
    """The positive is a passage too, whose score another query's row shows."""
    passages, rows = [*NEAR, passage(POSITIVE)], [labelled(QUERY, POSITIVE)]
    better = [labelled(QUERY, " ".join(reversed(5 * QUERY.split())))]
    (first,), _ = mined(tmp_path, encoder, passages, better, by=by, k=1, margin=0.0)
    assert first["text"] == POSITIVE
    scores = {}
    for margin in (0.0, 0.4, 0.7):
        found, _ = mined(tmp_path, encoder, passages, rows, by=by, k=5, margin=margin)
        scores |= {row["text"]: row["score"] for row in found}
        assert {row["text"] for row in found} == {
            text for text, score in scores.items() if score <= (1 - margin) * first["score"]
        }
        assert (len(found) == 5) == (margin == 0.0)


def test_the_least_similar_positive_of_a_query_decides(encoder: Path, tmp_path: Path) -> None:
    rows = [labelled(QUERY, POSITIVE), labelled(QUERY, "w1 w2 w3 w30 w31 w32 w33")]
    found, _ = mined(tmp_path, encoder, NEAR, rows, k=2, margin=0.0)
    first, second = ids_of(found).values()
    assert first == second == [row["passage_id"] for row in NEAR[3:5]]


def test_what_may_answer_a_query_is_no_negative(encoder: Path, tmp_path: Path) -> None:
    held_out = [
        passage("w1 w2 w3 w4 w5 w40", split="dev"),
        passage("w1 w2 w3 w4 w5 w41", split="test"),
    ]
    answers = [
        passage(POSITIVE),
        passage(f"w50 w51 {POSITIVE} w52"),
        # Within the positive.
        passage("w3 w4 w5"),
        passage(POSITIVE.replace(" ", "\n", 4)),
        passage(QUERY),
        passage("w1 w2 w3 w4 w53", context=f"w54 > {QUERY.title()}"),
    ]
    rows = [labelled(QUERY, POSITIVE.replace("w1", "w1 \n", 1))]
    passages = [*answers, *held_out, *NEAR]
    found, _ = mined(tmp_path, encoder, passages, rows, k=5, margin=0.0, by="bm25")
    assert texts(found) == [row["text"] for row in NEAR]


def test_no_negative_has_words_of_test(encoder: Path, tmp_path: Path) -> None:
    """A sentence that stands in train and in test is no sentence of train, but its passage's."""
    said = "w70 w71 w72 w73 w74 w75 w76 w77"
    shared = [
        passage(f"w1 w2 w3 w4 w5 w6. {said} w78"),
        passage("w1 w2 w3 w4 w5", context="w79"),
        passage("w1 w2 w3 w4", context=f"w1 > {said}"),
    ]
    rows = [labelled(QUERY, POSITIVE)]
    given = {"k": 2, "margin": 0.0, "by": "bm25", "held_out": [f"w9 {said}", "w1 w2 w3 w4 w5"]}
    found, _ = mined(tmp_path, encoder, [*shared, *NEAR], rows, **given)
    assert texts(found) == [row["text"] for row in NEAR[:2]]
    with fails("no_rows"):
        mined(tmp_path, encoder, shared, rows, **given)


def test_no_passage_of_its_own_document_is_a_pairs_negative(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(negatives, "_DEPTH", 5)
    own = [passage(f"w1 w2 w3 w4 w5 w{number}", doc=9) for number in range(60, 90)]
    pair = {"pair_id": 5, "doc_id": 9, "query": QUERY, "answer": POSITIVE, "split": "train"}
    others = [
        {**pair, "pair_id": place, "split": split} for place, split in ((6, "dev"), (7, "test"))
    ]
    found, _ = mined(
        tmp_path, encoder, [*own, *NEAR], [pair, *others], "document_pairs", k=3, margin=0.0
    )
    # Thirty are nearer, and make no difference to how deep is searched.
    assert ids_of(found) == {5: [row["passage_id"] for row in NEAR[:3]]}


def test_without_context_unless_the_positive_has_one(encoder: Path, tmp_path: Path) -> None:
    passages = [passage(row["text"], "w90 > w91", row["doc_id"]) for row in NEAR]
    found, _ = mined(tmp_path, encoder, passages, [labelled(QUERY, POSITIVE)], k=1, margin=0.0)
    assert texts(found) == [NEAR[0]["text"]]
    assert found[0]["passage_id"] == seeding.text_id(f"w90 > w91\n{NEAR[0]['text']}")


def test_a_query_reads_others_as_its_own_passage(encoder: Path, tmp_path: Path) -> None:
    """A question's positive has its context; a title's lacks it. A sentence's row is none."""
    own = passage("w1 w2 w3 w4 w5 w70", "w90 > w91")
    others = [passage(row["text"], "w92", row["doc_id"]) for row in NEAR]
    read = passage_text(own["context"], own["text"])
    rows = [
        {"triplet_id": 1, "sentence_id": own["passage_id"], "anchor": QUERY, "positive": read},
        {"triplet_id": 2, "sentence_id": own["passage_id"], "anchor": "w1 w2 w3 w90"}
        | {"positive": own["text"]},
        {"triplet_id": 3, "sentence_id": 77, "anchor": QUERY, "positive": POSITIVE},
    ]
    found, _ = mined(tmp_path, encoder, [own, *others], rows, "queries", k=1, margin=0.0)
    said = {row["triplet_id"]: row["text"] for row in found}
    assert said.keys() == {1, 2}
    assert said[1] in [f"w92\n{row['text']}" for row in NEAR]
    assert said[2] in [row["text"] for row in NEAR]


def test_the_negatives_are_the_same_in_any_parts(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passages, rows = corpus_and_rows()
    settings = {"k": 3, "by": "both"}
    found, _ = mined(tmp_path, encoder, passages, rows, **settings)
    monkeypatch.setattr(negatives, "_PART", 100)
    monkeypatch.setattr(negatives, "_BLOCK", 64)
    assert mined(tmp_path, encoder, passages, list(reversed(rows)), **settings)[0] == found


def test_a_row_without_a_vector_is_a_reject(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tercet.models.encoders import encoder as module

    encode = module.encode

    def spoilt(model: Any, given: list[str], *more: Any, **named: Any) -> Any:
        vectors = encode(model, given, *more, **named)
        vectors[[text == "w1 w2" for text in given]] = np.nan
        return vectors

    monkeypatch.setattr(module, "encode", spoilt)
    rows = [labelled("w1 w2", POSITIVE, 1), labelled(QUERY, POSITIVE, 2)]
    found, refused = mined(tmp_path, encoder, NEAR, rows, k=1, margin=0.0)
    assert ids_of(found).keys() == {2}
    assert [(row["row_id"], row["reason"], row["text"]) for row in refused] == [
        (1, "nan_vector", "w1 w2")
    ]


def test_nothing_to_search_in_is_said(encoder: Path, tmp_path: Path) -> None:
    held_out = [{**row, "split": "dev"} for row in NEAR]
    with fails("no_rows", "train"):
        mined(tmp_path, encoder, held_out, [labelled(QUERY, POSITIVE)])
    assert mined(tmp_path, encoder, NEAR, []) == ([], [])


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ([3] * 20, []),
        ([3] * 100 + [0, 2, 1, 2], []),
        ([], []),
        ([3] * 20 + [0, 2, 1, 2], [("few_negatives", 4, 24)]),
    ],
)
def test_many_rows_with_fewer_negatives_than_asked_for_are_told(
    tmp_path: Path, counts: list[int], told: list[tuple[str, int, int]]
) -> None:
    rows = [labelled("a", "b", row) for row in range(len(counts))]
    inputs = {
        "labelled": rows_in(tmp_path, labelled=pa.Table.from_pylist(rows, LABELLED)),
        "passages": rows_in(tmp_path, passages=PASSAGES.empty_table()),
    }
    made = [
        {"triplet_id": row, "rank": rank + 1, "passage_id": rank, "text": "t", "score": 0.5}
        for row, count in enumerate(counts)
        for rank in range(count)
    ]
    found = rows_in(tmp_path, negatives=pa.Table.from_pylist(made, NEGATIVES))
    work = work_of(NegativesConfig(source="labelled", k=3), inputs, tmp_path)
    warnings = list(look_for(FINDINGS["negatives"], Look(work, found, [])))
    assert all("negatives.margin" in one.remedy for one in warnings)
    assert [(one.kind, one.count, one.total) for one in warnings] == told
