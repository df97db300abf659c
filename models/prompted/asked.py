"""What prompted methods hand over, rows of `ASKED`, and what asks about every sentence."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

import pyarrow as pa
from pydantic import Field

from tercet.models.generation import ASKED, DETAIL, Generate, MethodInput, Prompted

Edit: TypeAlias = Literal["minimal", "rewrite"]


class Edited(Prompted):
    """Parameters of a method that changes one thing of a sentence."""

    edit: Edit = Field(
        "minimal",
        description="minimal: change that and nothing else; rewrite (GCSE, table 6): change it and "
        "put the whole sentence in other words",
    )


@dataclass(frozen=True)
class PromptRequest:
    """One thing to ask about one sentence.

    values: the prompt's variables. detail: what is changed, by the fields of `DETAIL`; those that
    it leaves out are none.
    """

    sentence_id: int
    values: Mapping[str, Any]
    detail: Mapping[str, Any] = field(default_factory=dict)


def table(requests: Iterable[PromptRequest]) -> pa.Table:
    """The rows as a table of `ASKED`, in their order."""
    ids, values, details = [], [], []
    for request in requests:
        ids.append(request.sentence_id)
        values.append(json.dumps(request.values, ensure_ascii=False))
        details.append(request.detail)
    columns = [pa.array(ids, pa.uint64()), pa.array(values, pa.string()), pa.array(details, DETAIL)]
    return pa.table(columns, schema=ASKED)


def each_sentence(operation: str, *own: str) -> Generate:
    """Asks about every sentence, or every passage with an anchor in it, `per_unit` times.

    own: the method's parameters that its prompt may name beside the sentence.
    """
    return partial(_ask_each, operation, own)


def _ask_each(
    operation: str, own: Sequence[str], given: MethodInput, params: Prompted, seed: int
) -> pa.Table:
    values = {name: getattr(params, name) for name in own}
    units: Iterable[tuple[int, str]] = zip(given.ids().tolist(), given.texts(), strict=True)
    if params.unit == "passage":
        units = given.passages()
    return table(
        PromptRequest(sentence_id, {params.unit: text, **values}, {"operation": operation})
        for sentence_id, text in units
        for _ in range(params.per_unit)
    )
