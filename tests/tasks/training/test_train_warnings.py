"""What is told of a training: few rows, texts that are cut, no teacher, a lost loss."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, models

from tercet.storage.rows import rows_of
from tercet.tasks.corpus import labelled
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.fitting import TRAINING_LOG
from tercet.tasks.training.phases import PhaseConfig
from tercet.tasks.training.train_settings import TrainConfig
from tercet.tasks.training.train_warnings import find_before, find_beforehand, find_lost
from tercet.tasks.warning import StageWarning

BLANK = {"anchor": "text", "positive": "text"}


def found(
    folder: Path,
    phase: dict[str, Any],
    tables: dict[str, dict[str, Any]],
    prompts: Any = None,
    **select: Any,
) -> list[StageWarning]:
    """What is told of a phase whose rows come from these tables of one earlier step."""
    files = {name: [folder / f"{name}.parquet"] for name in tables}
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), files[name][0])
    rows = rows_of(files)
    config = TrainConfig(phase=PhaseConfig.model_validate(phase), prompts=prompts or {})
    models = {"backbone": folder}
    slots = dict.fromkeys(("triplets", "labelled", "document_pairs"), rows)
    work = Work(config, 0, slots, models, {}, Resources(), folder, lambda name, rows: None)
    return list(find_before(work, [config, SelectConfig.model_validate(select)]))


Told = list[tuple[str, str | None, int, int]]


def told(warnings: list[StageWarning]) -> Told:
    return [(one.kind, one.key, one.count, one.total) for one in warnings]


def triplets(*negatives: str | None, cosines: Any = 0.5) -> dict[str, Any]:
    count = len(negatives)
    return {
        "triplet_id": pa.array(range(count), pa.uint64()),
        "sentence_id": pa.array(range(count), pa.uint64()),
        "relation": ["topic"] * count,
        **{name: [text] * count for name, text in BLANK.items()},
        "negative": pa.array(negatives, pa.string()),
        "negative_similarity": pa.array([cosines] * count, pa.float64()),
    }


def nli(*labels: float | None) -> dict[str, Any]:
    count = len(labels) + 1
    return {
        "corpus": ["nli"] * len(labels) + ["other"],
        "kind": ["triplets"] * count,
        **{name: [text] * count for name, text in BLANK.items()},
        "negative": ["text"] * count,
        "label": pa.array([*labels, None], pa.float32()),
    }


def undecayed(folder: Path, table: dict[str, Any], **phase: Any) -> Told:
    """What is told of rows of one table about the teacher's cosines."""
    name = "labelled" if "corpus" in table else "triplets"
    tables = {name: table, "rejects": {"reason": pa.array([], pa.string())}}
    wanted = ("undecayed", "plain_cosines")
    return told([one for one in found(folder, phase, tables) if one.kind in wanted])


def test_rows_without_a_negative_do_not_count_for_a_loss_that_needs_one(tmp_path: Path) -> None:
    tables = {"triplets": triplets("a", *[None] * 100), "rejects": {"reason": ["surplus"]}}
    phase = {"name": "both", "batch_size": 8, "loss": "gaussian_decay"}
    ((kind, key, count, _),) = told(found(tmp_path, phase, tables))
    assert (kind, key, count) == ("few_rows", "both", 1)
    assert found(tmp_path, {**phase, "loss": "info_nce"}, tables) == []


def test_the_threshold_to_change_is_the_one_that_counts(tmp_path: Path) -> None:
    tables = {"triplets": triplets("a"), "rejects": {"reason": ["below_positive_min"] * 3}}
    phase = {"batch_size": 8}
    own = {"topic": {"positive_min": 0.2}}
    (warning,) = found(tmp_path, phase, tables, relations=own)
    assert "select.relations.topic.positive_min" in warning.remedy
    (warning,) = found(tmp_path, phase, tables)
    assert "select.positive_min" in warning.remedy


