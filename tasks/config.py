"""Marks of a config's fields: fields that the compiler fills in, fields that only choose steps, and
conditions that a recipe must meet for a key to have an effect."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic.fields import FieldInfo
from pydantic.json_schema import SkipJsonSchema

from tercet.models.encoders.settings import PoolingMode
from tercet.models.machine import Precision
from tercet.tasks.stage import Config

T = TypeVar("T")


class Mark:
    """A mark of a field; marks are compared by identity."""


WIRED, STEERS = Mark(), Mark()
# A field that the compiler fills in from other keys: part of a step's version, no key of a recipe.
Wired: TypeAlias = Annotated[T, SkipJsonSchema(), WIRED]
# A field that chooses which steps exist, or that only other stages read: a step has its default.
Steers: TypeAlias = Annotated[T, STEERS]


# Facts that a recipe may lack, in the words that follow "no effect without".
FACTS: Mapping[str, str] = {
    "trains": "`train` or `whiten`",
    "starts": "`train`, `whiten` or `ingest.passages`",
    "judges": "`train`, `whiten` or a model that fit_pair makes",
    "sentences": "a corpus of role domain or general",
    "dev": "`ingest.dev` above 0",
    "evaluator": "an `evaluator`",
    "compares": "`guard.encoder` or an `evaluator`",
    "topical": "a method that writes texts on the topic, such as rest_of_paragraph",
    "similarity": "a scorer that gives cosines, such as an `evaluator`",
    "p_true": "a scorer that judges roles, `score.pair` or `score.gense`",
    "rank": "`score.round_trip`, which ranks passages",
    "rank_max": "`select.rank_max`",
    "generators": "`generators`",
}


@dataclass(frozen=True)
class Need:
    """A fact that must hold for a recipe, or a key has no effect.

    fact: one of FACTS. values: the key's values that need the fact; empty: all but `instead`.
    instead: the key's value if the fact does not hold; `...`: its default.
    """

    fact: str
    values: tuple[Any, ...] = ()
    instead: Any = ...

    @property
    def words(self) -> str:
        """The end of the key's description."""
        values = "".join(f"`{value}`: " for value in self.values)
        return f"{values}no effect without {FACTS[self.fact]}"


class WiredForm(Config):
    """How texts become vectors: fields that the compiler fills in from other keys of the recipe."""

    pooling: Wired[PoolingMode | None] = None
    prompt: Wired[str | None] = None
    precision: Wired[Precision] = "fp32"
    trust_remote_code: Wired[bool] = False


def marked(config: Config | type[Config], mark: Mark) -> list[str]:
    """The names of the fields with this mark."""
    kind = config if isinstance(config, type) else type(config)
    return [name for name, field in kind.model_fields.items() if mark in field.metadata]


def needs_of(field: FieldInfo) -> list[Need]:
    """The facts that must hold for a key to have an effect."""
    return [mark for mark in field.metadata if isinstance(mark, Need)]


def description_of(field: FieldInfo) -> str:
    """The meaning of a key, and the facts without which it has no effect."""
    needs = "; ".join(need.words for need in needs_of(field))
    return f"{field.description} ({needs})" if needs else str(field.description)
