"""Stage `pretrain`: trains a language model on a corpus, from random weights or another model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from tercet.errors import InvalidSetting, kind_of
from tercet.models import seeding
from tercet.models.machine import Precision
from tercet.models.pretraining.forms import Form, form_fault, transformer_folder
from tercet.tasks.config import Wired
from tercet.tasks.stage import BadInput, Config, Stage, Work
from tercet.tasks.training.fitting import TRAINING_LOG, log_table, setting_of

# Keys that would contradict the model of `init`.
_SHAPE = ("layers", "width", "vocabulary")
# Learning rates without and with `init`. T5's are relative to the size of its weights (Adafactor).
_RATES = {"masked": (1e-3, 1e-4), "causal": (1e-3, 1e-4), "t5": (2e-2, 1e-3)}
_HEAD = 64
# Shares of masked tokens: BERT's 0.15 has proved too small, T5's has not.
_MASKED = {"masked": 0.2, "causal": 0.2, "t5": 0.15}
# For T5, the share of batches whose texts are written as a whole, to learn copying.
_INFILL = 0.2
# Texts that measure the held-out loss, and the most texts that train a tokenizer.
_HELD_OUT = 1_000
_READ = 500_000
_BATCH = 2_000


class PretrainConfig(Config):
    """How a language model is trained, and its shape where it starts from nothing."""

    name: Wired[str] = ""
    form: Form = Field(
        description="masked: words are masked and found again, as in BERT; causal: each word from "
        "those before it, as in GPT-2; t5: masked spans are written by a decoder."
    )
    corpora: tuple[str, ...] = Field(
        default=(),
        description="By name; empty: those of role pretrain or, without any, all that give "
        "sentences.",
    )
    layers: int = Field(default=4, ge=1, le=200, description="Of encoder and decoder each in t5.")
    width: int = Field(default=256, ge=8, le=16_384, description="Of the hidden states.")
    vocabulary: int = Field(
        default=8192, ge=64, le=1_000_000, description="Entries of the tokenizer that is trained."
    )
    max_length: int = Field(
        default=128, ge=16, le=8192, description="Longest input in tokens; the rest is cut off."
    )
    tokens: int | None = Field(
        default=20_000_000, ge=1, description="How many tokens of text are trained on."
    )
    steps: int | None = Field(default=None, ge=1, description="Instead of tokens.")
    batch_tokens: int = Field(
        default=4096, ge=16, le=10_000_000, description="Tokens of a batch, padding included."
    )
    lr_schedule: Literal["linear", "cosine"] = Field(
        default="linear", description="How the learning rate falls to 0 after the warm-up."
    )
    precision: Precision = Field(
        "bf16", description="Fp32, or bf16 where the processor or GPU is fast at it."
    )
    measure_steps: int = Field(
        default=200, ge=1, description="Steps between two measurements of the held-out loss."
    )
    log_steps: int = Field(default=10, ge=1, description="Steps between rows of training_log.")

    init: str | None = Field(
        default=None,
        min_length=1,
        description="A model of the same form, named like any other; null: random weights, and a "
        "tokenizer trained on the corpora.",
    )
    learning_rate: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="null: 1e-3, and 1e-4 with `init`; of t5 2e-2 and 1e-3.",
    )
    masked: float | None = Field(
        default=None,
        gt=0.0,
        lt=1.0,
        description="Share of a text's tokens to be found again; null: 0.2, and 0.15 in t5.",
    )

    @model_validator(mode="before")
    @classmethod
    def _steps_alone(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("steps") is not None:
            return {"tokens": None, **content}
        return content

    @model_validator(mode="after")
    def _consistent(self) -> "PretrainConfig":
        if (self.tokens is None) == (self.steps is None):
            raise InvalidSetting("conflict", "give either tokens or steps")
        shape = [key for key in _SHAPE if key in self.model_fields_set]
        if self.init is not None and shape:
            raise InvalidSetting(
                "no_effect", f"with init the model has its own {shape[0]}: leave {shape[0]} out"
            )
        return self

    def models(self) -> dict[str, str]:
        """The models that are read, by slot."""
        return {} if self.init is None else {"init": self.init}

    @property
    def rate(self) -> float:
        """The learning rate; the default depends on form and init."""
        return self.learning_rate or _RATES[self.form][self.init is not None]

    @property
    def share(self) -> float:
        """The share of a text's masked tokens; the default depends on the form."""
        return self.masked or _MASKED[self.form]

    def head_count(self) -> int:
        """Attention heads of a new model: about one per 64 of the width, which they divide."""
        most = max(1, self.width // _HEAD)
        return next(heads for heads in range(most, 0, -1) if self.width % heads == 0)


def check_model(config: PretrainConfig, slot: str, folder: Path) -> None:
    """Raises BadInput if the training cannot start from the model in this directory."""
    if fault := form_fault(folder, config.form):
        raise BadInput(
            "unfit_model",
            f"pretrain.{config.name}: the model at {folder} cannot be its {slot}: {fault}",
        )


def run(work: Work) -> Path:
    """Trains the model; returns its directory, emits `training_log`.

    Raises BadInput without text, if the corpora yield too small a vocabulary, or if the initial
    model has another form or a tokenizer that does not fit.
    """
    import torch

    from tercet.models.encoders.template_encoder import longest_input
    from tercet.models.pretraining import batches, network, pretrain
    from tercet.models.pretraining.batches import Task
    from tercet.models.training import loop

    config: PretrainConfig = work.config
    init = work.models.get("init")
    if init is not None:
        check_model(config, "init", init)
    try:
        # Seeded, so that a training that is resumed before its first checkpoint starts alike.
        torch.manual_seed(loop.phase_seed(work.seed, config.name))
        model, tokenizer = _model(work, None if init is None else transformer_folder(init))
        network.set_dropout(model, 0.0)
        longest = min(config.max_length, longest_input(model))
        train, held_out = (
            batches.tokenised(
                work.scratch / split, _texts(work, split, most), tokenizer, config.form, longest
            )
            for split, most in (("train", None), ("dev", _HELD_OUT))
        )
        if not len(train):
            raise BadInput("no_rows", _empty(config))
        task = Task(config.form, config.share, _INFILL, longest, config.batch_tokens)
        budget = pretrain.Budget(
            config.rate,
            config.lr_schedule,
            config.tokens,
            config.steps,
            config.measure_steps,
        )
        setting = setting_of(work, config)
        log = pretrain.pretrain(
            config.name, model, tokenizer, train, held_out, task, budget, setting
        )
    except (ValueError, loop.NothingToChoose) as error:
        raise BadInput(kind_of(error, "unfit_model"), f"pretrain.{config.name}: {error}") from error
    work.emit("training_log", log_table(log, config.name, work.seed))
    return network.save(model, tokenizer, work.scratch / "model")


def _model(work: Work, init: Path | None) -> tuple[Any, Any]:
    """The model before training, and its tokenizer, which is trained once and kept in scratch."""
    from tercet.models.pretraining import network
    from tercet.models.pretraining import tokenizer as tokenizers

    config: PretrainConfig = work.config
    if init is not None:
        try:
            model = network.loaded(init, config.form)
            entries = model.get_input_embeddings().num_embeddings
            return model, tokenizers.loaded(init, config.form, entries)
        except ValueError as error:
            raise ValueError(f"the model at {init} cannot be its init: {error}") from error
    folder = work.scratch / "tokenizer"
    if not folder.is_dir():
        trained = tokenizers.trained(
            config.form,
            config.vocabulary,
            config.max_length,
            lambda: _texts(work, "train", _READ),
        )
        draft = folder.with_suffix(".writing")
        trained.save_pretrained(draft)
        draft.rename(folder)
    tokenizer = tokenizers.loaded(folder, config.form, config.vocabulary)
    shape = network.Shape(config.layers, config.width, config.head_count(), config.max_length)
    return network.new_model(config.form, shape, tokenizer), tokenizer


def _texts(work: Work, split: str, most: int | None) -> Iterator[list[str]]:
    """The texts of a split in batches; a seeded sample of about `most` if there are more."""
    config: PretrainConfig = work.config
    total = sum(batch.num_rows for batch in _rows(work, split, []))
    share = 1.0 if most is None or total <= most else most / total
    for batch in _rows(work, split, ["text"]):
        ids = batch["sentence_id"].to_numpy()
        kept = seeding.uniforms(work.seed, f"pretrain {split}", ids) < share
        if texts := batch["text"].filter(pa.array(kept)).to_pylist():
            yield texts
    if not total and split == "train":
        raise BadInput("no_rows", _empty(config))


def _rows(work: Work, split: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Sentences of the config's corpora in a split, with sentence_id and these columns."""
    config: PretrainConfig = work.config
    names = ["sentence_id", "corpus", "split", *columns]
    for table in ("pretrain_sentences", "sentences"):
        if table not in work.inputs:
            continue
        for batch in work.inputs[table].batches(table, names, _BATCH):
            in_corpora = pc.is_in(batch["corpus"], pa.array(config.corpora))
            yield batch.filter(pc.and_(in_corpora, pc.equal(batch["split"], split)))


def _empty(config: PretrainConfig) -> str:
    return (
        f"pretrain.{config.name}: the train split of {', '.join(config.corpora)} has no text to "
        "train on: check the corpora that the recipe names, and what ingest rejected."
    )


STAGE = Stage(
    name="pretrain",
    config=PretrainConfig,
    tables={"training_log": TRAINING_LOG},
    run=run,
    model=True,
    libraries=("torch", "transformers", "tokenizers"),
    check_model=check_model,
)
