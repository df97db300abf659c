"""Trains a sentence encoder through one phase: parts with losses, drawn together in each batch."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tercet.models import seeding
from tercet.models.encoders import encoder as encoders
from tercet.models.encoders.encoder import check_room, encode, load_encoder, longest, side_arguments
from tercet.models.losses.loss import Loss
from tercet.models.losses.registry import loss_named
from tercet.models.training import batches as batching
from tercet.models.training import checkpoints
from tercet.models.training.loop import Batch, Setting, phase_seed, train
from tercet.models.training.phase import (
    Hyperparameters,
    PartRows,
    Teacher,
    Trained,
    epoch_steps,
    part_sizes,
)

# Widths are multiples of this: bf16 on a CPU compiles for each new shape.
STEP = 8
# What one more forward pass costs, in tokens (MiniLM on a CPU, both ways).
_PASS = 64


class EncoderInPieces(nn.Module, ABC):  # type: ignore[misc]
    """Stands for an encoder in any loss that reads the `sentence_embedding` alone.

    Each subclass says where texts in order of their lengths are cut, and how a piece is encoded.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def __getattr__(self, name: str) -> Any:
        """What else a loss asks of the encoder is the encoder's own."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("model"), name)

    def __getitem__(self, place: int) -> nn.Module:
        """The encoder's module at this place."""
        module: nn.Module = self.model[place]
        return module

    @abstractmethod
    def sizes(self, widths: Sequence[int]) -> list[int]:
        """How many texts each piece has, of texts with these rising widths in tokens."""

    def vectors(self, features: dict[str, Any]) -> Tensor:
        """The vectors of a piece's texts."""
        # A copy: modules add their states to what they are given.
        found: Tensor = self.model(dict(features))["sentence_embedding"]
        return found

    def forward(self, features: dict[str, Any]) -> dict[str, Tensor]:
        """The features of texts to `sentence_embedding` (texts, dimension).

        features: with an `attention_mask` (texts, tokens).
        """
        mask = features["attention_mask"]
        places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        ends = (mask * places).amax(1).long()  # (texts,): where each text's padding begins
        order = ends.argsort(stable=True)
        # A text without a token keeps a column.
        steps = -(-ends[order].clamp(min=1) // STEP)
        widths = (steps * STEP).clamp(max=mask.shape[1]).tolist()
        sizes = self.sizes(widths)
        if len(sizes) == 1:
            return {"sentence_embedding": self.vectors(features)}
        vectors, start = [], 0
        for size in sizes:
            rows = order[start : start + size]
            start += size
            vectors.append(self.vectors(_piece(features, rows, widths[start - 1])))
        return {"sentence_embedding": torch.cat(vectors)[order.argsort()]}


class LengthGroups(EncoderInPieces):
    """Encodes texts in as many pieces as save more padding than a further pass costs.

    The vectors are those of the whole batch, but for what dropout draws. A batch stays whole on a
    GPU, where many small passes are slower than a padded one, and where its inputs do not have a
    row for each text.
    """

    def sizes(self, widths: Sequence[int]) -> list[int]:
        """The cheapest cut."""
        return cheapest(widths)

    def forward(self, features: dict[str, Any]) -> dict[str, Tensor]:
        """The features of texts to `sentence_embedding` (texts, dimension)."""
        mask = features.get("attention_mask")
        if mask is None or mask.ndim != 2 or mask.device.type != "cpu":
            return {"sentence_embedding": self.vectors(features)}
        return super().forward(features)


def cheapest(widths: Sequence[int]) -> list[int]:
    """Sizes of the pieces that cost least: each its texts times its last width, and a pass.

    widths: rising. The sizes are in their order and sum to their number.
    """
    count = len(widths)
    # A cut between texts of one width saves nothing.
    ends = [n for n in range(1, count + 1) if n == count or widths[n] != widths[n - 1]]
    # Least cost up to each end, and where its last piece begins.
    costs: dict[int, tuple[int, int]] = {0: (0, 0)}
    for end in ends:
        costs[end] = min(
            (cost + (end - begin) * widths[end - 1] + _PASS, begin)
            for begin, (cost, _) in costs.items()
        )
    sizes: list[int] = []
    end = len(widths)
    while end:
        begin = costs[end][1]
        sizes.insert(0, end - begin)
        end = begin
    return sizes


def _piece(features: dict[str, Any], rows: Tensor, width: int) -> dict[str, Any]:
    """The features of these rows, without the columns in which all of them are padding."""
    texts, columns = features["attention_mask"].shape
    piece = {}
    for name, value in features.items():
        if isinstance(value, Tensor) and value.shape[:1] == (texts,):
            value = value[rows]
            value = value[:, :width] if value.shape[1:2] == (columns,) else value
        piece[name] = value
    return piece


# Rows of what was drawn that are made at once.
_PIECE = 50_000

# One part's features of each text, and its label.
Inputs = tuple[list[dict[str, Any]], Tensor | None]


def train_encoder(
    model: SentenceTransformer,
    hyper: Hyperparameters,
    parts: Sequence[PartRows],
    setting: Setting,
    mini_batch: int | None = None,
) -> Trained:
    """Trains the model in place, from the last checkpoint in the directory if there is one.

    Every batch holds rows of each part, by its share; its loss is the sum of the parts' own, each
    times its weight. mini_batch: how many texts are encoded at once, by cached gradients; None: as
    many as have like length. Raises ValueError where rows lack a column that the part's loss needs,
    where the batch is too small for the parts, and where nothing tells texts from their positives.
    """
    losses = [loss_named(part.loss).with_params(part.params) for part in parts]
    feed = _Feed(model, hyper, parts, losses, setting.seed, setting.device)
    check_dropout(model, hyper, parts, losses)
    # Initial weights of heads are drawn here.
    torch.manual_seed(phase_seed(setting.seed, hyper.name))
    # What fits into one mini-batch needs no second forward pass.
    cached = mini_batch is not None and mini_batch < hyper.batch_size
    seen: Any = CachedEncoder(model, mini_batch or 0) if cached else LengthGroups(model)
    built = nn.ModuleList(
        loss.build(model if loss.states else seen, part.params, part.slots)
        for loss, part in zip(losses, parts, strict=True)
    )

    def step(inputs: list[Inputs]) -> tuple[Tensor, dict[str, Tensor]]:
        total: Tensor | float = 0.0
        terms: dict[str, Tensor] = {}
        for part, loss, (features, labels) in zip(parts, built, inputs, strict=True):
            value = loss(features, labels)
            # Some of the library's losses return their components.
            if isinstance(value, dict):
                value = torch.stack(list(value.values())).sum()
            total = total + part.weight * value
            own = getattr(loss, "terms", {})
            if len(parts) > 1:
                own = {f"{part.name}.{name}": term for name, term in own.items()}
                own[f"{part.name}.loss"] = value.detach()
            terms |= own
        assert isinstance(total, Tensor)
        return total, terms

    kept = {
        name if len(parts) == 1 else f"{part.name}.{name}": module.get_submodule(name)
        for part, loss, module in zip(parts, losses, built, strict=True)
        for name in loss.keeps
    }
    # What is kept fits the encoder that it was trained with, so that both are blended alike.
    whole = nn.ModuleList([model, *kept.values()])
    with blended(whole, hyper.weight_interpolation), frozen(model, hyper.frozen_layers):
        log = train(nn.ModuleList([model, built]), feed, step, hyper, setting, network=model)
    steps = hyper.steps(len(feed))
    return Trained(log, feed.draws(steps), kept, feed.drawn(steps))


def save_encoder(
    model: SentenceTransformer, directory: Path, kept: Mapping[str, nn.Module] | None = None
) -> Path:
    """Writes the encoder as a SentenceTransformer directory of safetensors and JSON.

    kept: what losses leave beside it, as NAME.safetensors in the folder `losses`.
    """
    encoders.save_encoder(model, directory)
    for name, module in (kept or {}).items():
        (directory / "losses").mkdir(exist_ok=True)
        path = directory / "losses" / f"{name}.safetensors"
        checkpoints.write_tensors(path, checkpoints.weights(module))
    return directory


class _Feed:
    """The phase's batches, each of rows of every part."""

    def __init__(
        self,
        model: SentenceTransformer,
        hyper: Hyperparameters,
        parts: Sequence[PartRows],
        losses: Sequence[Loss],
        seed: int,
        device: str = "cpu",
    ) -> None:
        counts = [part.count() for part in parts]
        sizes = part_sizes(hyper.batch_size, counts, [part.share for part in parts])
        self._length = epoch_steps(sizes, counts)
        self._parts = [
            _Part(
                model,
                hyper,
                part,
                loss,
                size,
                seed,
                device,
                # A lone part's name affects nothing.
                hyper.name if len(parts) == 1 else f"{hyper.name}.{part.name}",
            )
            for part, loss, size in zip(parts, losses, sizes, strict=True)
        ]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, step: int) -> Batch:
        found = [part.batch(step) for part in self._parts]
        return Batch(sum(rows for rows, _ in found), [inputs for _, inputs in found])

    def draws(self, steps: int) -> pa.Table | None:
        """The draws of this many steps."""
        tables = [part.draws(steps) for part in self._parts]
        return pa.concat_tables(table for table in tables if table) if any(tables) else None

    def drawn(self, steps: int) -> Iterator[pa.Table]:
        """The positives that were drawn for this many steps, as `Trained` describes them."""
        return chain.from_iterable(part.drawn(steps) for part in self._parts)


