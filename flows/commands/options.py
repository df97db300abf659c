"""Options that several commands of the command line take."""

import os
from collections.abc import Callable
from functools import wraps
from inspect import Signature, signature
from typing import Annotated, Any

from typer import Argument, Option

from tercet.flows.running.arguments import DEFAULT_STORE, RunArguments

STORE = os.environ.get("TERCET_STORE") or DEFAULT_STORE

StoreOption = Annotated[str, Option("--store", help="where artifacts live [$TERCET_STORE]")]
RunOption = Annotated[str | None, Option("--run", help="a run other than the newest")]


def arguments(
    recipe: Annotated[str, Argument(help="a YAML file, or a shipped recipe's name")],
    corpus: Annotated[str | None, Option("--corpus", help="replace the recipe's corpus")] = None,
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="change a recipe key, such as train.phases.0.epochs=2; may be repeated",
        ),
    ] = None,
    until: Annotated[str | None, Option("--until", help="stop after a stage or table")] = None,
    limit: Annotated[int | None, Option("--limit", min=1, help="rows per corpus, at most")] = None,
    seed: Annotated[int | None, Option("--seed", min=0, help="replace the recipe's seed")] = None,
    store: StoreOption = STORE,
) -> RunArguments:
    return RunArguments(recipe, store, tuple(set_ or ()), corpus, until, limit, seed)


def of_a_recipe(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of `arguments`, but those; it gets what they make, first."""
    shared = signature(arguments).parameters
    taken = [parameter for name, parameter in shared.items() if name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**given: Any) -> None:
            named = {parameter.name: given.pop(parameter.name) for parameter in taken}
            command(arguments(**named), **given)

        own = list(signature(command).parameters.values())[1:]
        asked = [one.replace(kind=one.KEYWORD_ONLY) for one in (*taken, *own)]
        called.__signature__ = Signature(asked)  # type: ignore[attr-defined]
        return called

    return decorate
