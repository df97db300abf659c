"""A loss as data: its parameters, the columns that it reads, and the name of what computes it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    """Base of every loss's hyperparameters: unknown keys are an error, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Loss:
    """A loss of sentence-transformers' form: `forward(sentence_features, labels)`.

    name: what a recipe calls it, the same as in the registry.
    params: its own hyperparameters.
    code: `module:name` of a class or function that makes the loss's torch module from the encoder,
        the hyperparameters and the directory of each slot; imported by a training alone. The torch
        module may have an attribute `terms`, a dictionary of detached scalar tensors that its last
        forward pass set: the log keeps their means. NaN stands for a term that the batch has no
        number for.
    texts: the columns that the rows must have, in the order of `sentence_features`.
    optional: columns that follow them where the rows have them. Rows of a batch that lack such a
        text are left out of its features, which are then fewer than the anchors; rows with several
        (`negative`, `negative_2` and so on) make them more.
    labels: the label's column and type, at most one. A missing float reaches the loss as NaN; lists
        reach it as rows that are filled up with -1.
    slots: model inputs by name, whose directories `code` gets.
    may_read: further model inputs, which may be left out.
    terms: the names of what the module reports.
    keeps: the module's submodules that are saved beside the encoder.
    states: whether it reads more than the encoder's vectors: it then sees the encoder itself, whole
        batches at a time, where others see one that encodes texts in pieces.
    around: names of the losses that it is built around, whose code it depends on.
    module: of an installed package's: the module that its entry point names, whose code is part of
        the versions that use it, with all that it imports of its package.
    resolve: returns the loss as these hyperparameters leave it, where its columns, slots or terms
        depend on them.
    """

    name: str
    params: type[Params]
    code: str
    texts: tuple[str, ...] = ("anchor", "positive")
    optional: tuple[str, ...] = ("negative",)
    labels: Mapping[str, pa.DataType] = field(default_factory=dict)
    slots: tuple[str, ...] = ()
    may_read: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    states: bool = False
    around: tuple[str, ...] = ()
    resolve: "Callable[[Loss, Any], Loss] | None" = None
    module: str = ""

    def columns_of(self, columns: Sequence[str]) -> dict[str, list[str]]:
        """Of these columns, those that each of its features is made of, in the features' order."""
        matches = {name: [name] for name in self.texts}
        for name in self.optional:
            numbered = [column for column in columns if re.fullmatch(rf"{name}(_\d+)?", column)]
            matches |= {name: numbered} if numbered else {}
        return matches

    def with_params(self, params: Params) -> "Loss":
        """The loss as it is with these hyperparameters."""
        return self if self.resolve is None else self.resolve(self, params)

    def build(self, model: Any, params: Params, slots: Mapping[str, Path]) -> Any:
        """The torch module around an encoder.

        Raises: ValueError with one sentence where the encoder or a slot's files do not suit it.
        """
        return resolve_name(self.code)(model, params, slots)
