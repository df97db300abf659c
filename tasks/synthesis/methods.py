"""The methods that make candidates, by name, and a recipe's settings of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from tercet.errors import InvalidSetting
from tercet.models.errors import suggest
from tercet.models.generation import Method, purpose_of
from tercet.models.generators.settings import Decoding
from tercet.models.llm.settings import LlmSettings
from tercet.models.machine import Precision
from tercet.models.plugins import with_installed
from tercet.models.prompted import methods as prompted
from tercet.models.rules import (
    antonym,
    entity_swap,
    headings,
    negation,
    noise,
    number_form,
    paragraphs,
    quantity_change,
    random_sentence,
    telegram,
    word_exchange,
)
from tercet.tasks.config import Steers, Wired
from tercet.tasks.stage import Config

UNVERSIONED = True

_RULES = (
    *(paragraphs, headings, noise, telegram, word_exchange, number_form),
    *(entity_swap, quantity_change, antonym, negation, random_sentence),
)
METHODS: Mapping[str, Method] = with_installed(
    "tercet.methods",
    [method for module in (*_RULES, prompted) for method in module.METHODS.values()],
)
METHOD_NAMES = tuple(METHODS)
# Methods whose texts the recipe's language model or a fitted generator writes.
PROMPTED_NAMES = tuple(name for name, method in METHODS.items() if method.prompted)
RULE_NAMES = tuple(name for name in METHODS if name not in PROMPTED_NAMES)


class SynthesiseConfig(Config):
    """A method's settings in a recipe; in a step, with all parameters filled in.

    passages: how many passages a method over passages reads; null: all. llm: the model that it
    asks. decoding, precision: of the generator that answers instead. language: for a method that
    reads mentions, that of the pipeline that found them.
    """

    weight: float = Field(
        1.0, gt=0, le=1, description="Share of the anchors that the method is tried on"
    )
    corpora: tuple[str, ...] = Field((), description="Only anchors of these corpora")
    role: Steers[Literal["domain", "general"] | None] = Field(
        None, description="Anchors of the corpora with this role, instead of `corpora`"
    )
    params: dict[str, Any] = Field(
        default_factory=dict,
        description="The method's own parameters; they may also be written beside `weight`",
    )
    method: Wired[str] = ""
    passages: Wired[int | None] = None
    llm: Wired[LlmSettings | None] = None
    decoding: Wired[Decoding | None] = None
    precision: Wired[Precision] = "fp32"
    language: Wired[str | None] = None

    @model_validator(mode="after")
    def _one_choice(self) -> "SynthesiseConfig":
        if self.corpora and self.role is not None:
            raise InvalidSetting("conflict", "give corpora or role, but not both")
        return self

    @model_validator(mode="after")
    def _filled(self) -> "SynthesiseConfig":
        if self.method:
            # In place: the config is frozen.
            self.params.update(check_params(self.method, self))
        return self

    @property
    def described(self) -> Method:
        """The method."""
        return method_of(self.method, self)

    @property
    def generator(self) -> str | None:
        """The name of the generator that answers; None for a rule and for the language model."""
        return None if self.decoding is None else str(self.params["generator"])


def method_of(name: str, settings: SynthesiseConfig | None = None) -> Method:
    """The method of that name, as these settings change it.

    It is one of `METHODS`, or a new method with its own prompt, which asks about every sentence.
    Raises ValueError if it is neither.
    """
    params = settings.params if settings else {}
    if name in METHODS:
        base = METHODS[name]
    elif not params.get("prompt"):
        raise ValueError(unknown(name))
    elif params.get("relation") is None:
        raise ValueError(
            f"{name} needs a relation, which says what its texts do to the meaning: keeps or topic "
            "for positives, alters or other for negatives"
        )
    else:
        base = prompted.of_sentence(name, params["relation"])
    if not base.prompted:
        return base
    if base.each == "passages":
        fixed = ("relation", "unit", "as_anchor")
        if fixed_keys := [
            key for key in fixed if params.get(key) not in (None, getattr(base, key))
        ]:
            raise ValueError(
                f"{name} writes queries, each the anchor of its passage: leave {fixed_keys[0]} out"
            )
    relation = params.get("relation") or base.relation
    checks, unit = params.get("checks"), params.get("unit", base.unit)
    as_anchor = params.get("as_anchor", base.as_anchor)
    if (unit == "passage" or as_anchor) and relation != "topic":
        key = "unit: passage" if unit == "passage" else "as_anchor"
        raise ValueError(f"{key} makes texts that are about another text, so set relation: topic")
    if unit != base.unit and base.needs:
        raise ValueError(f"{name} draws from what a sentence mentions: leave unit: passage out")
    return replace(
        base,
        relation=relation,
        purpose=purpose_of(relation),
        checks=base.checks if checks is None else tuple(checks),
        unit=unit,
        as_anchor=as_anchor,
        variables=tuple(unit if name == base.unit else name for name in base.variables),
    )


def unknown(name: str) -> str:
    """The error for a name that no method has."""
    names = ", ".join(sorted(METHOD_NAMES))
    return (
        f"unknown method {name!r}{suggest(name, METHOD_NAMES)}; known: {names}; one of your "
        f"own needs a prompt file ({name}: {{prompt: FILE, relation: keeps}})"
    )


def check_params(name: str, settings: SynthesiseConfig) -> dict[str, Any]:
    """The method's parameters with its defaults filled in.

    Raises: ValueError with a sentence for each wrong parameter, naming the method.
    """
    method = method_of(name, settings)
    try:
        params = method.params.model_validate(settings.params).model_dump(mode="json")
    except ValidationError as error:
        parameters = ", ".join(method.params.model_fields) or "none"
        faults = [
            f"{name}: parameter {'.'.join(map(str, e['loc'])) or 'params'}: {e['msg']}"
            for e in error.errors()
        ]
        raise ValueError(f"{'; '.join(faults)} (the method's parameters: {parameters})") from None
    if method.prompted:
        params |= {"relation": method.relation, "checks": list(method.checks)}
        params |= {"unit": method.unit, "as_anchor": method.as_anchor}
    return params
