"""What is told of rows and pairs that a corpus lost, of its splits, and of texts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel
from stages import rows_in, work_of

from tercet.tasks.corpus.gather import HTML, example_id
from tercet.tasks.corpus.ingest import CORPUS_OUTCOMES
from tercet.tasks.corpus.passages import PassagesConfig
from tercet.tasks.corpus.sample import ANCHOR_SHARES, CorpusShare, SampleConfig
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.findings.corpora import FINDINGS
from tercet.tasks.findings.finding import Look, look_for
from tercet.tasks.findings.warning import StageWarning
from tercet.tasks.rejects import rejects
from tercet.tasks.training.train_settings import TrainConfig

CONFIG = IngestConfig.model_validate(
    {"corpora": [{"name": "tickets", "source": "tickets.csv"}], "test": 0.2}
)


TEXT = "Herons stand in the water of the harbour."


@pytest.fixture
def found(tmp_path: Path) -> Any:
    """Looks for warnings over these counts and sentences."""

    def _found(
        pairs: Mapping[str, int],
        documents: int = 5,
        others: Mapping[tuple[str, str], int] | None = None,
        texts: Sequence[str] = (TEXT,),
        html: str | None = None,
        config: IngestConfig = CONFIG,
        configs: Sequence[BaseModel] = (),
    ) -> list[StageWarning]:
        counts = {("pair", outcome): n for outcome, n in pairs.items()}
        counts |= {("document", "train"): documents} | dict(others or {})
        rows = [
            {"corpus": "tickets", "unit": unit, "outcome": outcome, "n": n}
            for (unit, outcome), n in counts.items()
        ]
        shown = rejects("ingest", [example_id("tickets")] if html else [], HTML, "a.csv:1", html)
        outcomes = pa.Table.from_pylist(rows, CORPUS_OUTCOMES)
        sentences = pa.table({"text": list(texts)})
        made = rows_in(tmp_path, corpus_outcomes=outcomes, sentences=sentences, rejects=shown)
        work = work_of(config, {}, tmp_path, stage="ingest")
        return list(look_for(FINDINGS["ingest"], Look(work, made, configs)))

    return _found


@pytest.mark.parametrize(
    ("anchors", "told"),
    [
        ((16_000, 48_000), []),
        ((15_000, 48_000), []),
        # 1 : 3 has become 1.6 : 1.
        ((16_000, 10_000), [("general", 10_000, 48_000)]),
        ((0, 48_000), [("domain", 0, 16_000)]),
    ],
)
def test_a_share_of_the_anchors_that_cannot_be_kept_is_told(
    tmp_path: Path, anchors: tuple[int, int], told: list[tuple[str, int, int]]
) -> None:
    corpora = [CorpusShare(name="domain"), CorpusShare(name="general", role="general", share=3)]
    rows = [
        {"corpus": one.name, "role": one.role, "sentences": count, "anchors": count}
        for one, count in zip(corpora, anchors, strict=True)
    ]
    made = rows_in(tmp_path, anchor_shares=pa.Table.from_pylist(rows, ANCHOR_SHARES))
    work = work_of(SampleConfig(rows=64_000, corpora=corpora), {}, tmp_path, stage="sample")
    found = list(look_for(FINDINGS["sample"], Look(work, made, ())))
    assert [(one.key, one.count, one.total) for one in found] == told
    assert all(one.kind == "unkept_share" for one in found)


Told = list[tuple[str, str | None, int, int]]


def told(warnings: list[StageWarning]) -> Told:
    return [(one.kind, one.key, one.count, one.total) for one in warnings]


LARGE = {"sentence train": 900, "sentence test": 29, "sentence dev": 1}
SMALL = {"sentence duplicate": 500, "sentence train": 400, "sentence dev": 40, "sentence test": 60}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, []),
        # A tenth of the pairs.
        ({"pair train": 91, "pair incomplete_pair": 9, "pair duplicate_query": 50}, []),
        ({"pair train": 90, "pair incomplete_pair": 10, "pair duplicate_query": 50},
         [("left_out", "tickets", 10, 100)]),
        ({"pair train": 15, "pair test": 57, "pair like_test": 169, "pair shared_with_test": 59},
         [("left_out", "tickets", 228, 300)]),
        # Half are repetitions.
        ({"pair train": 269, "pair duplicate_query": 1231},
         [("duplicates", "tickets", 1231, 1500)]),
        ({"pair train": 1000, "pair duplicate_query": 300}, []),
        (SMALL, [("duplicates", "tickets", 500, 1000)]),
        # A split that was asked for holds next to nothing.
        (LARGE, [("tiny_split", "test", 29, 930)]),
        (LARGE | {"sentence test": 30}, []),
        ({"sentence train": 900}, [("tiny_split", "test", 0, 900), ("tiny_split", "dev", 0, 900)]),
    ],
)  # fmt: skip
def test_what_a_corpus_lost_is_told(found: Any, counts: dict[str, int], expected: Told) -> None:
    others = {tuple(key.split()): n for key, n in counts.items()}
    assert told(found({}, others=others)) == expected


def test_the_reasons_name_the_keys_to_change(found: Any) -> None:
    (warning,) = found({"train": 15, "test": 57, "like_test": 169, "shared_with_test": 59})
    assert "ingest.test" in warning.remedy


@pytest.mark.parametrize(("train", "helps"), [(220, True), (147, False), (0, False)])
def test_documents_that_stay_together_are_told(found: Any, train: int, helps: bool) -> None:
    parted = {("parted", "train"): train, ("parted", "dev"): 10, ("parted", "test"): 60}
    (warning,) = found({}, documents=296, others=parted)
    assert told([warning]) == [("held_out", "tickets", 0, 296)]
    assert warning.remedy.startswith("set ingest.max_shingle_frequency=1") == helps
    assert found({}, documents=40) == []
    (warning,) = found({}, documents=296)
    assert "ingest.test" in warning.remedy
    assert "ingest.dev" in warning.remedy


@pytest.mark.parametrize(("lost", "is_told"), [(9, False), (10, True), (80, True)])
def test_sentences_that_the_splits_keep_out_are_told(found: Any, lost: int, is_told: bool) -> None:
    counts = {("sentence", "shared_with_test"): lost, ("sentence", "train"): 70 - lost // 2}
    counts |= {("sentence", "test"): 30 - lost + lost // 2, ("sentence", "duplicate"): 50}
    expected = [("left_out", "tickets", lost, 100)] * is_told
    assert [one for one in told(found({}, others=counts)) if one[0] == "left_out"] == expected


def test_pairs_that_nothing_reads_are_told(found: Any) -> None:
    corpus = {"name": "tickets", "source": "tickets.csv", "query": "subject", "answer": "body"}
    config = IngestConfig.model_validate({"corpora": [corpus], "test": 0.2})
    pairs, blind = {"train": 150, "test": 27}, EvaluateConfig(retrieval=False)
    train = [
        TrainConfig.model_validate({"phase": {"rows": rows}})
        for rows in ("pairs", "document_pairs")
    ]
    warnings = found(pairs, config=config, configs=[train[0], blind])
    assert told(warnings) == [("unused_pairs", "tickets", 177, 177)]
    for read in ([train[0], EvaluateConfig(retrieval=True)], [train[1], blind], []):
        assert found(pairs, config=config, configs=read) == []
    assert found(pairs, configs=[train[0], blind]) == []


def test_html_that_was_taken_out_is_told_with_an_example(found: Any) -> None:
    (warning,) = found({}, documents=40, others={("text", "html"): 3}, html="One.<br>Two.")
    assert told([warning]) == [("html", "tickets", 3, 40)]
    assert warning.example == "One.<br>Two."


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('<div class="quoted">See the ticket of last week.', "markup"),
        ("The first line ends here.<br>The second one as well.", "markup"),
        ("Tea&nbsp;and biscuits were served at five.", "markup"),
        ("Thanks for the answer. Sent from my iPhone", "boilerplate"),
        ("The function returns a list<int> where x <y and y> 3.", None),
        ("The repr is <lambda> or <class 'int'>, as documented.", None),
    ],
)
def test_what_is_left_in_texts_is_told(found: Any, text: str, kind: str | None) -> None:
    few = found({}, texts=[text] * 4 + [TEXT] * 96)
    some = found({}, texts=[text] * 5 + [TEXT] * 95)
    rare = found({}, texts=[text] * 5 + [TEXT] * 600)
    assert (few, rare) == ([], [])
    assert [(one.kind, one.count, one.total, one.example) for one in some] == (
        [] if kind is None else [(kind, 5, 100, text)]
    )


@pytest.mark.parametrize(
    ("trained", "measured", "expected"),
    [
        (128, None, [("cut", "train", 2, 3)]),
        (200, 199, [("cut", "evaluate", 0, 3)]),
        (200, 256, []),
    ],
)
def test_a_max_length_below_the_budget_is_told(
    tmp_path: Path, trained: int, measured: int | None, expected: Told
) -> None:
    columns = {"text": ["Short.", "Long.", "Longer."]}
    columns |= {"n_tokens": pa.array([20, 150, 190], pa.int32())}
    made = rows_in(tmp_path, passages=pa.table(columns))
    corpora = [{"name": "c", "source": "a.md"}]
    config = PassagesConfig.model_validate({"corpora": corpora, "max_line_bytes": 100})
    work = work_of(config, {}, tmp_path, stage="passages")
    configs: list[Any] = [
        TrainConfig.model_validate({"phase": {"max_length": trained}}),
        EvaluateConfig(max_length=measured),
    ]
    assert told(list(look_for(FINDINGS["passages"], Look(work, made, configs)))) == expected


@pytest.mark.parametrize(
    ("stage", "asked", "expected"),
    [
        ("extract", None, [("no_mention", None, 3, 4)]),
        ("extract_parse", [0, 1], [("no_mention", None, 1, 2)]),
        ("extract_parse", [0], []),
    ],
)
def test_few_mentions_are_told(
    tmp_path: Path, stage: str, asked: list[int] | None, expected: Told
) -> None:
    ids = pa.array(range(4), pa.uint64())
    sentences = pa.table({"sentence_id": ids, "text": ["A.", "B.", "C.", "D."]})
    inputs = {"sentences": rows_in(tmp_path, sentences=sentences)}
    if asked is not None:
        generations = pa.table({"sentence_id": pa.array(asked, pa.uint64())})
        inputs["generations"] = rows_in(tmp_path, generations=generations)
    made = rows_in(tmp_path, mentions=pa.table({"sentence_id": ids[:1]}))
    work = work_of(None, inputs, tmp_path, stage=stage)
    assert told(list(look_for(FINDINGS[stage], Look(work, made, [])))) == expected


def test_rows_that_cannot_be_read_are_told_and_markup_is_none(found: Any) -> None:
    others = {("row", "bad_csv"): 1, ("row", "markup"): 50, ("text", "html"): 0}
    assert told(found({}, documents=18, others=others)) == []
    others |= {("row", "bad_csv"): 2}
    (warning,) = found({}, documents=18, others=others)
    assert told([warning]) == [("unreadable", "tickets", 2, 20)]
    assert "bad_csv 2" in warning.message
