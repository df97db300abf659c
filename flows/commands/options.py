"""Options that several commands of the command line take."""

import os
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import metadata
from inspect import Signature, signature
from typing import Annotated, Any

import typer
from typer import Argument, Option

from tercet.flows.running.arguments import RunArguments, usual_store

STORE = usual_store()

StoreOption = Annotated[str, Option("--store", help="where artifacts live [$TERCET_STORE]")]
RunOption = Annotated[str | None, Option("--run", help="a run other than the newest")]
CronOption = Annotated[str | None, Option("--cron", help='e.g. "0 3 * * *"')]
TimezoneOption = Annotated[
    str | None, Option("--timezone", help="of --cron, by name; default: the machine's")
]


def show_version(asked: bool) -> None:
    """Prints Tercet's version and ends."""
    if asked:
        typer.echo(f"tercet {metadata.version('tercet')}")
        raise typer.Exit


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


def check_words(words: Sequence[str]) -> None:
    """Raises BadInput for a word that is not UTF-8, as file names may be: no recipe can hold it."""
    from tercet.tasks.stage import BadInput

    for said in (os.fsencode(word).decode("utf-8", "backslashreplace") for word in words):
        if said not in words:
            raise BadInput(
                f"The word {said!r} is not UTF-8: rename the file, or name its folder or a glob."
            )
