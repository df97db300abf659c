"""A phase of training as a recipe describes it: its rows, its losses and its hyperparameters."""

from collections import Counter
from collections.abc import Collection
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from tercet.errors import InvalidSetting
from tercet.models.losses.loss import Loss
from tercet.models.losses.registry import TEACHER, fill_loss, loss_named, loss_of, params_of
from tercet.models.training.phase import Hyperparameters, part_sizes
from tercet.tasks.stage import Config

# Columns of the rows that every recipe has, by source. Columns of labelled corpora follow from
# their kind.
SOURCES: dict[str, tuple[str, ...]] = {
    "triplets": ("anchor", "positive", "negative", "label"),
    "pairs": ("anchor", "positive"),
    "anchors": ("anchor", "positive"),
    "document_pairs": ("anchor", "positive"),
    "queries": ("anchor", "positive"),
}
KINDS: dict[str, tuple[str, ...]] = {
    "triplets": ("anchor", "positive", "negative", "label"),
    "pairs": ("anchor", "positive"),
    "scored": ("anchor", "positive", "label"),
    "definitions": ("anchor", "entries"),
    "entailment": ("anchor", "positive"),
}
# Sources whose rows come from sentences of a corpus, several of them perhaps from one sentence.
OF_TRIPLETS = ("triplets", "pairs")
DEFAULT_LOSS = "gaussian_decay"

# The relations that a triplet may have.
Kept: TypeAlias = Literal["alters", "keeps", "topic"]
_ONE: dict[str, Any] = {"enum": list(get_args(Kept)), "type": "string"}
_ONE_OR_MORE = {"anyOf": [_ONE, {"items": _ONE, "type": "array"}]}
PartName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=64)]


def _as_tuple(content: Any) -> Any:
    return (content,) if isinstance(content, str) else content


class DrawConfig(Config):
    """Shares of the ways to make a positive of a sentence (Generate-CSE's random selection).

    A share that is not named is 1 if all named shares are 0, and 0 otherwise.
    """

    @model_validator(mode="before")
    @classmethod
    def _named_alone(cls, content: Any) -> Any:
        """Naming one share draws its way alone; naming one with 0 draws all other ways."""
        if not isinstance(content, dict) or not any(content.values()):
            return content
        return {**dict.fromkeys(cls.model_fields, 0.0), **content}

    word_shuffle: float = Field(default=1.0, ge=0.0, description="Its words in another order.")
    cutoff: float = Field(
        default=1.0,
        ge=0.0,
        description="Of more than three words up to a third deleted, at most 6.",
    )
    word_repetition: float = Field(
        default=1.0, ge=0.0, description="Up to 0.3 of its words twice, in place."
    )
    generated: float = Field(
        default=1.0, ge=0.0, description="A positive of its triplets that keeps its meaning."
    )

    @model_validator(mode="after")
    def _something(self) -> "DrawConfig":
        if not sum(self.model_dump().values()):
            raise InvalidSetting("bad_value", "all shares are 0, so nothing is drawn: raise one")
        return self


