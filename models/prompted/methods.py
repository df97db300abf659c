"""The prompted methods: what each asks for, of what, and what its answers are checked for.

A recipe defines further ones with the same words (`synthesise.NAME.prompt`). Prompts are in
`prompts`, in our own words.
"""

from collections.abc import Sequence

from pydantic import Field

from tercet.models.generation import Check, Method, Prompted, Relation, methods, purpose_of
from tercet.models.prompted import asked
from tercet.models.prompted.asked import Edited, each_sentence
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
from tercet.models.rules.entity_swap import open_graph

# What a line declares is part of the version of the steps that use it, and no other line is.
UNVERSIONED = True


class Preceding(Prompted):
    """Parameters of `precede`."""

    max_words: int = Field(20, ge=1, le=200, description="words of what precedes, at most")


def of_sentence(
    name: str,
    relation: Relation,
    operation: str | None = None,
    params: type[Prompted] = Prompted,
    own: Sequence[str] = (),
    checks: Sequence[Check] = (),
) -> Method:
    """A method that asks about every sentence. own: its parameters that the prompt may name."""
    generate = each_sentence(operation or name, *own)
    variables = ("sentence", *own)
    purpose = purpose_of(relation)
    return Method(
        name, purpose, relation, generate, params, prompt=name, variables=variables, checks=checks
    )


METHODS = methods(
    of_sentence("paraphrase", "keeps", checks=("whole_source",)),
    # What follows from a sentence, and below what contradicts it (GenSE): the words of NLI.
    of_sentence("entailment", "keeps", "entail"),
    # GCSE, rewritings 1 to 3.
    of_sentence("rewrite", "keeps", checks=("whole_source",)),
    of_sentence("precede", "topic", params=Preceding, own=("max_words",), checks=("whole_source",)),
    Method(
        *("from_knowledge", "positive", "keeps", from_knowledge, Prompted),
        needs=("mentions", "sentence_categories"),
        prompt="from_knowledge",
        variables=RECORD,
    ),
    Method(
        *("question", "positive", "topic", asked.question, asked.Question),
        prompt="question",
        variables=asked.VARIABLES,
        optional=asked.OPTIONAL,
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
