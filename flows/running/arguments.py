"""The arguments of a run, shared by the terminal, Prefect and the store."""

import os
from dataclasses import asdict, dataclass
from typing import Any

DEFAULT_STORE = "./tercet-store"


def usual_store() -> str:
    """The store when none is named: $TERCET_STORE, else a folder in the working directory."""
    return os.environ.get("TERCET_STORE") or DEFAULT_STORE


@dataclass(frozen=True)
class RunArguments:
    """The arguments of `tercet run`.

    overrides: `KEY=VALUE`; later ones win. retry_failed: whether to ask again about rows that the
    language model failed to answer; applies to one run, not to runs that resume it.
    """

    recipe: str
    store: str = DEFAULT_STORE
    overrides: tuple[str, ...] = ()
    corpus: str | None = None
    until: str | None = None
    limit: int | None = None
    seed: int | None = None
    retry_failed: bool = False

    def words(self) -> list[str]:
        """The words after `tercet run` that start the same run again."""
        words = [self.recipe]
        for name in ("corpus", "until", "limit", "seed"):
            value = getattr(self, name)
            if value is not None:
                words += [f"--{name}", str(value)]
        for override in self.overrides:
            words += ["--set", override]
        if self.store != DEFAULT_STORE:
            words += ["--store", self.store]
        return words

    def parameters(self) -> dict[str, Any]:
        """The arguments in JSON types, for Prefect's flow and the store's records."""
        return {**asdict(self), "overrides": list(self.overrides)}
