"""Requests of prompted methods (table `ASKED`), and methods that ask about every sentence."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

import pyarrow as pa
from pydantic import BeforeValidator, Field

from tercet.models import seeding
from tercet.models.generation import ASKED, DETAIL, Generate, MethodInput, Prompted

Edit: TypeAlias = Literal["minimal", "rewrite"]


class Edited(Prompted):
    """Parameters of a method that makes one change to a sentence."""

    edit: Edit = Field(
        "minimal",
        description="minimal: change that and nothing else; rewrite (GCSE, table 6): change it and "
        "put the whole sentence in other words",
    )


@dataclass(frozen=True)
class PromptRequest:
    """One request about one sentence.

    values: the prompt's variables. detail: the change, by fields of `DETAIL`; missing fields are
    null.
    """

    sentence_id: int
    values: Mapping[str, Any]
    detail: Mapping[str, Any] = field(default_factory=dict)


def table(requests: Iterable[PromptRequest]) -> pa.Table:
    """The requests in order, as a table of `ASKED`."""
    ids, values, details = [], [], []
    for request in requests:
        ids.append(request.sentence_id)
        values.append(json.dumps(request.values, ensure_ascii=False))
        details.append(request.detail)
    columns = [pa.array(ids, pa.uint64()), pa.array(values, pa.string()), pa.array(details, DETAIL)]
    return pa.table(columns, schema=ASKED)


def each_sentence(operation: str, *variables: str) -> Generate:
    """A `generate` that asks `per_unit` times about every sentence, or paragraph with an anchor.

    variables: parameters of the method that its prompt may name, in addition to the sentence.
    """
    return partial(_ask_each, operation, variables)


def _ask_each(
    operation: str, variables: Sequence[str], inputs: MethodInput, params: Prompted, seed: int
) -> pa.Table:
    values = {name: getattr(params, name) for name in variables}
    units: Iterable[tuple[int, str]] = zip(inputs.ids().tolist(), inputs.texts(), strict=True)
    if params.unit == "passage":
        units = inputs.passages()
    return table(
        PromptRequest(sentence_id, {params.unit: text, **values}, {"operation": operation})
        for sentence_id, text in units
        for _ in range(params.per_unit)
    )


QueryKind: TypeAlias = Literal["keyword", "question", "claim"]
# Variables of the prompt, and variables that a worked example may leave out.
VARIABLES, OPTIONAL = ("passage", "context", "kind"), ("context",)


def _as_tuple(content: Any) -> Any:
    return (content,) if isinstance(content, str) else content


class Question(Prompted):
    """Parameters of `question`."""

    kinds: Annotated[tuple[QueryKind, ...], BeforeValidator(_as_tuple)] = Field(
        ("question",),
        min_length=1,
        description="Kinds of query, one or several: keyword (the words of a search), question, "
        "claim (a sentence that the passage bears out)",
    )


def question(inputs: MethodInput, params: Question, seed: int) -> pa.Table:
    """Asks `per_unit` times about every passage; several kinds alternate, the first is drawn."""
    ids = inputs.ids()
    firsts = seeding.draws(seed, "question.kind", ids) % len(params.kinds)
    contexts = inputs.sentences["context"].take(pa.array(inputs.anchors)).to_pylist()
    rows = zip(ids.tolist(), inputs.texts(), contexts, firsts.tolist(), strict=True)
    return table(
        PromptRequest(
            passage_id, {"passage": text, "context": context, "kind": kind}, {"operation": kind}
        )
        for passage_id, text, context, first in rows
        for number in range(params.per_unit)
        for kind in [params.kinds[(first + number) % len(params.kinds)]]
    )
