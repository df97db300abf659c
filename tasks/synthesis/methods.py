"""The methods that make candidates, by name, each in a module of its family.

Which module a name stands for is in `Stage.modules` of the steps that use it. This list itself
is left out of their code, so a new line reruns nothing.
"""

import importlib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tercet.models.generation import Method

_RULES = "tercet.models.rules"
_PROMPTED = "tercet.models.prompted"
# Rules, then prompted methods; of each, positives before negatives.
GENERATORS: Mapping[str, str] = {
    "next_sentences": f"{_RULES}.paragraphs",
    "rest_of_paragraph": f"{_RULES}.paragraphs",
    "neighbour_paragraph": f"{_RULES}.paragraphs",
    "word_repetition": f"{_RULES}.noise",
    "cutoff": f"{_RULES}.noise",
    "telegram": f"{_RULES}.telegram",
    "word_shuffle": f"{_RULES}.noise",
    "synonym": f"{_RULES}.synonym",
    "number_form": f"{_RULES}.number_form",
    "entity_swap": f"{_RULES}.entity_swap",
    "quantity_change": f"{_RULES}.quantity_change",
    "antonym": f"{_RULES}.antonym",
    "negation": f"{_RULES}.negation",
    "random": f"{_RULES}.random_sentence",
    "paraphrase": f"{_PROMPTED}.paraphrase",
    "entailment": f"{_PROMPTED}.inference",
    "rewrite": f"{_PROMPTED}.rewrites",
    "precede": f"{_PROMPTED}.rewrites",
    "from_knowledge": f"{_PROMPTED}.from_knowledge",
    "contradiction": f"{_PROMPTED}.inference",
    "antisense": f"{_PROMPTED}.antisense",
    "entity_revision": f"{_PROMPTED}.revisions",
    "quantity_revision": f"{_PROMPTED}.revisions",
    "from_changed_knowledge": f"{_PROMPTED}.from_knowledge",
}
METHOD_NAMES = tuple(GENERATORS)
# Methods whose texts the recipe's language model or a fitted generator writes.
PROMPTED_NAMES = tuple(name for name, module in GENERATORS.items() if module.startswith(_PROMPTED))
RULE_NAMES = tuple(name for name in GENERATORS if name not in PROMPTED_NAMES)


def module_of(name: str) -> str:
    """The module that has the method of that name. Raises ValueError if there is none."""
    if name not in GENERATORS:
        known = ", ".join(METHOD_NAMES)
        raise ValueError(f"there is no method {name!r} to synthesise with; known: {known}")
    return GENERATORS[name]


def method_of(name: str) -> Method:
    """The method of that name. Raises ValueError if there is none."""
    found: Mapping[str, Method] = importlib.import_module(module_of(name)).METHODS
    return found[name]


def needs(name: str) -> tuple[str, ...]:
    """What the method reads beside the sentences (`generation.Need`)."""
    return tuple(method_of(name).needs)


def check_params(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The method's parameters with its defaults filled in.

    Raises: ValueError with a sentence for each wrong parameter, naming the method.
    """
    kind = method_of(name).params
    try:
        return kind.model_validate(dict(params)).model_dump()
    except ValidationError as error:
        known = ", ".join(kind.model_fields) or "none"
        faults = [
            f"{name}: parameter {'.'.join(map(str, e['loc'])) or 'params'}: {e['msg']}"
            for e in error.errors()
        ]
        raise ValueError(f"{'; '.join(faults)} (the method's parameters: {known})") from None
