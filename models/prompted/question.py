"""Queries that a language model writes to a passage, as those who search would ask for it."""

from typing import Annotated, Any, Literal, TypeAlias

import pyarrow as pa
from pydantic import BeforeValidator, Field

from tercet.models import seeding
from tercet.models.generation import MethodInput, Prompted
from tercet.models.prompted.asked import PromptRequest, table

QueryKind: TypeAlias = Literal["keyword", "question", "claim"]
# What the prompt may name, and of that what a worked example may leave out.
VARIABLES, OPTIONAL = ("passage", "context", "kind"), ("context",)


def _bare_kind(content: Any) -> Any:
    return (content,) if isinstance(content, str) else content


class Question(Prompted):
    """Parameters of `question`."""

    kinds: Annotated[tuple[QueryKind, ...], BeforeValidator(_bare_kind)] = Field(
        ("question",),
        min_length=1,
        description="Kinds of query, one or several: keyword (the words of a search), question, "
        "claim (a sentence that the passage bears out)",
    )


def question(given: MethodInput, params: Question, seed: int) -> pa.Table:
    """Asks about every passage, `per_unit` times; of several kinds in turn from a drawn one on."""
    ids = given.ids()
    firsts = seeding.draws(seed, "question.kind", ids) % len(params.kinds)
    contexts = given.sentences["context"].take(pa.array(given.anchors)).to_pylist()
    rows = zip(ids.tolist(), given.texts(), contexts, firsts.tolist(), strict=True)
    return table(
        PromptRequest(
            passage_id, {"passage": text, "context": context, "kind": kind}, {"operation": kind}
        )
        for passage_id, text, context, first in rows
        for number in range(params.per_unit)
        for kind in [params.kinds[(first + number) % len(params.kinds)]]
    )