class RowsConfig(Config):
    """Which rows a part trains on."""

    model_config = ConfigDict(serialize_by_alias=True)

    source: str = Field(
        default="triplets",
        alias="from",
        min_length=1,
        description="triplets; pairs (their anchors and positives); anchors (each with itself, two "
        "dropout masks apart); document_pairs; queries (of methods over passages, with these); or "
        "the name of a labelled corpus.",
    )
    corpora: tuple[str, ...] = Field(
        default=(),
        description="Only rows whose sentence or passage comes from these corpora; empty: all.",
    )
    role: Literal["domain", "general"] | None = Field(
        default=None, description="Instead of corpora: those with this role."
    )
    relation: Annotated[
        tuple[Kept, ...], BeforeValidator(_as_tuple), WithJsonSchema(_ONE_OR_MORE)
    ] = Field(
        default=(),
        description="Only triplets of this relation or these: alters, keeps, topic; empty: all.",
    )
    positive: Literal["anchor", "half"] | None = Field(
        default=None,
        description="anchor: each row's anchor is its positive too, under another dropout mask; "
        "half: of rows from anchors, the second half of each sentence is the positive of the "
        "first; null: the row's own.",
    )
    one_per: Literal["sentence"] | None = Field(
        default=None,
        description="One row per sentence and epoch, drawn afresh; null: all its rows.",
    )
    negatives: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="Of queries, document_pairs or a labelled corpus: each row's nearest mined "
        "negatives, at most so many, beside any of its own; null: none.",
    )
    max_rows: int | None = Field(default=None, ge=1, description="A seeded sample of this many.")
    draw: DrawConfig | None = Field(
        default=None,
        description="Of anchors: each one's positive is drawn afresh in every epoch, by the shares "
        "that are named here (none: alike); null: it is the anchor itself.",
    )

    @property
    def reads_triplets(self) -> bool:
        """Whether the rows, or the positives that are drawn for them, come from triplets."""
        return self.source in OF_TRIPLETS or (self.draw is not None and self.draw.generated > 0)

    @model_validator(mode="after")
    def _consistent(self) -> "RowsConfig":
        if self.draw is not None and (self.source != "anchors" or self.positive is not None):
            raise InvalidSetting(
                "no_effect",
                "only rows from anchors, without `positive`, have one drawn for them: leave draw "
                "out",
            )
        if self.corpora and self.role is not None:
            raise InvalidSetting("conflict", "give corpora or role, but not both")
        if self.one_per is not None and self.source not in OF_TRIPLETS:
            raise InvalidSetting(
                "no_effect",
                f"one_per chooses among a sentence's triplets, and rows from {self.source} have "
                "none: leave it out",
            )
        if self.negatives is not None and self.source in (*OF_TRIPLETS, "anchors"):
            raise InvalidSetting(
                "no_effect",
                f"negatives are mined for queries, document_pairs and labelled corpora, not for "
                f"{self.source}: leave negatives out",
            )
        if self.positive == "half" and self.source != "anchors":
            raise InvalidSetting(
                "no_effect",
                f"positive: half cuts sentences in two, for rows from anchors, not {self.source}",
            )
        if self.relation and self.source not in OF_TRIPLETS:
            raise InvalidSetting(
                "no_effect",
                f"rows from {self.source} have no relation, as triplets alone have: leave it out",
            )
        if self.source not in SOURCES and (self.corpora or self.role is not None):
            raise InvalidSetting(
                "no_effect",
                f"rows from {self.source} are one corpus already: leave corpora and role out",
            )
        return self


def _bare_rows(content: Any) -> Any:
    return {"from": content} if isinstance(content, str) else content


def _loss(content: Any) -> Any:
    return fill_loss(content, DEFAULT_LOSS)


LossConfig: TypeAlias = Annotated[dict[str, Any], BeforeValidator(_loss)]


class PartConfig(Config):
    """Rows and the loss that they train with."""

    name: PartName = Field(
        description="Appears in the log's terms, and seeds the part if there are several"
    )
    rows: Annotated[RowsConfig, BeforeValidator(_bare_rows)] = Field(
        default_factory=RowsConfig, description="A mapping, or the source alone."
    )
    loss: LossConfig = Field(
        default_factory=lambda: _loss(DEFAULT_LOSS),
        description="A mapping of its name and its parameters, or the name alone.",
    )
    models: dict[str, str] = Field(
        default_factory=dict,
        description="Models that the loss reads, by its slots: base, evaluator, the name of an "
        "earlier phase, or a model as the recipe's backbone names one.",
    )
    weight: float = Field(
        default=1.0, gt=0.0, le=1000.0, description="Weight of the part's loss in the batch's."
    )
    share: float | None = Field(
        default=None,
        gt=0.0,
        le=1.0,
        description="Share of each batch's rows; null: in proportion to the parts' rows.",
    )

    @model_validator(mode="after")
    def _slots_filled(self) -> "PartConfig":
        slots = self.resolved().slots
        if lacking := [slot for slot in slots if slot not in self.models]:
            raise InvalidSetting(
                "missing_key", f"the loss {self.loss['name']} reads the model {lacking[0]}: name it"
            )
        # A model that the loss reads only with other hyperparameters may be named too.
        readable = [
            slot
            for loss in (loss_named(self.loss["name"]), self.resolved())
            for slot in (*loss.slots, *loss.may_read)
        ]
        if unknown := [name for name in self.models if name not in readable]:
            raise InvalidSetting(
                "no_effect", f"the loss {self.loss['name']} reads no model {unknown[0]}"
            )
        return self

    def params(self) -> Config:
        """Hyperparameters of the part's loss."""
        return params_of(self.loss)

    def resolved(self) -> Loss:
        """The part's loss as it is with its hyperparameters."""
        return loss_of(self.loss)

    def decays(self) -> bool:
        """Whether a teacher's cosines decide how much the rows' own negatives count."""
        return TEACHER in self.resolved().may_read


