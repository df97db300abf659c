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
from tercet.models.text.word_noise import sentences_of, words_of
from tercet.models.training import batches as batching
from tercet.models.training import checkpoints
from tercet.models.training.loop import Batch, Setting, phase_seed, train
from tercet.models.training.phase import (
    REPETITIONS,
    Hyperparameters,
    PartRows,
    Trained,
    epoch_steps,
    part_sizes,
)

# Widths are multiples of this, since a CPU compiles bf16 kernels for each new shape.
STEP = 8
# The cost of one more forward and backward pass, in tokens (MiniLM on a CPU).
_PASS = 64


class EncoderInPieces(nn.Module, ABC):  # type: ignore[misc]
    """An encoder, for losses that read only `sentence_embedding`, that encodes a batch in pieces.

    A subclass decides where texts, sorted by length, are cut, and how a piece is encoded.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def __getattr__(self, name: str) -> Any:
        """All other attributes are the encoder's."""
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
        """The number of texts in each piece. widths: of the texts, in tokens, rising."""

    def vectors(self, features: dict[str, Any]) -> Tensor:
        """The vectors of a piece's texts."""
        # A copy, since modules add their states to it.
        vectors: Tensor = self.model(dict(features))["sentence_embedding"]
        return vectors

    def forward(self, features: dict[str, Any]) -> dict[str, Tensor]:
        """Features with an `attention_mask` (texts, tokens) to `sentence_embedding` (texts,
        dimension).
        """
        mask = features["attention_mask"]
        places = torch.arange(1, mask.shape[1] + 1, device=mask.device)
        ends = (mask * places).amax(1).long()  # (texts,): where each text's padding begins
        order = ends.argsort(stable=True)
        # A text without tokens keeps one column.
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
    """Encodes a batch in the pieces that cost least: more pieces need less padding but more passes.

    The vectors equal those of the whole batch, except for dropout's draws. A batch stays whole on a
    GPU, where one padded pass is faster, and if its inputs do not have one row for each text.
    """

    def sizes(self, widths: Sequence[int]) -> list[int]:
        """The cheapest cut."""
        return cheapest(widths)

    def forward(self, features: dict[str, Any]) -> dict[str, Tensor]:
        """The features of texts to `sentence_embedding` (texts, dimension)."""
        mask = features.get("attention_mask")
        if mask is None or mask.ndim != 2 or mask.device.type != "cpu":
            return {"sentence_embedding": self.vectors(features)}
        # An outer region keeps the weights' casts to bf16 from piece to piece.
        with torch.autocast("cpu", enabled=False):
            return super().forward(features)


def cheapest(widths: Sequence[int]) -> list[int]:
    """Sizes of the pieces with the least total cost, in order; a piece costs its texts times its
    last width, plus one pass.

    widths: rising.
    """
    count = len(widths)
    # A cut between texts of equal width saves nothing.
    ends = [n for n in range(1, count + 1) if n == count or widths[n] != widths[n - 1]]
    # By end: the least cost up to there, and the start of the last piece.
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
    """The features of these rows, cut to this width."""
    texts, columns = features["attention_mask"].shape
    piece = {}
    for name, value in features.items():
        if isinstance(value, Tensor) and value.shape[:1] == (texts,):
            value = value[rows]
            value = value[:, :width] if value.shape[1:2] == (columns,) else value
        piece[name] = value
    return piece


# Drawn positives that are made at once.
_PIECE = 50_000

# One part's features of each of its texts, and its label.
Inputs = tuple[list[dict[str, Any]], Tensor | None]


