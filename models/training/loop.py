"""Training in phases with sentence-transformers' trainer, resumable in the middle of an epoch.

Everything random follows from (seed, phase, epoch, step, row): a step's dropout is seeded by the
step itself, so that a resumed training needs no state of random generators to go on exactly.
"""

import dataclasses
import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import torch
from datasets import Dataset
from datasets.table import InMemoryTable
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import nn
from transformers import PrinterCallback, TrainerCallback
from transformers.utils import logging as transformers_logging

from tercet.models import seeding
from tercet.models.encoders.encoder import Precision, dimension
from tercet.models.losses.gaussian_decay import (
    Gate,
    GaussianDecayLoss,
    HeadedEncoder,
    ProjectionHead,
)
from tercet.models.training import checkpoints
from tercet.models.training.batches import Collator, LengthWindows
from tercet.models.training.choosing import Choice, Chooser

LogRow = dict[str, Any]
Progress = Callable[[int, int | None, str], None]


@dataclass(frozen=True)
class Phase:
    """One phase's numbers; `tasks.training.train` documents and checks them."""

    name: str
    loss: Literal["gaussian_decay", "contrastive"]
    batch_size: int
    learning_rate: float
    epochs: float
    max_steps: int | None
    warmup: float
    weight_decay: float
    max_length: int
    tau: float
    width: float
    gate: Gate
    detach: bool
    head: bool
    word_repetition: bool

    def steps(self, rows: int) -> int:
        """How many steps the phase takes over that many rows."""
        if self.max_steps is not None:
            return self.max_steps
        return max(1, math.ceil(self.epochs * math.ceil(rows / self.batch_size)))


@dataclass(frozen=True)
class Setting:
    """Where and how a training runs: none of it but seed, precision and choice changes the result.

    directory: checkpoints lie there, and a training finds its own again.
    checkpoint_seconds, checkpoint_steps: at the first logged step after either has passed since
        the last checkpoint, another one is written.
    choice: how the step is found whose weights each phase leaves; None: the last.
    """

    directory: Path
    seed: int
    precision: Precision = "fp32"
    device: str = "cpu"
    log_steps: int = 10
    checkpoint_seconds: float = 60.0
    checkpoint_steps: int | None = None
    progress: Progress = lambda done, total, unit: None
    choice: Choice | None = None


def train_phases(
    load: Callable[[], SentenceTransformer],
    phases: Sequence[tuple[Phase, bool, pa.Table]],
    setting: Setting,
) -> tuple[SentenceTransformer, list[LogRow]]:
    """The encoder after all phases, and the rows of `training_log`.

    load: the untouched backbone.
    phases: each with whether it starts from the backbone again, and its rows: row_id (uint64),
        anchor, positive, perhaps negative, perhaps label (the teacher's cosine of the negative).
    A phase that an earlier attempt finished is not trained again.
    """
    total = sum(phase.steps(rows.num_rows) for phase, _, rows in phases)
    done, log = 0, []
    finished: Path | None = None
    model: SentenceTransformer | None = None
    for number, (phase, from_backbone, rows) in enumerate(phases):
        directory = setting.directory / f"phase-{number:03d}"
        checkpoint = checkpoints.latest(directory)
        earlier = checkpoints.read_json(checkpoint, "log.json") if checkpoint else {}
        if earlier.get("finished"):
            finished, model = checkpoint, None
            log.extend(earlier["rows"])
        else:
            if model is None or from_backbone:
                model = load()
                if finished and not from_backbone:
                    _restore(model, finished)
            offset = done

            def progress(step: int, _: int | None, unit: str, offset: int = offset) -> None:
                setting.progress(offset + step, total, unit)

            own = dataclasses.replace(setting, directory=directory, progress=progress)
            log.extend(train_phase(model, phase, rows, own))
        done += phase.steps(rows.num_rows)
    if model is None:
        model = load()
        if finished:
            _restore(model, finished)
    return model.eval(), log


def _restore(model: SentenceTransformer, checkpoint: Path) -> None:
    """Weights of the model alone, from a checkpoint of model and loss."""
    tensors = checkpoints.read_tensors(checkpoint, "model.safetensors")
    own = {key.removeprefix("model."): t for key, t in tensors.items() if key.startswith("model.")}
    model.load_state_dict(own)


