"""What is said of a training whose rows have no teacher's cosine to decay by."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tercet.flows.pipeline.step import Step
from tercet.flows.running.undecayed_rows import beforehand, warnings
from tercet.storage.rows import rows_of
from tercet.tasks.corpus import labelled
from tercet.tasks.training import train
from tercet.tasks.training.phases import PhaseConfig
from tercet.tasks.training.train import TrainConfig

MEND = (
    "name the teacher beside the loss, `models: {teacher: evaluator}`, or write `sigma_cosine: 0`."
)
PLAIN = (
    "train: the teacher's cosines of the rows of 'nli' that train 'triplets' are of the plain "
    f"anchors, in which word_repetition repeats words: {MEND}"
)


def step_of(**phase: Any) -> Step:
    slots = {"triplets": ("select",), "labelled": ("labelled",)}
    config = TrainConfig(phase=PhaseConfig.model_validate(phase))
    return Step("train", train.STAGE, config, slots)


def told(folder: Path, table: dict[str, Any], **phase: Any) -> list[str]:
    """What is said of rows of one table before they train."""
    name = "labelled" if "corpus" in table else "triplets"
    pq.write_table(pa.table(table), folder / "rows.parquet")
    made: Any = SimpleNamespace(rows=lambda: rows_of({name: [folder / "rows.parquet"]}))
    return warnings(step_of(**phase), lambda of: made)


def nli(*labels: float | None) -> dict[str, Any]:
    return {
        "corpus": ["nli"] * len(labels) + ["other"],
        "negative": ["text"] * (len(labels) + 1),
        "label": pa.array([*labels, None], pa.float32()),
    }


def triplets(*cosines: float | None) -> dict[str, Any]:
    count = len(cosines)
    return {
        "relation": ["alters"] * count + ["topic"],
        "negative": pa.array(["text"] * count + [None], pa.string()),
        "negative_similarity": pa.array([*cosines, None], pa.float64()),
    }


def test_rows_without_a_cosine_are_told(tmp_path: Path) -> None:
    assert told(tmp_path, nli(None, None, 0.5), rows="nli") == [
        "train: 2 of 3 rows of 'nli' that train 'triplets' have no teacher's cosine of their "
        f"negative, which counts in full, without decay: {MEND}"
    ]
    (line,) = told(tmp_path, triplets(None, 0.5))
    assert line.startswith("train: 1 of 2 triplets that train 'triplets' have no teacher's cosine")


def test_nothing_is_told_where_all_is_well_or_nothing_decays(tmp_path: Path) -> None:
    assert told(tmp_path, nli(0.1, 0.5), rows="nli") == []
    assert told(tmp_path, triplets(0.1, 0.5)) == []
    none = nli(None, None)
    for loss in ("in_batch", {"name": "gaussian_decay", "sigma_cosine": 0}):
        assert told(tmp_path, none, rows="nli", loss=loss) == []
    teacher = {"models": {"teacher": ""}}
    assert told(tmp_path, none, rows="nli", word_repetition=True, **teacher) == []


def test_stored_cosines_are_of_plain_anchors(tmp_path: Path) -> None:
    assert told(tmp_path, nli(0.1), rows="nli", word_repetition=True) == [PLAIN]


def test_a_loss_around_the_decay_is_told_too(tmp_path: Path) -> None:
    loss = {"name": "token_reconstruction", "decoder": False, "with": {"name": "gaussian_decay"}}
    assert len(told(tmp_path, nli(None), rows="nli", loss=loss)) == 1


@pytest.mark.parametrize(
    ("header", "columns", "repeats", "said"),
    [
        ("anchor,positive,negative", None, False, "train: all rows of 'nli' that train"),
        ("sent0,sent1,hard_neg", None, True, "train: all rows of 'nli' that train"),
        ("anchor,positive,negative,negative_similarity", None, False, None),
        ("anchor,positive,negative,negative_similarity", None, True, PLAIN),
        ("a,b,c", {"anchor": "a", "positive": "b", "negative": "c"}, False, "train: all rows of"),
    ],
)
def test_it_is_told_beforehand_where_the_columns_show_it(
    tmp_path: Path, header: str, columns: Any, repeats: bool, said: str | None
) -> None:
    path = tmp_path / "nli.csv"
    path.write_text(f"{header}\none text,another text,a third\n")
    corpus = {"name": "nli", "source": str(path), "role": "labelled", "kind": "triplets"}
    corpus |= {"columns": columns} if columns else {}
    config = labelled.LabelledConfig.model_validate({"corpora": [corpus]})
    steps = [
        Step("labelled", labelled.STAGE, config, {}),
        step_of(rows="nli", word_repetition=repeats),
    ]
    found = beforehand(steps)
    assert len(found) == (said is not None)
    assert said is None or found[0].startswith(said)