def test_rows_of_a_dictionary_are_not_sampled(tmp_path: Path) -> None:
    columns = {name: [text] * 100 for name, text in BLANK.items()}
    negative = pa.nulls(100, pa.string())
    named = {"corpus": ["terms"] * 100, "kind": ["pairs"] * 100}
    tables = {"labelled": {**named, **columns, "negative": negative}}
    phase = {"name": "step1", "batch_size": 8, "rows": {"from": "terms"}, "loss": "info_nce"}
    assert found(tmp_path, phase, tables) == []
    phase["rows"] = {"from": "terms", "max_rows": 10}
    assert told(found(tmp_path, phase, tables)) == [("few_rows", "step1", 10, 64)]


def test_rows_without_a_cosine_are_told(tmp_path: Path) -> None:
    expected = [("undecayed", "triplets", 2, 3)]
    assert undecayed(tmp_path, nli(None, None, 0.5), rows="nli") == expected
    expected = [("undecayed", "triplets", 2, 2)]
    assert undecayed(tmp_path, triplets("text", "text", None, cosines=None)) == expected
    # Stored cosines are of the plain anchors.
    ((kind, *_),) = undecayed(tmp_path, nli(0.1), rows="nli", word_repetition=True)
    assert kind == "plain_cosines"


def test_nothing_is_told_where_all_is_well_or_nothing_decays(tmp_path: Path) -> None:
    assert undecayed(tmp_path, nli(0.1, 0.5), rows="nli") == []
    assert undecayed(tmp_path, triplets("text", None)) == []
    none = nli(None, None)
    for loss in ("info_nce", {"name": "gaussian_decay", "sigma_cosine": 0}):
        assert undecayed(tmp_path, none, rows="nli", loss=loss) == []
    teacher = {"models": {"teacher": ""}}
    assert undecayed(tmp_path, none, rows="nli", word_repetition=True, **teacher) == []


def test_a_loss_around_the_decay_is_told_too(tmp_path: Path) -> None:
    loss = {"name": "token_reconstruction", "decoder": False, "with": {"name": "gaussian_decay"}}
    assert len(undecayed(tmp_path, nli(None), rows="nli", loss=loss)) == 1


@pytest.mark.parametrize(
    ("header", "columns", "repeats", "kinds"),
    [
        ("anchor,positive,negative", None, False, ["undecayed"]),
        ("sent0,sent1,hard_neg", None, True, ["undecayed"]),
        ("anchor,positive,negative,negative_similarity", None, False, []),
        ("anchor,positive,negative,negative_similarity", None, True, ["plain_cosines"]),
        ("a,b,c", {"anchor": "a", "positive": "b", "negative": "c"}, False, ["undecayed"]),
    ],
)
def test_it_is_told_beforehand_where_the_columns_show_it(
    tmp_path: Path, header: str, columns: Any, repeats: bool, kinds: list[str]
) -> None:
    path = tmp_path / "nli.csv"
    path.write_text(f"{header}\none text,another text,a third\n")
    corpus = {"name": "nli", "source": str(path), "role": "labelled", "kind": "triplets"}
    corpus |= {"columns": columns} if columns else {}
    config = labelled.LabelledConfig.model_validate({"corpora": [corpus]})
    phase = PhaseConfig.model_validate({"rows": "nli", "word_repetition": repeats})
    before = list(find_beforehand({"labelled": config, "train": TrainConfig(phase=phase)}))
    assert [(step, warning.kind) for step, warning in before] == [("train", one) for one in kinds]


