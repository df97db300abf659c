"""The command line `tercet`. Heavy modules are imported by the command that needs them."""

import os
import shlex
import sys
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="tercet",
    help="From an unlabelled corpus to a sentence encoder for it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)

DEFAULT_STORE = "./tercet-store"

RecipeArgument = Annotated[str, typer.Argument(help="a YAML file, or a shipped recipe's name")]
StoreOption = Annotated[str, typer.Option("--store", help="where artifacts live [$TERCET_STORE]")]
RunOption = Annotated[str | None, typer.Option("--run", help="look at this run, not the newest")]
DebugOption = Annotated[bool, typer.Option("--debug", help="show tracebacks")]
CorpusOption = Annotated[str | None, typer.Option("--corpus", help="take this corpus instead")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="change a recipe key")
]
UntilOption = Annotated[str | None, typer.Option("--until", help="stop after a stage or table")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="rows of each corpus")]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="the recipe's seed")]

_STORE = os.environ.get("TERCET_STORE") or DEFAULT_STORE


@app.command()
def run(
    recipe: RecipeArgument,
    corpus: CorpusOption = None,
    set_: SetOption = None,
    until: UntilOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    no_server: Annotated[bool, typer.Option("--no-server", help="run without Prefect")] = False,
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Run a recipe; what is there already is reused, what was interrupted goes on."""
    from tercet.flows.commands.run import run_recipe

    arguments = _arguments(recipe, corpus, set_, until, limit, seed)
    raise typer.Exit(run_recipe(arguments, store, use_server=not no_server))


@app.command()
def plan(
    recipe: RecipeArgument,
    corpus: CorpusOption = None,
    set_: SetOption = None,
    until: UntilOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Say what a run would do and why, without doing it."""
    from tercet.flows.commands.plan import show_plan

    show_plan(_arguments(recipe, corpus, set_, until, limit, seed), store)


@app.command("try")
def try_(
    recipe: RecipeArgument,
    method: Annotated[str, typer.Option("--method", help="a prompted method, or extract")],
    count: Annotated[int, typer.Option("-n", min=1, max=100, help="prompts to ask")] = 5,
    corpus: CorpusOption = None,
    set_: SetOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Show a few prompts of a method with the language model's answers."""
    from tercet.flows.commands.try_method import try_method

    try_method(_arguments(recipe, corpus, set_, None, limit, seed), method, count, store)


@app.command()
def study(
    recipe: RecipeArgument,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="KEY=[V1, V2]", help="values of a recipe key; all products"),
    ] = None,
    arms: Annotated[str | None, typer.Option("--arms", help="a YAML file: name to keys")] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="suite, task, subset and metric of evaluations")
    ] = None,
    output: Annotated[str, typer.Option("-o", "--output", help="where to write")] = "study.html",
    corpus: CorpusOption = None,
    set_: SetOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Run a recipe with several values of its keys; one table, one plot."""
    from tercet.flows.commands.study import run_study

    arguments = _arguments(recipe, corpus, set_, None, limit, seed)
    raise typer.Exit(run_study(arguments, vary or [], arms, metric, output, store))


@app.command()
def init(
    corpus: Annotated[str, typer.Argument(help="a file, a glob, or pydocs")],
    output: Annotated[str, typer.Option("-o", "--output", help="where to write")] = "recipe.yaml",
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Write a commented recipe for a corpus."""
    from tercet.flows.commands.init import write_recipe

    write_recipe(corpus, output)


