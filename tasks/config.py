"""Marks of a config's fields: what the compiler fills in, what only chooses steps, and what must
hold of a recipe for a key to have an effect."""

from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel
from pydantic.json_schema import SkipJsonSchema

from tercet.models.encoders.settings import PoolingMode
from tercet.models.machine import Precision
from tercet.tasks.stage import Config

T = TypeVar("T")
C = TypeVar("C", bound=BaseModel)


class Mark:
    """A mark of a field, told from others by identity."""


WIRED, STEERS = Mark(), Mark()
# The compiler fills it in from other keys: part of a step's version, and no key of a recipe.
Wired: TypeAlias = Annotated[T, SkipJsonSchema(), WIRED]
# It chooses which steps there are, or is read by others than its stage: a step has its default.
Steers: TypeAlias = Annotated[T, STEERS]


class WiredForm(Config):
    """How texts become vectors where another key of the recipe says so."""

    pooling: Wired[PoolingMode | None] = None
    prompt: Wired[str | None] = None
    precision: Wired[Precision] = "fp32"
    trust_remote_code: Wired[bool] = False


def marked(config: BaseModel | type[BaseModel], mark: Mark) -> list[str]:
    """The names of the fields with this mark."""
    kind = config if isinstance(config, type) else type(config)
    return [name for name, field in kind.model_fields.items() if mark in field.metadata]


def compiled(config: C, **wired: Any) -> C:
    """The config of a step: with the facts that the recipe has elsewhere, which replace its own
    values, and with the defaults of keys that only choose steps."""
    fields = type(config).model_fields
    assert wired.keys() <= fields.keys()
    own = {
        name: fields[name].get_default(call_default_factory=True) for name in marked(config, STEERS)
    }
    return config.model_copy(update=own | wired)