@pytest.mark.parametrize(("long", "cut"), [(9, False), (10, True)])
def test_texts_that_are_longer_than_max_length_are_told(
    tmp_path: Path, long: int, cut: bool
) -> None:
    passage = " ".join(["word"] * 33)
    columns = {"query": ["a question"] * 100, "answer": [passage] * long + ["short"] * (100 - long)}
    table = {"pair_id": list(range(100)), **columns, "split": ["train"] * 100}
    phase = {"rows": "document_pairs", "loss": "info_nce", "batch_size": 4, "max_length": 32}
    warnings = found(tmp_path, phase, {"document_pairs": table})
    assert [(one.kind, one.count, one.total) for one in warnings] == [("cut", 10, 200)] * cut
    assert found(tmp_path, phase | {"max_length": 33}, {"document_pairs": table}) == []


@pytest.mark.parametrize(("known", "kinds"), [(["水泵"], []), ([], ["unknown"])])
def test_words_that_the_tokenizer_lacks_are_told(
    tmp_path: Path, known: list[str], kinds: list[str]
) -> None:
    columns = {"query": ["Pumpe 水泵"] * 100, "answer": ["水泵"] * 100, "split": ["train"] * 100}
    phase = {"rows": "document_pairs", "loss": "info_nce", "batch_size": 4}
    vocabulary = {word: n for n, word in enumerate(["[UNK]", *known])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    pairs = {"pair_id": list(range(100)), **columns}
    warnings = found(tmp_path, phase, {"document_pairs": pairs})
    assert [one.kind for one in warnings] == kinds


def test_rows_that_do_not_use_the_prompts_of_the_encoder_are_told(tmp_path: Path) -> None:
    pairs = {
        **{"pair_id": list(range(900)), "split": ["train"] * 900},
        **{"query": ["a"] * 900, "answer": ["b"] * 900},
    }
    tables = {"triplets": triplets(*["a"] * 900), "document_pairs": pairs}
    parts = [{"name": rows, "rows": rows, "loss": "info_nce"} for rows in tables]
    phase = {"parts": parts, "batch_size": 8}
    assert found(tmp_path, phase, tables) == []
    prompts = {"query": "query: "}
    (warning,) = found(tmp_path, phase, tables, prompts=prompts)
    assert (warning.kind, warning.key, warning.count) == ("no_side", "triplets", 900)
    own = {"prompts": prompts, "default_prompt_name": None}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(own))
    assert found(tmp_path, phase, tables) == [warning]
    assert found(tmp_path, phase, tables, prompts={"query": ""}) == []


def lost(folder: Path, *trainings: tuple[str, list[float | None], int | None]) -> list[str]:
    """Of each training its phase, the loss of steps 10, 20, …, and the chosen step."""
    blank = dict.fromkeys(TRAINING_LOG.names)
    rows = [
        {**blank, "phase": phase, "seed": 42, "step": step, "loss": loss, "chosen": step == kept}
        for phase, losses, kept in trainings
        for step, loss in zip(range(10, 10_000, 10), losses, strict=False)
    ]
    path = folder / "log.parquet"
    pq.write_table(pa.Table.from_pylist(rows, TRAINING_LOG), path)
    work = Work(None, 0, {}, {}, {}, Resources(), folder, lambda name, rows: None)
    return [one.message for one in find_lost(work, rows_of({"training_log": [path]}), [])]


def test_a_training_that_ended_at_a_nan_names_its_step_and_the_one_kept(tmp_path: Path) -> None:
    (message,) = lost(
        tmp_path, ("writer", [3.0, 2.0, math.nan], 20), ("other", [3.0, math.nan, 2.0], 20)
    )
    assert re.findall(r"writer|\d+", message) == ["writer", "42", "30", "20"]
    assert len(lost(tmp_path, ("writer", [3.0, math.inf], 10))) == 1


def test_only_steps_with_a_loss_are_told(tmp_path: Path) -> None:
    # Measured on dev at step 40, where no loss was logged.
    (message,) = lost(tmp_path, ("writer", [3.0, 2.0, math.nan, None], 20))
    assert re.findall(r"\d+", message) == ["42", "30", "20"]
    assert lost(tmp_path, ("writer", [3.0, math.inf], 20)) == []
