"""Stages `train` and `fit_evaluator`: their rows, their errors, and the encoder they leave."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from train_stage import call

from tercet.models import seeding
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.storage.rows import Rows
from tercet.tasks.corpus.sources.triplet_file import file_triplets
from tercet.tasks.stage import BadInput, Resources, Work
from tercet.tasks.training import fit_evaluator, train
from tercet.tasks.training.fit_evaluator import FitEvaluatorConfig
from tercet.tasks.training.train import PhaseConfig, TrainConfig, shaped


def test_two_phases_leave_a_plain_encoder_that_moved(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    config = TrainConfig(
        pooling="cls",
        log_steps=2,
        phases=(
            PhaseConfig(name="warm", rows="dropout", loss="contrastive", batch_size=8, head=True),
            PhaseConfig(name="main", batch_size=8, epochs=2, word_repetition=True),
        ),
    )
    path, log, told = call(train.STAGE, config, inputs, tiny_backbone, tmp_path / "work")
    assert [(row["phase"], row["step"]) for row in log] == [
        ("warm", 2),
        ("warm", 4),
        ("main", 2),
        ("main", 4),
        ("main", 6),
    ]
    assert told == [(i, 10, "steps") for i in range(1, 11)]
    assert log[-1]["teacher_negative"] == pytest.approx(0.9)
    files = {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}
    assert "modules.json" in files
    assert not any(name.endswith((".bin", ".pt", ".pth", ".md")) for name in files)
    assert str(tmp_path) not in json.dumps(json.loads((path / "config.json").read_text()))
    before = encode(load_encoder(tiny_backbone, "cls"), tiny_texts[:5])
    after = load_encoder(path)
    assert after[1].pooling_mode == "cls"
    assert float(np.abs(encode(after, tiny_texts[:5]) - before).max()) > 1e-4


def test_the_same_seed_gives_the_same_encoder(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    config = TrainConfig(phases=(PhaseConfig(batch_size=8, max_steps=2),))
    weights = [
        call(train.STAGE, config, inputs, tiny_backbone, tmp_path / name)[0] / "model.safetensors"
        for name in ("a", "b")
    ]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_phases_choose_rows_by_corpus_and_number(inputs: dict[str, Rows], tmp_path: Path) -> None:
    def rows(**changes: Any) -> pa.Table:
        config = TrainConfig(phases=(PhaseConfig(**changes),))
        work = Work(config, 3, inputs, {}, {}, Resources(), tmp_path, lambda *_: None)
        return train._rows(work, config.phases[0])

    assert rows()["row_id"].to_pylist() == list(range(24))
    assert rows(corpora=("docs",))["row_id"].to_pylist() == list(range(1, 24, 2))
    few = rows(max_rows=5)["row_id"].to_pylist()
    assert len(set(few)) == 5
    assert few == rows(max_rows=5)["row_id"].to_pylist()
    assert set(few) < set(rows(max_rows=9)["row_id"].to_pylist())
    with pytest.raises(BadInput, match="no row to train on"):
        rows(corpora=("elsewhere",))


def test_shapes_of_rows() -> None:
    rows = pa.table(
        {
            "row_id": pa.array([2, 1], pa.uint64()),
            "anchor": ["b", "a"],
            "positive": ["bb", "aa"],
            "negative": ["b not", "a not"],
            "label": [0.5, None],
        }
    )
    triplets = shaped(rows, "triplets", None, 0)
    assert triplets.column_names == ["row_id", "anchor", "positive", "negative", "label"]
    assert triplets["anchor"].to_pylist() == ["a", "b"]
    assert np.isnan(triplets["label"][0].as_py())
    assert shaped(rows, "pairs", None, 0).to_pydict() == {
        "row_id": [1, 2],
        "anchor": ["a", "b"],
        "positive": ["aa", "bb"],
    }
    dropout = shaped(rows, "dropout", None, 0)
    assert dropout["positive"].to_pylist() == ["a", "b"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz"])
def test_triplets_of_a_file(tmp_path: Path, suffix: str) -> None:
    import duckdb

    path = tmp_path / f"triplets{suffix}"
    option = {".tsv": "(DELIMITER '\t')", ".jsonl": "(FORMAT json)"}.get(suffix, "")
    duckdb.sql(
        f"""COPY (SELECT * FROM (VALUES ('x, "quoted"', 'y', 'z'), ('a', 'b', NULL))
            t(sent0, sent1, hard_neg)) TO '{path}' {option}"""
    )
    rows, rejects = file_triplets(path)
    assert rejects.drop_columns("row_id").to_pylist() == [
        {
            "stage": "train",
            "reason": "missing_text",
            "detail": f"triplets{suffix}: row 2 has no negative",
            "text": "a",
        }
    ]
    assert rows.drop_columns("row_id").to_pylist() == [
        {"anchor": 'x, "quoted"', "positive": "y", "negative": "z", "label": None}
    ]
    assert rows["row_id"].to_pylist() == [seeding.text_id('x, "quoted"', "y", "z")]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_values_of_a_file_stay_as_they_stand(tmp_path: Path, suffix: str) -> None:
    names = ["anchor", "positive", "negative", "negative_similarity"]
    values = [["007", "NA", "01/02/2020", "0.5"], ["1.50", "true", "1e3", ""]]
    path = tmp_path / f"triplets{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(names, v, strict=True))) for v in values))
    elif suffix == ".parquet":
        pq.write_table(pa.table(dict(zip(names, zip(*values, strict=True), strict=True))), path)
    else:
        comma = "," if suffix == ".csv" else "\t"
        path.write_text("\n".join(comma.join(line) for line in [names, *values]) + "\n")
    rows, rejects = file_triplets(path)
    assert rejects.num_rows == 0
    assert [list(row.values())[1:] for row in rows.to_pylist()] == [
        ["007", "NA", "01/02/2020", 0.5],
        ["1.50", "true", "1e3", None],
    ]


def test_rows_without_a_text_are_rejects(tmp_path: Path, tiny_backbone: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("anchor,positive,negative\nthe,of,a\n ,of,a\nthe,,a\nin,on,the\n")
    tables: dict[str, list[pa.Table]] = {}
    phase = PhaseConfig(batch_size=2)
    phases = (phase, phase.model_copy(update={"name": "again"}))
    config = TrainConfig(triplets=str(path), phases=phases)
    emit = lambda name, table: tables.setdefault(name, []).append(table)  # noqa: E731
    work = Work(config, 3, {}, {"backbone": tiny_backbone}, {}, Resources(), tmp_path, emit)
    train.run(work)
    rejects = pa.concat_tables(tables["rejects"]).to_pylist()
    assert [(row["detail"], row["reason"]) for row in rejects] == [
        ("mine.csv: row 2 has no anchor", "missing_text"),
        ("mine.csv: row 3 has no positive", "missing_text"),
    ]
    assert [row["row_id"] for row in rejects] == [
        seeding.text_id(" ", "of", "a"),
        seeding.text_id("the", "", "a"),
    ]
    path.write_text("anchor,positive,negative\n,of,a\n")
    with pytest.raises(BadInput, match="has no row with an anchor"):
        train.run(work)


def test_training_from_a_file(tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]) -> None:
    lines = [
        json.dumps({"anchor": t, "positive": t + " the", "negative": t + " not"})
        for t in tiny_texts[:8]
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(lines))
    config = TrainConfig(triplets=str(path), phases=(PhaseConfig(batch_size=4),))
    _, log, told = call(train.STAGE, config, {}, tiny_backbone, tmp_path / "work")
    assert told[-1] == (2, 2, "steps")
    # no teacher is known: the hard negatives count in full
    assert log[-1]["gate_opening"] == 1.0
    assert log[-1]["teacher_negative"] is None


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.csv", None, "there is no file of triplets"),
        ("a.txt", "x", "is no .parquet, .csv"),
        ("a.csv", "anchor,positive\nx,y\n", "has no column 'negative'"),
        ("a.parquet", "not parquet", "cannot be read"),
        ("a.csv", "anchor,sent0,positive,negative\na,b,c,d\n", "both columns 'anchor' and 'sent0'"),
        ("a.csv", "sent0,sent1,hard_neg,negative_similarity\na,b,c,near\n", "'near' in row 1"),
        ("a.csv", "sent0,sent1,hard_neg,negative_similarity\na,b,c,85\n", "'85' in row 1"),
        (
            "a.jsonl",
            '{"anchor": "a", "positive": "b", "negative": ["c"]}',
            "'negative' holds lists",
        ),
    ],
)
def test_a_bad_file_is_one_sentence(
    tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadInput, match=said) as raised:
        file_triplets(path)
    assert "\n" not in str(raised.value)


def test_a_list_column_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"anchor": ["a"], "positive": ["b"], "negative": [["c", "d"]]}), path)
    with pytest.raises(BadInput, match=r"column 'negative', but VARCHAR\[\]"):
        file_triplets(path)


def test_a_missing_backbone_is_one_sentence(inputs: dict[str, Rows], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="No sentence encoder can be loaded"):
        call(train.STAGE, TrainConfig(), inputs, tmp_path / "empty", tmp_path / "work")


def test_phases_whose_rows_do_not_fit_the_loss() -> None:
    for kind in ("pairs", "dropout"):
        with pytest.raises(ValidationError, match="no hard negative"):
            PhaseConfig(rows=kind, loss="gaussian_decay")  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="head: true with the Gaussian decay"):
        PhaseConfig(head=True)
    assert PhaseConfig(head=True, decay=False).head
    assert PhaseConfig(head=True, loss="contrastive").head
    with pytest.raises(ValidationError, match="two phases have the name main"):
        TrainConfig(phases=(PhaseConfig(name="main"), PhaseConfig(name="main", tau=1.0)))
    for wrong in ({"tau": 0.0}, {"width": -0.1}, {"batch_size": 1}, {"beta": 1}):
        with pytest.raises(ValidationError):
            PhaseConfig(**wrong)  # type: ignore[arg-type]


def test_no_decay_is_width_zero() -> None:
    assert train.settings(PhaseConfig(decay=False), 64).width == 0.0
    assert train.settings(PhaseConfig(width=0.2), 64).width == 0.2


def test_the_evaluator_is_fitted_on_the_train_split(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    config = FitEvaluatorConfig(batch_size=8, log_steps=1)
    path, log, told = call(fit_evaluator.STAGE, config, inputs, tiny_backbone, tmp_path / "all")
    assert told[-1] == (4, 4, "steps")  # 30 sentences in batches of eight
    assert {row["phase"] for row in log} == {"fit_evaluator"}
    assert load_encoder(path).get_embedding_dimension() == 32
    config = FitEvaluatorConfig(batch_size=8, corpora=("docs",), max_rows=14)
    _, _, told = call(fit_evaluator.STAGE, config, inputs, tiny_backbone, tmp_path / "docs")
    assert told[-1] == (2, 2, "steps")
    config = FitEvaluatorConfig(corpora=("elsewhere",))
    with pytest.raises(BadInput, match="no sentence of the train split"):
        call(fit_evaluator.STAGE, config, inputs, tiny_backbone, tmp_path / "none")
