"""The methods that make candidates, by name, each in a module of its family."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tercet.models.generation import Method
from tercet.models.prompted import (
    antisense,
    from_knowledge,
    inference,
    paraphrase,
    revisions,
    rewrites,
)
from tercet.models.rules import (
    antonym,
    entity_swap,
    negation,
    noise,
    number_form,
    paragraphs,
    quantity_change,
    random_sentence,
    synonym,
    telegram,
)

UNVERSIONED = True

_RULES = (
    *(paragraphs, noise, telegram, synonym, number_form),
    *(entity_swap, quantity_change, antonym, negation, random_sentence),
)
_PROMPTED = (paraphrase, inference, rewrites, from_knowledge, antisense, revisions)
METHODS: Mapping[str, Method] = {
    name: method for module in (*_RULES, *_PROMPTED) for name, method in module.METHODS.items()
}
METHOD_NAMES = tuple(METHODS)
# Methods whose texts the recipe's language model or a fitted generator writes.
PROMPTED_NAMES = tuple(name for name, method in METHODS.items() if method.prompt is not None)
RULE_NAMES = tuple(name for name in METHODS if name not in PROMPTED_NAMES)


def method_of(name: str) -> Method:
    """The method of that name. Raises ValueError if there is none."""
    if name not in METHODS:
        known = ", ".join(METHOD_NAMES)
        raise ValueError(f"there is no method {name!r} to synthesise with; known: {known}")
    return METHODS[name]


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