class _Part:
    """One part's rows, round after round: a round goes through all of them, or all groups, once."""

    def __init__(
        self,
        model: SentenceTransformer,
        hyper: Hyperparameters,
        part: PartRows,
        loss: Loss,
        size: int,
        seed: int,
        device: str,
        name: str,
    ) -> None:
        here = part.rows.column_names
        if missing := [c for c in (*loss.texts, *loss.labels) if c not in here]:
            raise ValueError(
                f"{name}: the loss {loss.name} needs the column {missing[0]}, which the rows lack: "
                "take another loss, or rows that have it"
            )
        self._features = loss.columns_of(here)
        self._texts = list(chain.from_iterable(self._features.values()))
        self._labels, self._sides = dict(loss.labels), part.sides
        group = ["group"] if "group" in here else []
        columns = ["row_id", *self._texts, *self._labels, *group]
        self._rows = part.rows.sort_by("row_id").select(columns).combine_chunks()
        self._name, self._seed, self._purpose = part.name, seed, f"batches of {name}"
        self._model, self._hyper = model, hyper
        self._longest = min(hyper.max_length, longest(model))
        for side in part.sides.values():
            check_room(model, side, self._longest)
        self._teacher = None
        if part.teacher is not None:
            self._teacher = load_teacher(part.teacher, self._longest, device)
        self._ids = self._rows["row_id"].to_numpy()
        self._groups = self._rows["group"].to_numpy() if group else None
        self._rounds = -(-part.count() // size)
        self._drawing = part.drawing
        # Of its own, so that a rule with the recipe's seed draws otherwise.
        self._draw_seed = seeding.text_id(str(seed), f"positives of {name}")
        self._windows = batching.LengthWindows(self._rows, self._texts, size, seed, self._purpose)
        self._round: tuple[int, list[list[int]]] = (-1, [])

    def batch(self, step: int) -> tuple[int, Inputs]:
        """How many rows the step's batch has of this part, and what its loss takes."""
        number, place = divmod(step, self._rounds)
        if self._round[0] != number:
            self._round = (number, self._windows.round(number, self._drawn(number)))
        rows = self._rows.take(pa.array(self._round[1][place]))
        texts = {name: rows[name].to_pylist() for name in self._texts}
        if self._drawing is not None:
            texts["positive"] = self._positives(rows, number)["text"].to_pylist()
        if self._hyper.word_repetition:
            texts["anchor"] = [
                batching.repeat_words(text, self._seed, row_id, number)
                for text, row_id in zip(texts["anchor"], rows["row_id"].to_pylist(), strict=True)
            ]
        features = []
        for name, columns in self._features.items():
            # Of an optional column a row may lack the text, and a batch may have none at all.
            there = [text for column in columns for text in texts[column] if text is not None]
            # The prompt that the encoder is used with; without it, another would be trained.
            given = side_arguments(self._model, self._sides.get(name))
            if there:
                made = self._model.preprocess(there, **given, max_length=self._longest)
                features.append(made)
        if self._teacher is not None:
            labels = _teacher_cosines(self._teacher, texts["anchor"], texts["negative"])
            return rows.num_rows, (features, labels)
        return rows.num_rows, (features, self._label(rows))

    def _label(self, rows: pa.Table) -> Tensor | None:
        for name, kind in self._labels.items():
            column = rows[name].cast(kind)
            if pa.types.is_floating(kind):
                column = pc.fill_null(column, float("nan"))
            if pa.types.is_list(kind):
                # Rows of the longest's length, filled up with -1.
                rows = [torch.tensor(row) for row in column.to_pylist()]
                return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
            return torch.tensor(column.to_pylist())
        return None

    def _drawn(self, number: int) -> batching.Indices | None:
        if self._groups is None:
            return None
        return batching.one_of_each(self._groups, self._ids, self._seed, self._purpose, number)

    def _positives(self, rows: pa.Table, number: int) -> pa.Table:
        assert self._drawing is not None
        texts = rows["anchor"].to_pylist()
        return self._drawing.positives(rows["row_id"].to_numpy(), texts, self._draw_seed, number)

    def _taken(self, steps: int) -> Iterator[tuple[int, batching.Indices]]:
        """Each round of this many steps, with the rows of its batches in their order."""
        for number in range(-(-steps // self._rounds)):
            rows = self._drawn(number)
            left = steps - number * self._rounds
            if left < self._rounds:
                taken = self._windows.round(number, rows)[:left]
                rows = np.sort(np.array([row for batch in taken for row in batch]))
            yield number, np.arange(self._rows.num_rows) if rows is None else rows

    def drawn(self, steps: int) -> Iterator[pa.Table]:
        """The positives that were drawn in the rounds of this many steps."""
        if self._drawing is None:
            return
        for number, taken in self._taken(steps):
            for start in range(0, len(taken), _PIECE):
                rows = self._rows.take(pa.array(taken[start : start + _PIECE]))
                made = {
                    "epoch": pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows),
                    "part": pa.repeat(self._name, rows.num_rows),
                    "row_id": rows["row_id"],
                }
                found = self._positives(rows, number)
                yield pa.table(made | {name: found[name] for name in found.column_names})

    def draws(self, steps: int) -> pa.Table | None:
        """Which row of each group was drawn in the rounds of this many steps."""
        if self._groups is None:
            return None
        tables = []
        for number, rows in self._taken(steps):
            tables.append(
                pa.table(
                    {
                        "epoch": pa.array(np.full(len(rows), number), pa.int32()),
                        "part": pa.array([self._name] * len(rows), pa.string()),
                        "group": pa.array(self._groups[rows], pa.uint64()),
                        "row_id": pa.array(self._ids[rows], pa.uint64()),
                    }
                )
            )
        return pa.concat_tables(tables)


def load_teacher(teacher: Teacher, max_length: int, device: str) -> SentenceTransformer:
    """The frozen teacher on the device, which reads the very texts of a batch (GCSE, figure 4).

    A cosine that was stored beforehand is that of the texts as they stand in the rows, which
    training may change. The teacher reads no more of a text than the student, in tokens.

    Raises ValueError with one sentence when no encoder can be loaded from there.
    """
    directory, pooling = teacher.directory, teacher.pooling
    return load_encoder(directory, pooling, max_length, device, prompt=teacher.prompt)


def _teacher_cosines(
    model: SentenceTransformer, anchors: list[str], negatives: list[str]
) -> Tensor:
    """The cosine of each anchor with its own negative (rows,), in [-1, 1], without dropout.

    Always in fp32: bf16 moves cosines by up to 4e-3, and the decay's half-width may be 0.01.
    """
    vectors = torch.from_numpy(encode(model, [*anchors, *negatives]))
    return (vectors[: len(anchors)] * vectors[len(anchors) :]).sum(-1)


def check_dropout(
    model: nn.Module,
    hyper: Hyperparameters,
    parts: Iterable[PartRows],
    losses: Iterable[Loss],
) -> None:
    """Raises ValueError where every positive of a part would get its anchor's own vector."""
    if hyper.word_repetition or has_dropout(model):
        return
    for part, loss in zip(parts, losses, strict=True):
        if "positive" not in loss.texts or part.drawing is not None:
            continue
        if pc.all(pc.equal(part.rows["anchor"], part.rows["positive"])).as_py():
            raise ValueError(
                f"{hyper.name}: each text is its own positive, and the encoder has no dropout "
                "that would give it another vector: take other rows, or a backbone with dropout"
            )


def has_dropout(model: nn.Module) -> bool:
    """Whether dropout is active in training, as a module or as a share that a module has."""
    return any(
        isinstance(value, float) and value > 0 and _is_share(module, name)
        for module in model.modules()
        for name, value in vars(module).items()
    )


def _is_share(module: nn.Module, name: str) -> bool:
    return "drop" in name or (name == "p" and "Dropout" in type(module).__name__)


@contextmanager
def frozen(model: SentenceTransformer, layers: int) -> Iterator[None]:
    """Inside, the token embeddings and this many of the lowest layers do not train; 0: all train.

    No gradient is computed below the first layer that trains, which saves that part of the
    backward pass. Raises ValueError where the encoder has fewer layers.
    """
    if layers == 0:
        yield
        return
    first = model[0]
    network = getattr(first, "auto_model", None) or getattr(first, "model", None)
    if not isinstance(network, nn.Module):
        raise ValueError("frozen_layers: the encoder has no transformer: leave frozen_layers out")
    stack = _layers(network)
    if layers >= len(stack):
        raise ValueError(
            f"frozen_layers: {layers} of the encoder's {len(stack)} layers leaves none to train: "
            f"freeze {len(stack) - 1} or fewer"
        )
    below = [*_embeddings(network), *stack[:layers]]
    still = [p for part in below for p in part.parameters() if p.requires_grad]
    for parameter in still:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in still:
            parameter.requires_grad_(True)


@contextmanager
def blended(model: nn.Module, share: float) -> Iterator[None]:
    """Afterwards the weights are this share of those before and the rest of those made inside.

    A model between the two often does better than both ends (Wortsman et al. 2022, section 3,
    equation 1, where 1 - share is alpha). share: from 0 to 1; 0: the weights made inside.
    """
    if not share:
        yield
        return
    before = {name: p.detach().cpu().clone() for name, p in model.named_parameters()}
    yield
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.lerp_(before[name].to(parameter), share)


def _embeddings(network: nn.Module) -> list[nn.Module]:
    """The module of all embeddings, or of the tokens' alone where the network has no such."""
    found = getattr(network, "embeddings", None)
    return [found if isinstance(found, nn.Module) else network.get_input_embeddings()]


def _layers(network: nn.Module) -> nn.ModuleList:
    """The encoder's layers, from the lowest: the first list of as many modules as it has layers."""
    count = getattr(network.config, "num_hidden_layers", 0)
    lists = (m for m in network.modules() if isinstance(m, nn.ModuleList) and len(m) == count)
    found = next(lists, None) if count else None
    if found is None:
        raise ValueError(
            f"frozen_layers: {type(network).__name__} has no list of layers that could be frozen: "
            "leave frozen_layers out"
        )
    return found


class CachedEncoder(EncoderInPieces):
    """An encoder whose vectors are stored, and remember no states (Gao et al. 2021, GradCache).

    A contrastive loss needs all vectors of a batch, but none of the states behind them: those are
    made again, a few texts at a time, once the loss's gradient at the vectors is known. The batch's
    gradient stays what it is; a step takes one more forward pass.

    mini_batch: how many texts are encoded at once, >= 1, forwards and backwards. Texts of similar
        length are encoded together, and share their draws of dropout, the same in both passes.
    """

    def __init__(self, model: SentenceTransformer, mini_batch: int) -> None:
        super().__init__(model)
        self.mini_batch = mini_batch

    def sizes(self, widths: Sequence[int]) -> list[int]:
        """As many as `mini_batch`, and the rest."""
        whole, rest = divmod(len(widths), self.mini_batch)
        return [self.mini_batch] * whole + ([rest] if rest else [])

    def vectors(self, features: dict[str, Any]) -> Tensor:
        """The vectors of a piece's texts, without the states behind them."""
        # The library's checkpoint wants an input with a gradient.
        switch = torch.zeros((), device=features["attention_mask"].device, requires_grad=True)
        found: Tensor = checkpoint(self._encoded, switch, features, use_reentrant=True)
        return found

    def forward(self, features: dict[str, Any]) -> dict[str, Tensor]:
        """The features of texts to `sentence_embedding` (texts, dimension).

        Raises: ValueError where the features do not have one row for each text.
        """
        mask = features.get("attention_mask")
        if mask is None or mask.ndim != 2:
            raise ValueError(
                "mini_batch divides inputs that have one row for each text, and this encoder's do "
                "not: leave mini_batch out"
            )
        return super().forward(features)

    def _encoded(self, switch: Tensor, features: dict[str, Any]) -> Tensor:
        return super().vectors(features)