class PhaseConfig(Hyperparameters):
    """One phase: its hyperparameters, and the parts that are drawn together in each batch."""

    name: PartName = Field("triplets", description="Appears in `training_log`, and seeds the phase")
    backbone: str = Field(
        default="previous",
        min_length=1,
        description="previous: the weights of the phase before, or the recipe's backbone; base: "
        "the recipe's backbone; evaluator; the name of an earlier phase; or any model, named as "
        "in the recipe's backbone.",
    )
    mini_batch: int | None = Field(
        default=None,
        ge=1,
        description="Texts encoded at once, for batches larger than memory (cached gradients): the "
        "batch's gradient stays the same and takes one more forward pass; null: all of a batch.",
    )
    parts: tuple[PartConfig, ...] = Field(
        min_length=1,
        description="Drawn together in each batch. A single part may be written flat, as rows and "
        "loss of the phase.",
    )

    @model_validator(mode="before")
    @classmethod
    def _flat(cls, content: Any) -> Any:
        """Turns a phase's own `rows` and `loss` into its single part."""
        if not isinstance(content, dict):
            return content
        flat = {key: content[key] for key in ("rows", "loss", "models") if key in content}
        if "parts" in content:
            if flat:
                raise InvalidSetting(
                    "bad_value", f"`{next(iter(flat))}` belongs in each of the phase's `parts`"
                )
            return content
        of_phase = {key: value for key, value in content.items() if key not in flat}
        return {**of_phase, "parts": [{"name": content.get("name", "triplets"), **flat}]}

    @model_validator(mode="after")
    def _distinct(self) -> "PhaseConfig":
        for name, count in Counter(part.name for part in self.parts).items():
            if count > 1:
                raise InvalidSetting(
                    "conflict", f"two parts have the name {name}: give each part its own name"
                )
        shares = [part.share for part in self.parts]
        part_sizes(self.batch_size, [1] * len(shares), shares)
        named = [share for share in shares if share is not None]
        # A hundredth is left for thirds.
        if named and abs(sum(named) - 1) > 0.01:
            raise InvalidSetting(
                "bad_value",
                f"the parts' shares of a batch add up to {sum(named):.4g}: make them add up to 1",
            )
        return self

    @model_validator(mode="after")
    def _whole_batches(self) -> "PhaseConfig":
        """A mini-batch keeps the vectors of a batch, and no loss may read more."""
        if self.mini_batch is None or self.mini_batch >= self.batch_size:
            return self
        for part in self.parts:
            if part.resolved().states:
                raise InvalidSetting(
                    "no_effect",
                    f"the loss {part.loss['name']} reads the states of all tokens of a batch, "
                    "which mini_batch does not keep: leave mini_batch out",
                )
        return self

    def losses(self) -> tuple[str, ...]:
        """Names of the losses that the phase trains with, and of the losses inside those."""
        losses = [part.resolved() for part in self.parts]
        return tuple(dict.fromkeys(name for loss in losses for name in (loss.name, *loss.around)))

    def sources(self) -> tuple[str, ...]:
        """The sources of the phase's rows."""
        return tuple(dict.fromkeys(part.rows.source for part in self.parts))


def unfit(part: PartConfig, columns: Collection[str]) -> str | None:
    """Why rows with these columns cannot train with the part's loss; None if they can."""
    loss = part.resolved()
    missing = [name for name in (*loss.texts, *loss.labels) if name not in columns]
    if not missing:
        return None
    return (
        f"rows from {part.rows.source} have no {' and no '.join(missing)}, which the loss "
        f"{loss.name} needs: take other rows or another loss"
    )