def train_encoder(
    model: SentenceTransformer,
    hyper: Hyperparameters,
    parts: Sequence[PartRows],
    setting: Setting,
    mini_batch: int | None = None,
) -> Trained:
    """Trains the model in place, from the last checkpoint in the directory if there is one.

    Every batch holds rows of each part, by its share; its loss is the weighted sum of the parts'
    losses. mini_batch: texts encoded at once, with cached gradients; None: `LengthGroups` decides.
    Raises ValueError if rows lack a column that the part's loss needs, if the batch is too small
    for the parts, or if a part's positives equal its anchors and nothing changes their vectors.
    """
    losses = [loss_named(part.loss).with_params(part.params) for part in parts]
    feed = _Feed(model, hyper, parts, losses, setting.seed, setting.device)
    check_dropout(model, hyper, parts, losses)
    # For the initial weights of heads.
    torch.manual_seed(phase_seed(setting.seed, hyper.name))
    # A batch that fits into one mini-batch needs no second forward pass.
    cached = mini_batch is not None and mini_batch < hyper.batch_size
    in_pieces: Any = CachedEncoder(model, mini_batch or 0) if cached else LengthGroups(model)
    built = nn.ModuleList(
        loss.build(model if loss.states else in_pieces, part.params, part.slots)
        for loss, part in zip(losses, parts, strict=True)
    )

    def step(inputs: list[Inputs]) -> tuple[Tensor, dict[str, Tensor]]:
        total: Tensor | float = 0.0
        terms: dict[str, Tensor] = {}
        for part, loss, (features, labels) in zip(parts, built, inputs, strict=True):
            value = loss(features, labels)
            # Some losses of the library return their components.
            if isinstance(value, dict):
                value = torch.stack(list(value.values())).sum()
            total = total + part.weight * value
            part_terms = getattr(loss, "terms", {})
            if len(parts) > 1:
                part_terms = {f"{part.name}.{name}": term for name, term in part_terms.items()}
                part_terms[f"{part.name}.loss"] = value.detach()
            terms |= part_terms
        assert isinstance(total, Tensor)
        return total, terms

    loss_modules = {
        name if len(parts) == 1 else f"{part.name}.{name}": module.get_submodule(name)
        for part, loss, module in zip(parts, losses, built, strict=True)
        for name in loss.keeps
    }
    # Kept modules were trained with the encoder, so they are blended like it.
    whole = nn.ModuleList([model, *loss_modules.values()])
    with blended(whole, hyper.weight_interpolation), frozen(model, hyper.frozen_layers):
        log = train(nn.ModuleList([model, built]), feed, step, hyper, setting, network=model)
    steps = hyper.steps(len(feed))
    return Trained(log, feed.draws(steps), loss_modules, feed.drawn(steps))


def save_encoder(
    model: SentenceTransformer, directory: Path, loss_modules: Mapping[str, nn.Module] | None = None
) -> Path:
    """Writes the encoder as a SentenceTransformer directory of safetensors and JSON.

    loss_modules: modules of losses, written as NAME.safetensors in the folder `losses`.
    """
    encoders.save_encoder(model, directory)
    for name, module in (loss_modules or {}).items():
        (directory / "losses").mkdir(exist_ok=True)
        path = directory / "losses" / f"{name}.safetensors"
        checkpoints.write_tensors(path, checkpoints.weights(module))
    return directory


class _Feed:
    """The phase's batches, each with rows of every part."""

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
                # The name of a single part affects no draw.
                hyper.name if len(parts) == 1 else f"{hyper.name}.{part.name}",
            )
            for part, loss, size in zip(parts, losses, sizes, strict=True)
        ]

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, step: int) -> Batch:
        batches = [part.batch(step) for part in self._parts]
        return Batch(sum(rows for rows, _ in batches), [inputs for _, inputs in batches])

    def draws(self, steps: int) -> pa.Table | None:
        """The rows drawn from groups in this many steps, as `Trained` describes them."""
        tables = [part.draws(steps) for part in self._parts]
        return pa.concat_tables(table for table in tables if table) if any(tables) else None

    def drawn(self, steps: int) -> Iterator[pa.Table]:
        """The positives drawn in this many steps, as `Trained` describes them."""
        return chain.from_iterable(part.drawn(steps) for part in self._parts)


