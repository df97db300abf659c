"""Declaration of a loss: its hyperparameters, its columns, and the import path of its module."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pyarrow as pa

from tercet.models.config import Config


@dataclass(frozen=True)
class Loss:
    """A loss in the form of sentence-transformers: `forward(sentence_features, labels)`.

    name: its name in recipes and in the registry.
    params: class of its hyperparameters.
    code: `module:name` of a class or function that makes the torch module from the encoder, the
        hyperparameters and the directory of each slot; imported by training only. The torch module
        may have an attribute `terms`, a dictionary of detached scalar tensors that its last forward
        pass set; the log has their means. NaN: the term is undefined for the batch.
    texts: required columns, in the order of `sentence_features`.
    optional: columns that follow them if the rows have them. Rows without such a text are left out
        of its features, which then have fewer rows than the anchors; rows with several (`negative`,
        `negative_2` and so on) give more rows.
    labels: column and type of the label, at most one. A missing float becomes NaN; lists are padded
        with -1.
    slots: names of required model inputs, whose directories `code` gets.
    may_read: names of optional model inputs.
    terms: names of the module's `terms`.
    keeps: submodules that are saved beside the encoder.
    states: whether it reads more than the encoder's vectors. It then gets the encoder itself and
        whole batches; other losses get an encoder that may encode a batch in pieces.
    around: names of the losses inside it, whose code it depends on.
    module: for a loss of an installed package, the module that the entry point names. Its code,
        with all that it imports from its package, is part of the versions that use the loss.
    resolve: returns the loss for given hyperparameters, if its columns, slots or terms depend on
        them.
    """

    name: str
    params: type[Config]
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
        """The columns that make each feature, in the order of the features."""
        matches = {name: [name] for name in self.texts}
        for name in self.optional:
            numbered = [column for column in columns if re.fullmatch(rf"{name}(_\d+)?", column)]
            matches |= {name: numbered} if numbered else {}
        return matches

    def with_params(self, params: Config) -> "Loss":
        """The loss resolved for these hyperparameters."""
        return self if self.resolve is None else self.resolve(self, params)

    def build(self, model: Any, params: Config, slots: Mapping[str, Path]) -> Any:
        """Builds the torch module around an encoder.

        Raises: ValueError with one sentence if the encoder or the files of a slot do not fit.
        """
        return resolve_name(self.code)(model, params, slots)