def train_phase(
    model: SentenceTransformer, phase: Phase, rows: pa.Table, setting: Setting
) -> list[LogRow]:
    """Trains the model in place, from the last checkpoint in the directory if there is one."""
    transformers_logging.set_verbosity_error()
    setting.directory.mkdir(parents=True, exist_ok=True)
    rows = rows.sort_by("row_id")
    step_seed = seeding.text_id(str(setting.seed), phase.name)
    # The head's first weights are drawn here.
    torch.manual_seed(step_seed)
    chooser = Chooser(setting.choice, model, setting.directory) if setting.choice else None
    watch = _Watch(phase, setting, step_seed, chooser)
    trainer = _Trainer(model, phase, rows, setting, watch)
    checkpoint = checkpoints.latest(setting.directory)
    if checkpoint is not None:
        watch.resume(checkpoints.read_json(checkpoint, "log.json"))
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    steps = phase.steps(rows.num_rows)
    chosen = steps if chooser is None else chooser.restore()
    log = [{**row, "chosen": row["step"] == chosen} for row in watch.rows]
    model.eval()
    checkpoints.write(
        setting.directory,
        steps,
        {
            "model.safetensors": {f"model.{k}": v for k, v in model.state_dict().items()},
            "log.json": {"rows": log, "finished": True},
        },
    )
    return log


def save_encoder(model: SentenceTransformer, directory: Path) -> Path:
    """Writes the encoder as a plain SentenceTransformer directory of safetensors and JSON."""
    shutil.rmtree(directory, ignore_errors=True)
    model.save_pretrained(str(directory), create_model_card=False)
    return directory


def make_loss(model: SentenceTransformer, phase: Phase) -> nn.Module:
    """The phase's loss around the model; in-batch contrast is sentence-transformers' own."""
    head = ProjectionHead(dimension(model)) if phase.head else None
    if phase.loss == "gaussian_decay":
        return GaussianDecayLoss(model, phase.tau, phase.width, phase.gate, phase.detach, head)
    contrasted = model if head is None else HeadedEncoder(model, head)
    return MultipleNegativesRankingLoss(contrasted, scale=1 / phase.tau)


class _Watch(TrainerCallback):  # type: ignore[misc]
    """Seeds each step, keeps the log, tells progress, measures, and says when to checkpoint."""

    def __init__(
        self, phase: Phase, setting: Setting, step_seed: int, chooser: Chooser | None
    ) -> None:
        self.rows: list[LogRow] = []
        self.trained = 0
        self._phase, self._setting, self._step_seed = phase, setting, step_seed
        self._chooser = chooser
        self._measured: LogRow = _NOT_MEASURED
        self._saved_at, self._saved_step = time.monotonic(), 0
        self._logged_at, self._logged_rows = time.monotonic(), 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._saved_at = self._logged_at = time.monotonic()
        self._saved_step = state.global_step

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        step = np.array([state.global_step], dtype=np.uint64)
        torch.manual_seed(int(seeding.draws(self._step_seed, "step", step)[0]))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        step, setting = state.global_step, self._setting
        last = step >= state.max_steps
        control.should_log = last or step % setting.log_steps == 0
        # At a logged step only: what the next row of the log sums up begins with the checkpoint.
        due = time.monotonic() - self._saved_at >= setting.checkpoint_seconds
        if setting.checkpoint_steps is not None:
            due = due or step - self._saved_step >= setting.checkpoint_steps
        control.should_save = control.should_log and due and not last
        setting.progress(step, state.max_steps, "steps")
        if self._chooser is not None and self._chooser.due(step, last):
            began = time.monotonic()
            self._measured = self._chooser.look(step)
            self._logged_at += time.monotonic() - began
            if not control.should_log:
                self._note(state, dict.fromkeys(_OF_THE_LOSS))

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        logs = kwargs.get("logs") or {}
        if "loss" not in logs:
            return
        now = time.monotonic()
        seconds, rows = now - self._logged_at, self.trained - self._logged_rows
        self._logged_at, self._logged_rows = now, self.trained
        told = {
            "loss": logs["loss"],
            "learning_rate": logs["learning_rate"],
            **logs.get("statistics", _NO_STATISTICS),
            "rows_per_second": rows / seconds if seconds > 0 else None,
        }
        self._note(state, told)

    def _note(self, state: Any, told: LogRow) -> None:
        place = {"phase": self._phase.name, "step": state.global_step, "epoch": state.epoch}
        self.rows.append({**place, **told, **self._measured})
        self._measured = _NOT_MEASURED

    def resume(self, log: dict[str, Any]) -> None:
        """Goes on from what a checkpoint says was seen."""
        self.rows.extend(log["rows"])
        if self._chooser is not None:
            self._chooser.resume(log.get("best", {}))

    def state(self) -> dict[str, Any]:
        """What a checkpoint must say to be resumed."""
        best = {} if self._chooser is None else {"best": self._chooser.state()}
        return {"rows": self.rows, "finished": False, **best}

    def saved(self, step: int) -> None:
        """A checkpoint was just written."""
        self._saved_at, self._saved_step = time.monotonic(), step
        if self._chooser is not None:
            self._chooser.tidy()