class _Part:
    """One part's batches. A round goes once through all rows, or all groups."""

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
        present = part.rows.column_names
        if missing := [c for c in (*loss.texts, *loss.labels) if c not in present]:
            raise ValueError(
                f"{name}: the loss {loss.name} needs the column {missing[0]}, which the rows lack: "
                "take another loss, or rows that have it"
            )
        self._features = loss.columns_of(present)
        self._texts = list(chain.from_iterable(self._features.values()))
        self._labels, self._sides = dict(loss.labels), part.sides
        group = ["group"] if "group" in present else []
        columns = ["row_id", *self._texts, *self._labels, *group]
        self._rows = part.rows.sort_by("row_id").select(columns).combine_chunks()
        self._name, self._seed, self._purpose = part.name, seed, f"batches of {name}"
        self._model, self._hyper = model, hyper
        self._longest = min(hyper.max_length, longest(model))
        for side in part.sides.values():
            check_room(model, side, self._longest)
        self._teacher = None
        if (teacher := part.teacher) is not None:
            # The teacher reads the texts of the batch (GCSE, figure 4), which training may have
            # changed, and no more tokens than the student.
            self._teacher = load_encoder(
                teacher.directory, teacher.pooling, self._longest, device, prompt=teacher.prompt
            )
        self._ids = self._rows["row_id"].to_numpy()
        self._groups = self._rows["group"].to_numpy() if group else None
        self._rounds = -(-part.count() // size)
        self._drawing = part.drawing
        # The seed differs from the recipe's, so that draws here differ from draws of rules with
        # that seed.
        self._draw_seed = seeding.text_id(str(seed), f"positives of {name}")
        self._windows = batching.LengthWindows(self._rows, self._texts, size, seed, self._purpose)
        self._round: tuple[int, list[list[int]]] = (-1, [])

    def batch(self, step: int) -> tuple[int, Inputs]:
        """The number of this part's rows in the step's batch, and the inputs of its loss."""
        number, place = divmod(step, self._rounds)
        if self._round[0] != number:
            self._round = (number, self._windows.round(number, self._drawn(number)))
        rows = self._rows.take(pa.array(self._round[1][place]))
        texts = {name: rows[name].to_pylist() for name in self._texts}
        if self._drawing is not None:
            texts["positive"] = self._positives(rows, number)["text"].to_pylist()
        if self._hyper.word_repetition is not None:
            repeated = REPETITIONS[self._hyper.word_repetition]
            words = words_of(rows["row_id"].to_numpy(), [text.split() for text in texts["anchor"]])
            anchors = sentences_of(repeated(words, self._seed, number))
            texts["anchor"] = [" ".join(anchor) for anchor in anchors]
        features = []
        for name, columns in self._features.items():
            # Rows may lack the text of an optional column, and a batch may have none at all.
            filled = [text for column in columns for text in texts[column] if text is not None]
            prompt = side_arguments(self._model, self._sides.get(name))
            if filled:
                features.append(self._model.preprocess(filled, **prompt, max_length=self._longest))
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
                # Shorter lists are padded with -1.
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
        """Each round of this many steps, with the numbers of its rows, sorted."""
        for number in range(-(-steps // self._rounds)):
            rows = self._drawn(number)
            left = steps - number * self._rounds
            if left < self._rounds:
                batches = self._windows.round(number, rows)[:left]
                rows = np.sort(np.array([row for batch in batches for row in batch]))
            yield number, np.arange(self._rows.num_rows) if rows is None else rows

    def drawn(self, steps: int) -> Iterator[pa.Table]:
        """The positives drawn in the rounds of this many steps."""
        if self._drawing is None:
            return
        for number, numbers in self._taken(steps):
            for start in range(0, len(numbers), _PIECE):
                rows = self._rows.take(pa.array(numbers[start : start + _PIECE]))
                columns = {
                    "epoch": pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows),
                    "part": pa.repeat(self._name, rows.num_rows),
                    "row_id": rows["row_id"],
                }
                positives = self._positives(rows, number)
                yield pa.table(
                    columns | dict(zip(positives.column_names, positives.columns, strict=True))
                )

    def draws(self, steps: int) -> pa.Table | None:
        """The row drawn from each group in the rounds of this many steps."""
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


def _teacher_cosines(
    model: SentenceTransformer, anchors: list[str], negatives: list[str]
) -> Tensor:
    """The cosine of each anchor with its negative (rows,), in [-1, 1], without dropout.

    In fp32, since bf16 moves cosines by up to 4e-3, and the decay's half-width may be 0.01.
    """
    vectors = torch.from_numpy(encode(model, [*anchors, *negatives]))
    return (vectors[: len(anchors)] * vectors[len(anchors) :]).sum(-1)


def check_dropout(
    model: nn.Module,
    hyper: Hyperparameters,
    parts: Iterable[PartRows],
    losses: Iterable[Loss],
) -> None:
    """Raises ValueError if all positives of a part would have their anchors' vectors."""
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
    """Whether dropout is active in training, as a module or as a module's attribute."""
    return any(
        isinstance(value, float) and value > 0 and _is_share(module, name)
        for module in model.modules()
        for name, value in vars(module).items()
    )


def _is_share(module: nn.Module, name: str) -> bool:
    return "drop" in name or (name == "p" and "Dropout" in type(module).__name__)


@contextmanager
def frozen(model: SentenceTransformer, layers: int) -> Iterator[None]:
    """Freezes the token embeddings and this many of the lowest layers; 0: none.

    The backward pass ends at the first layer that trains. Raises ValueError if no layer would be
    left to train.
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
    """Mixes this share of the weights before the block into the weights after it.

    A model between the two is often better than both (Wortsman et al. 2022, section 3, equation 1,
    where 1 - share is alpha). share: from 0 to 1.
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
    """The module of all embeddings; if the network has none, that of the tokens."""
    embeddings = getattr(network, "embeddings", None)
    return [embeddings if isinstance(embeddings, nn.Module) else network.get_input_embeddings()]


def _layers(network: nn.Module) -> nn.ModuleList:
    """The encoder's layers, lowest first: the first list of `num_hidden_layers` modules."""
    count = getattr(network.config, "num_hidden_layers", 0)
    lists = (m for m in network.modules() if isinstance(m, nn.ModuleList) and len(m) == count)
    layers = next(lists, None) if count else None
    if layers is None:
        raise ValueError(
            f"frozen_layers: {type(network).__name__} has no list of layers that could be frozen: "
            "leave frozen_layers out"
        )
    return layers


class CachedEncoder(EncoderInPieces):
    """An encoder with cached gradients (GradCache, Gao et al. 2021).

    A contrastive loss needs all vectors of a batch, but not the states behind them. The states are
    discarded and computed again, one mini-batch at a time, once the loss's gradient at the vectors
    is known. The gradient is the same; a step takes one more forward pass.

    mini_batch: texts encoded at once, >= 1, forwards and backwards. Texts of similar length are
        encoded together and have the same draws of dropout in both passes.
    """

    def __init__(self, model: SentenceTransformer, mini_batch: int) -> None:
        super().__init__(model)
        self.mini_batch = mini_batch

    def sizes(self, widths: Sequence[int]) -> list[int]:
        """Pieces of `mini_batch` texts, and a piece with the rest."""
        whole, rest = divmod(len(widths), self.mini_batch)
        return [self.mini_batch] * whole + ([rest] if rest else [])

    def vectors(self, features: dict[str, Any]) -> Tensor:
        """The vectors of a piece's texts, without the states behind them."""
        # `checkpoint` needs an input with a gradient.
        switch = torch.zeros((), device=features["attention_mask"].device, requires_grad=True)
        vectors: Tensor = checkpoint(self._encoded, switch, features, use_reentrant=True)
        return vectors

    def forward(self, features: dict[str, Any]) -> dict[str, Tensor]:
        """Features to `sentence_embedding` (texts, dimension).

        Raises: ValueError if the features do not have one row for each text.
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
