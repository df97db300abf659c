"""What is told of a training: few rows, texts that are cut, no teacher, a lost loss."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from stages import stored
from tokenizers import Tokenizer, models

from tercet.storage.rows import Rows, rows_of
from tercet.tasks.findings.finding import Look, look_for
from tercet.tasks.findings.trainings import BEFORE, FINDINGS
from tercet.tasks.findings.warning import StageWarning
from tercet.tasks.guarding import GuardConfig
from tercet.tasks.scoring.select import SelectConfig
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.fitting import TRAINING_LOG
from tercet.tasks.training.phases import PhaseConfig
from tercet.tasks.training.train_settings import TrainConfig

BLANK = {"anchor": "text", "positive": "text"}


def found(
    folder: Path,
    phase: dict[str, Any],
    tables: dict[str, dict[str, Any]],
    prompts: Any = None,
    **select: Any,
) -> list[StageWarning]:
    """What is told of a phase whose rows come from these tables of one earlier step."""
    stored(folder, **{name: pa.table(columns) for name, columns in tables.items()})
    rows = rows_of({name: [folder / f"{name}.parquet"] for name in tables})
    config = TrainConfig(phase=PhaseConfig.model_validate(phase), prompts=prompts or {})
    models = {"backbone": folder}
    slots = dict.fromkeys(("triplets", "labelled", "document_pairs"), rows)
    work = Work(config, 0, slots, models, {}, Resources(), folder, lambda name, rows: None)
    configs = [config, SelectConfig.model_validate(select)]
    return list(look_for(BEFORE, Look(work, Rows({}), configs)))


Told = list[tuple[str, str | None, int, int]]


def kinds_of(warnings: list[StageWarning]) -> Told:
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


def test_rows_without_a_negative_do_not_count_for_a_loss_that_needs_one(tmp_path: Path) -> None:
    tables = {"triplets": triplets("a", *[None] * 100), "rejects": {"reason": ["surplus"]}}
    phase = {"name": "both", "batch_size": 8, "loss": "gaussian_decay"}
    ((kind, key, count, _),) = kinds_of(found(tmp_path, phase, tables))
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
    assert kinds_of(found(tmp_path, phase, tables)) == [("few_rows", "step1", 10, 64)]


NLI: dict[str, Any] = {"rows": "nli"}
AROUND = {"name": "token_reconstruction", "decoder": False, "with": {"name": "gaussian_decay"}}


@pytest.mark.parametrize(
    ("table", "phase", "expected"),
    [
        (nli(None, None, 0.5), NLI, [("undecayed", "triplets", 2, 3)]),
        (triplets("text", "text", None, cosines=None), {}, [("undecayed", "triplets", 2, 2)]),
        (nli(None), {**NLI, "loss": AROUND}, [("undecayed", "triplets", 1, 1)]),
        # All is well, or nothing decays.
        (nli(0.1, 0.5), NLI, []),
        (triplets("text", None), {}, []),
        (nli(None, None), {**NLI, "loss": "info_nce"}, []),
        (nli(None, None), {**NLI, "loss": {"name": "gaussian_decay", "sigma_cosine": 0}}, []),
        (nli(None), {**NLI, "models": {"teacher": ""}}, []),
    ],
)
def test_rows_without_a_cosine_are_told(
    tmp_path: Path, table: dict[str, Any], phase: dict[str, Any], expected: Told
) -> None:
    name = "labelled" if "corpus" in table else "triplets"
    tables = {name: table, "rejects": {"reason": pa.array([], pa.string())}}
    warnings = [one for one in found(tmp_path, phase, tables) if one.kind == "undecayed"]
    assert kinds_of(warnings) == expected


def pairs(queries: list[str], answers: list[str]) -> dict[str, dict[str, Any]]:
    count = len(queries)
    columns = {"pair_id": list(range(count)), "query": queries, "answer": answers}
    return {"document_pairs": {**columns, "split": ["train"] * count}}


PAIRS = {"rows": "document_pairs", "loss": "info_nce", "batch_size": 4}


@pytest.mark.parametrize(
    ("long", "longest", "expected"),
    [(9, 32, []), (10, 32, [("cut", 10, 200)]), (10, 33, [])],
)
def test_texts_that_are_longer_than_max_length_are_told(
    tmp_path: Path, long: int, longest: int, expected: list[Any]
) -> None:
    answers = [" ".join(["word"] * 33)] * long + ["short"] * (100 - long)
    phase = {**PAIRS, "max_length": longest}
    warnings = found(tmp_path, phase, pairs(["a question"] * 100, answers))
    assert [(one.kind, one.count, one.total) for one in warnings] == expected


@pytest.mark.parametrize(("known", "kinds"), [(["水泵"], []), ([], ["unknown"])])
def test_words_that_the_tokenizer_lacks_are_told(
    tmp_path: Path, known: list[str], kinds: list[str]
) -> None:
    vocabulary = {word: n for n, word in enumerate(["[UNK]", *known])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    warnings = found(tmp_path, PAIRS, pairs(["Pumpe 水泵"] * 100, ["水泵"] * 100))
    assert [one.kind for one in warnings] == kinds


def test_rows_that_do_not_use_the_prompts_of_the_encoder_are_told(tmp_path: Path) -> None:
    tables = {"triplets": triplets(*["a"] * 900), **pairs(["a"] * 900, ["b"] * 900)}
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
    log = stored(folder, training_log=pa.Table.from_pylist(rows, TRAINING_LOG))["training_log"]
    work = Work(None, 0, {}, {}, {}, Resources(), folder, lambda name, rows: None)
    return [one.message for one in look_for(FINDINGS["train"], Look(work, log, []))]


@pytest.mark.parametrize(
    ("trainings", "names"),
    [
        # The training, its seed, the step and the one kept; the other went on.
        (
            [("writer", [3.0, 2.0, math.nan], 20), ("other", [3.0, math.nan, 2.0], 20)],
            ["writer", "42", "30", "20"],
        ),
        ([("writer", [3.0, math.inf], 10)], ["writer", "42", "20", "10"]),
        # Measured on dev at step 40, where no loss was logged.
        ([("writer", [3.0, 2.0, math.nan, None], 20)], ["writer", "42", "30", "20"]),
        ([("writer", [3.0, math.inf], 20)], []),
    ],
)
def test_a_training_that_ended_at_a_nan_names_its_step_and_the_one_kept(
    tmp_path: Path, trainings: Any, names: list[str]
) -> None:
    assert re.findall(r"writer|other|\d+", " ".join(lost(tmp_path, *trainings))) == names


@pytest.mark.parametrize(
    ("action", "tasks", "count", "names"),
    [
        ("report", ["STS-B", "STS14", "STS14"], 2, ["STS14 2", "STS-B 1"]),
        ("report", ["a", "b", "c", "d", "e", "f"], 3, ["2 more"]),
        ("remove", ["STS-B"], 0, []),
        ("report", [], 0, []),
    ],
)
def test_what_the_guard_leaves_in_training_makes_figures_transductive(
    tmp_path: Path, action: str, tasks: list[str], count: int, names: list[str]
) -> None:
    config = GuardConfig.model_validate({"suite": Path(), "tasks": (), "action": action})
    texts = pa.array([number // 2 for number in range(len(tasks))], pa.uint64())
    table = pa.table({"text_id": texts, "task": pa.array(tasks, pa.string())})
    rows = stored(tmp_path, contamination=table)["contamination"]
    work = Work(config, 0, {}, {}, {}, Resources(), tmp_path, lambda name, rows: None)
    warnings = list(look_for(FINDINGS["guard"], Look(work, rows, [])))
    assert [(one.kind, one.count) for one in warnings] == [("transductive", count)] * bool(count)
    assert [name for name in names if name not in warnings[0].message] == []
