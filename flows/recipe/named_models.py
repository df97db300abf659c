"""`models:` of a recipe: models that it makes or takes, each under a name of its own."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from tercet.models.weights import PACKAGE_PREFIX
from tercet.storage.runs import TAG_PREFIX
from tercet.tasks.stage import Config
from tercet.tasks.training.count_tokens import CountTokensSettings
from tercet.tasks.training.fit_generator import FitGeneratorSettings
from tercet.tasks.training.fit_gense import FitGenseSettings
from tercet.tasks.training.fit_pair import FitPairSettings
from tercet.tasks.training.pretrain import PretrainSettings

# Where a phase names its backbone, these have a meaning already.
_TAKEN = re.compile(r"base|encoder|previous|evaluator|seed\d+")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# A name of the hub that is this close to one of `models:` is taken for a slip.
_ALIKE = 0.8
# A name of the hub holds no colon.
_PREFIXES = (PACKAGE_PREFIX, TAG_PREFIX)

Fault = tuple[str, tuple[str, ...]]
# GenSE's settings are a stage of their own, so that the other forms do not depend on them.
Generators = Annotated[FitGeneratorSettings | FitGenseSettings, Field(discriminator="form")]


class ModelSettings(Config):
    """A model that the recipe takes, or the one stage that makes it.

    A new maker is one more field: its settings, whose `models()` gives the models that it reads,
    and its step in `tercet.flows.pipeline.making`.
    """

    take: str | None = Field(
        None,
        min_length=1,
        description="A model that exists or that has another name here; a string alone means this.",
    )
    pretrain: PretrainSettings | None = Field(
        None, description="Language-model training on a corpus."
    )
    fit_generator: Generators | None = Field(
        None, description="A model that writes sentences, fitted to labelled ones."
    )
    fit_pair: FitPairSettings | None = Field(
        None,
        description="A discriminator on the evaluator's vectors: does one text follow from "
        "another?",
    )
    count_tokens: CountTokensSettings | None = Field(
        None, description="How often a tokenizer's tokens occur in a corpus, for a loss to read."
    )

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, content: Any) -> Any:
        if content == {"fit_pair": None}:
            # All of its settings have defaults.
            return {"fit_pair": {}}
        return {"take": content} if isinstance(content, str) else content

    @model_validator(mode="after")
    def _one(self) -> "ModelSettings":
        if sum(value is not None for _, value in self) != 1:
            known = ", ".join(name for name in type(self).model_fields if name != "take")
            raise ValueError(
                f"name a model to take, or the one stage that makes it, which is one of: {known}"
            )
        return self

    @property
    def maker(self) -> str | None:
        """The name of the stage that makes the model; None where it is taken."""
        return next((name for name, value in self if name != "take" and value is not None), None)

    def models(self) -> dict[tuple[str, ...], str]:
        """The models that it names, by their place below this one."""
        if self.maker is None:
            return {("take",): self.take or ""}
        made = getattr(self, self.maker)
        return {(self.maker, slot): name for slot, name in made.models().items()}


def faults(models: Mapping[str, ModelSettings], phases: list[str]) -> Iterator[Fault]:
    """The faults of `models:`, each with its place below that key. phases: their names."""
    for name, settings in models.items():
        if not _NAME.fullmatch(name):
            yield f"{name!r} is no name for a model: use letters, digits, _ and -", (name,)
        elif _TAKEN.fullmatch(name):
            yield f"{name} means something else where a model is named: choose another", (name,)
        elif name in phases:
            yield f"a phase has the name {name} too: give one of them another", (name,)
        for place, other in settings.models().items():
            if fault := slip(other, models):
                yield fault, (name, *place)
            elif (cycle := _cycle(name, other, models)) is not None:
                chain = " → ".join([name, *cycle])
                yield f"models that need each other can never be made: {chain}", (name, *place)


def slip(name: str, models: Mapping[str, ModelSettings]) -> str | None:
    """What to say of a name that is most likely a misspelt one; None otherwise."""
    alike = None if name in models else nearest(name, models)
    if alike is not None:
        return f"there is no model {name!r} under `models`; the nearest is {alike!r}"
    prefix, colon, _ = name.partition(":")
    if not colon or f"{prefix}:" in _PREFIXES or "/" in prefix or Path(name).exists():
        return None
    return (
        f"{name!r} begins with {prefix + colon!r}, which means nothing: a model may begin with "
        f"{' or '.join(_PREFIXES)}, or is a directory, or a name on the hub"
    )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that this one is most likely a slip of; None for a path or a hub's name."""
    if not _NAME.fullmatch(name) or Path(name).exists():
        return None
    alike = difflib.get_close_matches(name, list(known), n=1, cutoff=_ALIKE)
    return alike[0] if alike else None


def settings_of(name: str, models: Mapping[str, ModelSettings]) -> ModelSettings | None:
    """How the recipe makes the model of this name, or of what it is another name for."""
    while name in models and models[name].take is not None:
        name = models[name].take or ""
    return models.get(name)


def made_as(name: str, models: Mapping[str, ModelSettings]) -> str | None:
    """The form in which the recipe makes the model of this name; None where it does not."""
    found = settings_of(name, models)
    made = found and (found.pretrain or found.fit_generator)
    return made.form if made else None


def counted(name: str, models: Mapping[str, ModelSettings]) -> bool:
    """Whether the recipe makes counts of tokens under this name, which are no encoder."""
    found = settings_of(name, models)
    return found is not None and found.count_tokens is not None


def _cycle(start: str, name: str, models: Mapping[str, ModelSettings]) -> list[str] | None:
    """The names from `name` back to `start`, if there is such a way."""
    open_ways, seen = [[name]], set[str]()
    while open_ways:
        way = open_ways.pop()
        if way[-1] == start:
            return way
        if way[-1] in models and way[-1] not in seen:
            seen.add(way[-1])
            open_ways += [[*way, other] for other in models[way[-1]].models().values()]
    return None
