"""What the names in a recipe mean: the types that `resolve` returns, and faults with a place."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from tercet.errors import ErrorKind, InvalidSetting
from tercet.flows.recipe.model import Recipe
from tercet.models.generation import Method
from tercet.tasks.scoring.score import Scorer

Place: TypeAlias = tuple[str | int, ...]


class Misplaced(InvalidSetting):
    """A fault in a whole recipe, with the place where a person would mend it."""

    def __init__(self, kind: ErrorKind, message: str, *location: str | int) -> None:
        super().__init__(kind, message)
        self.location = location
        # The recipe's other faults, where this one is raised for all of them.
        self.others: Sequence[Misplaced] = ()


class Idle(Misplaced):
    """A key without effect: a note to the person, and no failure."""

    def __init__(self, message: str, *location: str | int) -> None:
        super().__init__("no_effect", message, *location)


class Faults:
    """What is wrong with a recipe, collected so that all of it is told together."""

    def __init__(self) -> None:
        self.errors: list[Misplaced] = []
        self.notes: list[Misplaced] = []

    def add(self, faults: Iterable[Misplaced]) -> None:
        """Keeps each as an error or as a note."""
        for fault in faults:
            (self.notes if isinstance(fault, Idle) else self.errors).append(fault)

    @contextmanager
    def catch(self) -> Iterator[None]:
        """Keeps the fault that the block ends in."""
        try:
            yield
        except Misplaced as fault:
            self.add([fault])

    def refuse(self) -> None:
        """Raises Misplaced where there are errors: the first, with the others and the notes."""
        if self.errors:
            first, *others = self.errors
            first.others = [*others, *self.notes]
            raise first


# Who writes a prompted method's texts unless it names a generator.
LLM = "llm"
# The form of a fitted model that writes and judges, and paraphrases nothing.
GENSE = "gense"


@dataclass(frozen=True)
class Made:
    """A model that a step of the same pipeline makes."""

    step: str


@dataclass(frozen=True)
class Weights:
    """A model that exists: a directory, `package:PACKAGE/FOLDER` or a hub name."""

    name: str


@dataclass(frozen=True)
class Tagged:
    """A model that another run made in this store, by its tag (`tag:NAME` without the prefix)."""

    name: str


@dataclass(frozen=True)
class Trained:
    """The encoder of a phase of this recipe, of which each seed has its own."""

    phase: str


Model: TypeAlias = Made | Weights | Tagged


@dataclass(frozen=True)
class Reference:
    """The model that a name stands for.

    maker: the stage that makes it in this recipe; None for a model that exists, and for an encoder
        that is trained here. form: what that stage makes, as its settings call it.
    """

    source: Model | Trained
    maker: str | None = None
    form: str | None = None
    settings: Any = None

    @property
    def model(self) -> Model:
        """The source of a model that is the same for all seeds."""
        assert not isinstance(self.source, Trained)
        return self.source


@dataclass(frozen=True)
class Resolved:
    """A recipe whose names have been looked up.

    recipe: with the corpora's names in the place of roles and defaults, wherever it selects some.
    models: by the place that names one; of phases, `(train, phases, INDEX, backbone)`.
    evaluator: the frozen model that scores candidates. scorers: by name, with their settings.
    methods: by name, as the recipe changes them.
    writers: by method, who answers its prompts: `llm`, or the name of a generator.
    written: the recipe before that, without keys that have no effect. notes: these keys.
    """

    recipe: Recipe
    models: Mapping[Place, Reference]
    evaluator: Model | None
    scorers: Mapping[str, tuple[Scorer, Any]]
    methods: Mapping[str, Method]
    writers: Mapping[str, str]
    written: Recipe
    notes: Sequence[Misplaced]

    @property
    def has_queries(self) -> bool:
        """Whether methods write queries to passages, which become candidates and triplets."""
        return any(method.each == "passages" for method in self.methods.values())
