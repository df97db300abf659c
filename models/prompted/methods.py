"""The prompted methods: their prompts, variables and checks.

A recipe can define further methods (`synthesise.NAME.prompt`). Prompt files are in `prompts`. The
answers of worked examples must pass the checks of their method.
"""

from collections.abc import Sequence

import pyarrow as pa
from pydantic import Field

from tercet.models.errors import Unusable
from tercet.models.generation import Check, Method, Prompted, Relation, methods, purpose_of
from tercet.models.prompted import prompt_requests
from tercet.models.prompted.checks import faults, unwrapped
from tercet.models.prompted.from_knowledge import (
    RECORD,
    ChangedRecord,
    EntityRevision,
    QuantityRevision,
    entity_revision,
    from_changed_knowledge,
    from_knowledge,
    quantity_revision,
)
from tercet.models.prompted.prompt_requests import Edited, each_sentence
from tercet.models.prompted.templates import Example
from tercet.models.rules.entity_swap import open_graph
from tercet.models.text.passages import passage_text

# A step's version covers the methods that it uses, not this module; `check_shots` makes no rows.
UNVERSIONED = True


class Preceding(Prompted):
    """Parameters of `precede`."""

    max_words: int = Field(20, ge=1, le=200, description="words of what precedes, at most")


def of_sentence(
    name: str,
    relation: Relation,
    operation: str | None = None,
    params: type[Prompted] = Prompted,
    parameters: Sequence[str] = (),
    checks: Sequence[Check] = (),
) -> Method:
    """A method that asks about every sentence. parameters: parameters that the prompt may name."""
    generate = each_sentence(operation or name, *parameters)
    variables = ("sentence", *parameters)
    purpose = purpose_of(relation)
    return Method(
        name, purpose, relation, generate, params, prompt=name, variables=variables, checks=checks
    )


METHODS = methods(
    of_sentence("paraphrase", "keeps", checks=("whole_source",)),
    # GenSE; its contradictions are below.
    of_sentence("entailment", "keeps", "entail"),
    # GCSE, rewritings 1 to 3.
    of_sentence("rewrite", "keeps", checks=("whole_source",)),
    of_sentence(
        "precede", "topic", params=Preceding, parameters=("max_words",), checks=("whole_source",)
    ),
    Method(
        *("from_knowledge", "positive", "keeps", from_knowledge, Prompted),
        needs=("mentions", "sentence_categories"),
        prompt="from_knowledge",
        variables=RECORD,
    ),
    Method(
        *("question", "positive", "topic", prompt_requests.question, prompt_requests.Question),
        prompt="question",
        variables=prompt_requests.VARIABLES,
        optional=prompt_requests.OPTIONAL,
        checks=("query",),
        unit="passage",
        as_anchor=True,
        each="passages",
    ),
    of_sentence("contradiction", "alters", "contradict"),
    # GCSE, table 6.
    of_sentence("antisense", "alters", "contradict", Edited, ("edit",)),
    Method(
        *("entity_revision", "negative", "alters", entity_revision, EntityRevision),
        needs=("mentions", "graph"),
        open_graph=open_graph,
        prompt="entity_revision",
        variables=("sentence", "old", "new", "type", "edit"),
        checks=("new_entity",),
    ),
    Method(
        *("quantity_revision", "negative", "alters", quantity_revision, QuantityRevision),
        needs=("mentions",),
        prompt="quantity_revision",
        variables=("sentence", "old", "new", "counted", "unit", "edit"),
        checks=("new_number",),
    ),
    Method(
        *("from_changed_knowledge", "negative", "alters", from_changed_knowledge, ChangedRecord),
        needs=("mentions", "sentence_categories", "graph"),
        open_graph=open_graph,
        prompt="from_knowledge",
        variables=(*RECORD, "old", "new"),
        checks=("new_record",),
    ),
)


def check_shots(examples: Sequence[Example], checks: Sequence[Check]) -> None:
    """Raises Unusable for the first example whose answer `parse` would reject."""
    rows = [
        {
            "source": _text(example, "sentence")
            or passage_text(_text(example, "context") or "", _text(example, "passage") or ""),
            "prompt": example.shot.prompt,
            "shots": [],
            "checks": checks,
            "operation": _text(example, "kind"),
            "old": _text(example, "old"),
            "new": _text(example, "new"),
            # In a changed record, an entity has a pool, and a number has none.
            "pool": "T_r" if _text(example, "new") in _entities(example) else None,
        }
        for example in examples
    ]
    table = pa.Table.from_pylist(rows, _SCHEMA)
    raws = pa.chunked_array([pa.array([example.shot.answer for example in examples], pa.string())])
    texts, unclosed, damaged = unwrapped(raws, table["source"])
    outcomes = faults(table.append_column("text", texts), unclosed, damaged)
    for example, fault in zip(examples, outcomes, strict=True):
        if fault is not None:
            reason, because = fault
            raise Unusable(
                "bad_row",
                f"{example.place}: parse would refuse this ({reason}: {because}): correct it",
            )


def _text(example: Example, name: str) -> str | None:
    """The value of a variable as text; None if the example does not have it."""
    value = example.values.get(name)
    return None if value is None else str(value)


def _entities(example: Example) -> list[object]:
    listed = example.values.get("entities")
    entities = listed if isinstance(listed, list) else []
    return [entity.get("text") for entity in entities if isinstance(entity, dict)]


_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("source", "prompt", "operation", "old", "new", "pool")),
        *((name, pa.list_(pa.string())) for name in ("shots", "checks")),
    ]
)