_NO_STATISTICS = {"gate_opening": None, "student_negative": None, "teacher_negative": None}
_OF_THE_LOSS = ("loss", "learning_rate", *_NO_STATISTICS, "rows_per_second")
_NOT_MEASURED: LogRow = {"dev_metric": None, "dev_value": None}


class _Trainer(SentenceTransformerTrainer):  # type: ignore[misc]
    """The library's trainer with our batches and our checkpoints."""

    def __init__(
        self,
        model: SentenceTransformer,
        phase: Phase,
        rows: pa.Table,
        setting: Setting,
        watch: _Watch,
    ) -> None:
        self._rows, self._phase, self._setting, self._watch = rows, phase, setting, watch
        steps = phase.steps(rows.num_rows)
        args = SentenceTransformerTrainingArguments(
            output_dir=str(setting.directory),
            per_device_train_batch_size=phase.batch_size,
            learning_rate=phase.learning_rate,
            max_steps=steps,
            warmup_steps=math.ceil(phase.warmup * steps),
            weight_decay=phase.weight_decay,
            bf16=setting.precision == "bf16",
            use_cpu=setting.device == "cpu",
            seed=setting.seed % 2**32,
            save_strategy="no",
            # `_Watch` says when to log.
            logging_strategy="no",
            logging_nan_inf_filter=False,
            dataloader_pin_memory=False,
            report_to="none",
            disable_tqdm=True,
        )
        if setting.device != "cpu":
            # One device trains: several would each see a part of the batch's negatives.
            _ = args.device
            args._n_gpu = 1
        collator = Collator(
            preprocess_fn=model.preprocess,
            max_length=phase.max_length,
            seed=setting.seed,
            word_repetition=phase.word_repetition,
        )
        super().__init__(
            model=model,
            args=args,
            train_dataset=Dataset(InMemoryTable(rows)),
            loss=make_loss(model, phase),
            data_collator=collator,
            callbacks=[watch],
        )
        self.remove_callback(PrinterCallback)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """No model card: the artifact's manifest says where the model comes from."""

    def get_batch_sampler(self, dataset: Dataset, batch_size: int, **_: Any) -> LengthWindows:
        """Seeded batches of rows of like length."""
        purpose = f"batches of {self._phase.name}"
        return LengthWindows(self._rows, batch_size, self._setting.seed, purpose)

    def _run_epoch(self, *, epoch: int, **kwargs: Any) -> None:
        self.data_collator.epoch = epoch
        super()._run_epoch(epoch=epoch, **kwargs)

    def training_step(self, model: nn.Module, inputs: Any, *args: Any) -> torch.Tensor:
        """One step, its rows counted."""
        self._watch.trained += len(inputs["anchor_input_ids"])
        return super().training_step(model, inputs, *args)

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        """Adds the loss's own means to what is logged."""
        if "loss" in logs and isinstance(self.loss, GaussianDecayLoss):
            logs = {**logs, "statistics": self.loss.statistics()}
        super().log(logs, start_time)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        tensors, rest = checkpoints.split_optimizer(self.optimizer.state_dict())
        state = json.loads(json.dumps({**dataclasses.asdict(self.state), "log_history": []}))
        files = {
            "model.safetensors": self.loss.state_dict(),
            "optimizer.safetensors": tensors,
            "optimizer.json": rest,
            "scheduler.json": self.lr_scheduler.state_dict(),
            "trainer_state.json": state,
            "log.json": self._watch.state(),
        }
        checkpoints.write(self._setting.directory, self.state.global_step, files)
        self._watch.saved(self.state.global_step)

    def _load_from_checkpoint(self, path: str, model: nn.Module | None = None) -> None:
        self.loss.load_state_dict(checkpoints.read_tensors(Path(path), "model.safetensors"))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        path = Path(checkpoint)
        tensors = checkpoints.read_tensors(path, "optimizer.safetensors")
        rest = checkpoints.read_json(path, "optimizer.json")
        self.optimizer.load_state_dict(checkpoints.join_optimizer(tensors, rest))
        self.lr_scheduler.load_state_dict(checkpoints.read_json(path, "scheduler.json"))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Nothing to load: each step is seeded by itself."""

    def _load_scaler(self, checkpoint: str | None) -> None:
        """fp32 and bf16 know no gradient scaler."""