@app.command()
def sql(
    query: Annotated[str | None, typer.Argument(help="one SELECT; without it, a prompt")] = None,
    format_: Annotated[str, typer.Option("--format", help="table, csv, json or parquet")] = "table",
    output: Annotated[str | None, typer.Option("-o", "--output", help="write to a file")] = None,
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Query the tables of a run."""
    from tercet.flows.commands.sql import answer

    answer(query, format_, output, store, run_ref)


@app.command("ls")
def list_(
    store: StoreOption = _STORE, run_ref: RunOption = None, debug: DebugOption = False
) -> None:
    """List runs, or the artifacts of one run."""
    from tercet.flows.commands.browse import list_store

    list_store(store, run_ref)


@app.command()
def show(
    ref: Annotated[str, typer.Argument(help="a table, name@version, or a tag")],
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Show where an artifact comes from and what is in it."""
    from tercet.flows.commands.browse import show_ref

    show_ref(ref, store, run_ref)


@app.command()
def tag(
    ref: Annotated[str, typer.Argument(help="a run, or name@version")],
    name: Annotated[str, typer.Argument(help="the name it gets")],
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Give a run or a version a name."""
    from tercet.flows.commands.browse import tag_ref

    tag_ref(ref, name, store)


@app.command()
def accept(
    stage: Annotated[str, typer.Argument(help="the stage whose code was edited harmlessly")],
    recipe: Annotated[str | None, typer.Argument(help="the recipe; else the newest run's")] = None,
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Adopt a stage's existing results after an edit that changes none of them."""
    from tercet.flows.commands.accept import accept_stage

    accept_stage(stage, recipe, store, run_ref)


@app.command("eval")
def evaluate(
    models: Annotated[list[str], typer.Argument(help="directories, hub names, or refs")],
    suite: Annotated[
        str | None, typer.Option("--suite", help="a directory in SentEval's layout")
    ] = None,
    tasks: Annotated[
        str,
        typer.Option(
            "--tasks",
            help="sts, transfer, reranking, pairs, all (of the suite), or tasks' names; "
            "retrieval, awareness (of the run)",
        ),
    ] = "sts",
    splits: Annotated[str, typer.Option("--splits", help="test, dev or dev,test")] = "test",
    pooling: Annotated[
        str | None, typer.Option("--pooling", help="mean, cls, max, lasttoken, …; else its own")
    ] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", help="fp32, bf16; default: fp32, or the run's")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="table, csv or json")] = "table",
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Score encoders on a suite and on a run's pairs, with intervals and paired tests."""
    from tercet.flows.commands.evaluate import evaluate_encoders

    evaluate_encoders(models, suite, tasks, splits, pooling, precision, format_, store, run_ref)


@app.command()
def export(
    ref: Annotated[str, typer.Argument(help="an encoder (train), a table (triplets), or a tag")],
    destination: Annotated[str, typer.Argument(help="a directory that does not exist yet")],
    onnx: Annotated[bool, typer.Option("--onnx", help="an encoder as ONNX too")] = False,
    int8: Annotated[bool, typer.Option("--int8", help="an encoder as int8 ONNX too")] = False,
    push: Annotated[str | None, typer.Option("--push", help="upload to OWNER/NAME")] = None,
    public: Annotated[bool, typer.Option("--public", help="what --push makes is public")] = False,
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Write an encoder, or a table, with its card to a directory that needs no Tercet."""
    from tercet.flows.commands.export import export as export_ref

    export_ref(ref, destination, store, run_ref, onnx, int8, push, public)


@app.command()
def report(
    run_a: Annotated[
        str | None, typer.Argument(metavar="RUN", help="a run; else the newest")
    ] = None,
    run_b: Annotated[str | None, typer.Argument(metavar="RUN", help="one beside it")] = None,
    output: Annotated[str, typer.Option("-o", "--output", help="where to write")] = "report.html",
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Show a run, or two side by side, as one HTML file that needs no network."""
    from tercet.flows.commands.report import make_report

    make_report([run_a or run_ref, *([run_b] if run_b else [])], output, store)


@app.command()
def doctor(
    store: StoreOption = _STORE, run_ref: RunOption = None, debug: DebugOption = False
) -> None:
    """Say what this machine can run, and what is missing."""
    from tercet.flows.commands.doctor import examine

    raise typer.Exit(examine(store))


@app.command()
def serve(
    recipe: RecipeArgument,
    cron: Annotated[str | None, typer.Option("--cron", help='a schedule, "0 3 * * *"')] = None,
    interval: Annotated[int | None, typer.Option("--interval", min=1, help="seconds")] = None,
    corpus: CorpusOption = None,
    set_: SetOption = None,
    until: UntilOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Run a recipe on a schedule, here, until stopped."""
    from tercet.flows.service.deployments import serve_recipe

    serve_recipe(_arguments(recipe, corpus, set_, until, limit, seed), store, cron, interval)


@app.command()
def schema() -> None:
    """Print the JSON schema of recipes, for an editor."""
    import json

    from tercet.flows.recipe.model import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


def _arguments(
    recipe: str,
    corpus: str | None,
    overrides: list[str] | None,
    until: str | None,
    limit: int | None,
    seed: int | None,
) -> dict[str, Any]:
    return {
        "recipe": recipe,
        "overrides": overrides or [],
        "corpus": corpus,
        "until": until,
        "limit": limit,
        "seed": seed,
    }


def main() -> None:
    """Entry point: turns every failure into one sentence and its exit code."""
    try:
        code = app(standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        print(f"\nInterrupted. Again: {shlex.join(['tercet', *sys.argv[1:]])}", file=sys.stderr)
        code = 130
    except Exception as error:
        if "--debug" in sys.argv:
            import traceback

            traceback.print_exc()
        code = _explain(error)
    if code and "prefect" in sys.modules:
        # Prefect keeps what failed, with all that its frames hold, and DuckDB says at length at
        # the interpreter's end that its objects were not let go. What matters is done by now.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Exception) -> int:
    """Prints the one sentence of a failure; the exit code it stands for."""
    from tercet.flows.terminal.failures import exit_code, sentence

    print(f"tercet: {sentence(error)}", file=sys.stderr)
    return exit_code(error)


if __name__ == "__main__":
    main()
