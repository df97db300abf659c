"""What is told of rows and pairs that a corpus lost, of its splits, and of texts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel

from tercet.storage.rows import rows_of
from tercet.tasks.corpus import warnings
from tercet.tasks.corpus.gather import HTML, example_id
from tercet.tasks.corpus.ingest import CORPUS_OUTCOMES
from tercet.tasks.corpus.passages import PassagesConfig
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.train_settings import TrainConfig
from tercet.tasks.warning import StageWarning, sentence

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
        names = ("corpus_outcomes", "sentences", "rejects")
        files = {name: [tmp_path / f"{name}.parquet"] for name in names}
        pq.write_table(pa.Table.from_pylist(rows, CORPUS_OUTCOMES), files["corpus_outcomes"][0])
        pq.write_table(pa.table({"text": list(texts)}), files["sentences"][0])
        shown = rejects("ingest", [example_id("tickets")] if html else [], HTML, "a.csv:1", html)
        pq.write_table(shown, files["rejects"][0])
        work = Work(config, 0, {}, {}, {}, Resources(), tmp_path, lambda name, rows: None, "ingest")
        return list(warnings.find_ingest(work, rows_of(files), configs))

    return _found


@pytest.fixture
def said(found: Any) -> Any:
    """The same as sentences."""
    return lambda *given, **named: [
        sentence({"step": "ingest", **asdict(one)}) for one in found(*given, **named)
    ]


def test_pairs_that_are_left_out_are_told_with_what_to_set(said: Any) -> None:
    pairs = {"train": 15, "test": 57, "like_test": 169, "shared_with_test": 59}
    assert said(pairs) == [
        "ingest: corpus 'tickets': 228 of 300 pairs are left out (like_test 169, shared_with_test "
        "59), and 15 are in train: to keep more, lower ingest.test."
    ]


@pytest.mark.parametrize(("lost", "told"), [(9, 0), (10, 1)])
def test_a_tenth_is_told(said: Any, lost: int, told: int) -> None:
    counts = {"train": 100 - lost, "incomplete_pair": lost, "duplicate_query": 50}
    assert len(said(counts)) == told
    assert all("incomplete_pair 10), and 90 are in train" in line for line in said(counts))
    assert said({}) == []


SAID = (
    "ingest: corpus 'tickets': of 296 documents 0 are in test and 0 are in dev, where 20% and "
    "5% were asked for"
)


def test_documents_that_stay_together_are_told_with_what_parts_them(said: Any) -> None:
    parted = {("parted", "train"): 220, ("parted", "dev"): 10, ("parted", "test"): 60}
    assert said({}, documents=296, others=parted) == [
        f"{SAID}; documents that share runs of eight words or nearly all words stay together: "
        "ingest.max_shingle_frequency=1 parts them, and leaves 220 in train and 60 in test."
    ]
    assert said({}, documents=40) == []
    assert said({}, documents=296) == [f"{SAID}: raise ingest.test and ingest.dev."]


@pytest.mark.parametrize("train", [0, 147])
def test_what_does_not_help_is_not_advised(said: Any, train: int) -> None:
    parted = {("parted", "train"): train, ("parted", "dev"): 10, ("parted", "test"): 60}
    (line,) = said({}, documents=296, others=parted)
    assert line == (
        f"{SAID}; documents that share runs of eight words or nearly all words stay together: they "
        "are too alike to be parted (ingest.max_shingle_frequency=1 would leave "
        f"{train} in train), so leave copies out, or measure on texts of another corpus."
    )


@pytest.mark.parametrize(("lost", "told"), [(9, 0), (10, 1), (80, 1)])
def test_sentences_that_the_splits_keep_out_are_told(said: Any, lost: int, told: int) -> None:
    counts = {("sentence", "shared_with_test"): lost, ("sentence", "train"): 70 - lost // 2}
    counts |= {("sentence", "test"): 30 - lost + lost // 2, ("sentence", "duplicate"): 50}
    lines = [line for line in said({}, others=counts) if "sentences are left out" in line]
    assert len(lines) == told
    if lost == 10:
        assert lines == [
            "ingest: corpus 'tickets': 10 of 100 sentences are left out (shared_with_test 10), and "
            "65 are in train: to keep more, lower ingest.test."
        ]


def test_repetitions_are_told_where_they_are_half_of_all(found: Any) -> None:
    (warning,) = found({"train": 269, "duplicate_query": 1231})
    assert (warning.kind, warning.key, warning.count, warning.total) == (
        *("duplicates", "tickets"),
        *(1231, 1500),
    )
    assert "1,231 of 1,500 pairs repeat an earlier one" in warning.message
    assert "name a query and an answer whose texts differ" in warning.remedy
    lost = {("sentence", "duplicate"): 500, ("sentence", "train"): 400, ("sentence", "dev"): 40}
    (warning,) = found({}, others=lost | {("sentence", "test"): 60})
    assert (warning.kind, warning.count, warning.total) == ("duplicates", 500, 1000)
    assert found({"train": 1000, "duplicate_query": 300}) == []


def test_pairs_that_nothing_reads_are_told(said: Any) -> None:
    corpus = {"name": "tickets", "source": "tickets.csv", "query": "subject", "answer": "body"}
    config = IngestConfig.model_validate({"corpora": [corpus], "test": 0.2})
    pairs, blind = {"train": 150, "test": 27}, EvaluateConfig(retrieval=False)
    train = [
        TrainConfig.model_validate({"phase": {"rows": rows}})
        for rows in ("pairs", "document_pairs")
    ]
    assert said(pairs, config=config, configs=[train[0], blind]) == [
        "ingest: corpus 'tickets': its 177 pairs of query and answer are neither trained on nor "
        "measured: set evaluate.retrieval: true, train a part on `rows: document_pairs`, or let "
        "`tercet init` write a recipe with --query and --answer."
    ]
    for read in ([train[0], EvaluateConfig(retrieval=True)], [train[1], blind], []):
        assert said(pairs, config=config, configs=read) == []
    assert said(pairs, configs=[train[0], blind]) == []


def test_a_split_that_was_asked_for_and_holds_next_to_nothing_is_told(found: Any) -> None:
    sentences = {("sentence", "train"): 900, ("sentence", "test"): 29, ("sentence", "dev"): 1}
    (warning,) = found({}, others=sentences)
    assert (warning.kind, warning.key, warning.count) == ("tiny_split", "test", 29)
    assert found({}, others=sentences | {("sentence", "test"): 30}) == []
    empty = {("sentence", "train"): 900}
    assert [one.message for one in found({}, others=empty)] == [
        "test has 0 of 900 sentences, too few to measure on",
        "dev has 0 of 900 sentences, too few to measure on",
    ]


def test_html_that_was_taken_out_is_told_with_an_example(said: Any) -> None:
    counts = {("text", "html"): 3}
    assert said({}, documents=40, others=counts, html="One.<br>Two.") == [
        "ingest: corpus 'tickets': HTML was taken out of 3 of 40 texts, such as 'One.<br>Two.': "
        "see that their sentences are whole, or clean the source yourself."
    ]


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


def said_of_passages_warnings(tmp_path: Path, trained: int, measured: int | None) -> list[str]:
    path = tmp_path / "passages.parquet"
    rows = {
        "text": ["Short.", "Long.", "Longer."],
        "n_tokens": pa.array([20, 150, 190], pa.int32()),
    }
    pq.write_table(pa.table(rows), path)
    corpora = [{"name": "c", "source": "a.md"}]
    config = PassagesConfig.model_validate({"corpora": corpora, "max_line_bytes": 100})
    work = Work(config, 0, {}, {}, {}, Resources(), tmp_path, lambda name, rows: None, "passages")
    configs: list[Any] = [
        TrainConfig.model_validate({"phase": {"max_length": trained}}),
        EvaluateConfig(max_length=measured),
    ]
    found = warnings.find_long_passages(work, rows_of({"passages": [path]}), configs)
    return [sentence({"step": "passages", **asdict(one)}) for one in found]


def test_a_max_length_below_the_budget_is_told(tmp_path: Path) -> None:
    assert said_of_passages_warnings(tmp_path, 128, None) == [
        "passages: train.max_length is 128, and a passage has up to 200 tokens (2 of 3 have more), "
        "such as 'Long.': raise train.max_length, or lower ingest.passages.tokens."
    ]
    assert [one[:41] for one in said_of_passages_warnings(tmp_path, 200, 199)] == [
        "passages: evaluate.max_length is 199, and"
    ]
    assert said_of_passages_warnings(tmp_path, 200, 256) == []
