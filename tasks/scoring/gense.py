"""Scorer `gense`: the probability that a candidate follows from its sentence, by GenSE's T5."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.errors import kind_of
from tercet.models.discriminators import Platt
from tercet.models.machine import Precision
from tercet.models.pretraining.forms import form_fault
from tercet.models.t5 import wording
from tercet.models.t5.wording import Words
from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Scorer, emit_scores
from tercet.tasks.stage import BadInput, Config, EachPart, Stage, Work

if TYPE_CHECKING:
    from tercet.models.t5.judge import Judge

# Candidates among which batches of similar length are formed.
_ROWS = 16_384
# A text on the topic neither follows nor contradicts, so its score would mean nothing.
_JUDGED = ("keeps", "alters")


class GenseConfig(Config):
    """The model that judges, and how."""

    model: str = Field(
        min_length=1,
        description="A model of form gense, or with `question` any T5: a name under `models`, or a "
        "directory.",
    )
    question: Words | None = Field(
        default=None,
        description="The words in which a T5 that was not fitted here judges; null: those that the "
        "model was fitted to.",
    )
    calibrated: bool = Field(
        default=True,
        description="As calibrated on held-out anchors; false: the softmax as it is, as in the "
        "paper.",
    )
    precision: Precision = "fp32"

    def models(self) -> dict[str, str]:
        """The models that are read, by slot."""
        return {"model": self.model}


def run(work: Work) -> None:
    """Scores the candidates of one part that keep or alter the meaning of their sentence."""
    rows = work.inputs["candidates"]
    done, total = 0, rows.count("candidates")
    if not total:
        return
    judge = work.once(_load)
    sentences = work.inputs["sentences"].table("sentences", ["sentence_id", "text"])
    columns = ["candidate_id", "sentence_id", "relation", "text"]
    for batch in rows.batches("candidates", columns, _ROWS):
        judged = batch.filter(pc.is_in(batch["relation"], pa.array(_JUDGED)))
        if judged.num_rows:
            _score(work, judge, sentences, judged)
        done += batch.num_rows
        work.resources.progress(done, total, "candidates")


def _load(work: Work) -> "Judge":
    from tercet.models.t5 import judge

    config: GenseConfig = work.config
    device = work.resources.device
    try:
        return judge.load(work.models["model"], config.precision, device, config.question)
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), f"score.{SCORER.name}: {error}.") from error


def _score(work: Work, judge: "Judge", anchors: pa.Table, batch: pa.RecordBatch) -> None:
    from tercet.models.t5 import judge as judges

    at = pc.index_in(batch["sentence_id"], anchors["sentence_id"])
    sentences: Sequence[str] = anchors["text"].take(at).to_pylist()
    size = work.resources.batch_size
    logits = judges.logits(judge, sentences, batch["text"].to_pylist(), size)
    fitted = Platt(judge.question.slope, judge.question.shift)
    platt = fitted if work.config.calibrated else Platt(1.0, 0.0)
    emit_scores(work, SCORER.name, SCORER.measure, batch, platt.probabilities(logits))


def check_model(config: GenseConfig, slot: str, folder: Path) -> None:
    """Raises BadInput for a model that cannot judge, or whose wording is not known."""
    if config.question is not None and (fault := form_fault(folder, "t5")):
        raise BadInput("unfit_model", f"score.gense: the model at {folder} cannot judge: {fault}.")
    try:
        wording.question_of(folder, config.question)
    except ValueError as error:
        raise BadInput(kind_of(error, "unfit_model"), f"score.gense: {error}.") from None


STAGE = Stage(
    name=STAGE_NAME,
    config=GenseConfig,
    tables={"scores": SCORES},
    run=run,
    cut=EachPart("candidates", aligned=("sentences",)),
    seeded=False,
    libraries=("torch", "transformers"),
    locations=("model",),
    check_model=check_model,
)
SCORER = Scorer("gense", "p_true", STAGE, reads=("sentences",))
