"""The command line `tercet`. Heavy modules are imported by the command that needs them."""

import os
import shlex
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer

from tercet.flows.running.arguments import DEFAULT_STORE, RunArguments
from tercet.models.text.unicode import encodable

app = typer.Typer(
    name="tercet",
    help="From an unlabelled corpus to a sentence encoder for it.",
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)

RecipeArgument = Annotated[str, typer.Argument(help="a YAML file, or a shipped recipe's name")]
StoreOption = Annotated[str, typer.Option("--store", help="where artifacts live [$TERCET_STORE]")]
RunOption = Annotated[str | None, typer.Option("--run", help="a run other than the newest")]
DebugOption = Annotated[bool, typer.Option("--debug", help="show tracebacks")]
CorpusOption = Annotated[str | None, typer.Option("--corpus", help="replace the recipe's corpus")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="change a recipe key, such as train.phases.0.epochs=2; may be repeated",
    ),
]
UntilOption = Annotated[str | None, typer.Option("--until", help="stop after a stage or table")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="rows per corpus, at most")]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="replace the recipe's seed")]

_STORE = os.environ.get("TERCET_STORE") or DEFAULT_STORE


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tercet {metadata.version('tercet')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="show the version"),
    ] = False,
) -> None:
    """Options of `tercet` itself."""


@app.command()
def run(
    recipe: RecipeArgument,
    corpus: CorpusOption = None,
    set_: SetOption = None,
    until: UntilOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="ask the language model again for failed rows")
    ] = False,
    write: Annotated[
        str | None, typer.Option("--write", help="a file for the recipe that is run")
    ] = None,
    no_server: Annotated[bool, typer.Option("--no-server", help="run without Prefect")] = False,
    store: StoreOption = _STORE,
    debug: DebugOption = False,
) -> None:
    """Run a recipe, reusing what is finished.

    An interrupted run goes on where it stopped.
    """
    from tercet.flows.commands.run import run_recipe

    arguments = RunArguments(
        recipe, store, tuple(set_ or ()), corpus, until, limit, seed, retry_failed
    )
    raise typer.Exit(run_recipe(arguments, not no_server, write))


@app.command()
def plan(
    recipe: RecipeArgument,
    corpus: CorpusOption = None,
    set_: SetOption = None,
    until: UntilOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    store: StoreOption = _STORE,
    debug: DebugOption = False,
) -> None:
    """Show what a run would do, and why, without running it."""
    from tercet.flows.commands.plan import show_plan

    show_plan(RunArguments(recipe, store, tuple(set_ or ()), corpus, until, limit, seed))


@app.command("try")
def try_(
    recipe: RecipeArgument,
    method: Annotated[
        str,
        typer.Option("--method", help="a method of the recipe, or extract (with extract_generate)"),
    ],
    count: Annotated[int, typer.Option("-n", min=1, max=100, help="number of rows to show")] = 5,
    corpus: CorpusOption = None,
    set_: SetOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    store: StoreOption = _STORE,
    debug: DebugOption = False,
) -> None:
    """Show a few rows of a method before a run.

    For a rule its texts, for a prompted method the language model's answers.
    """
    from tercet.flows.commands.try_method import try_method

    arguments = RunArguments(recipe, store, tuple(set_ or ()), corpus, None, limit, seed)
    try_method(arguments, method, count)


@app.command()
def study(
    recipe: RecipeArgument,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="KEY=[V1, V2]", help="values to try for a recipe key"),
    ] = None,
    arms: Annotated[
        str | None, typer.Option("--arms", help="a YAML file: NAME: {KEY: VALUE}")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="'SUITE TASK SUBSET METRIC' to compare")
    ] = None,
    output: Annotated[str, typer.Option("-o", "--output", help="where to write")] = "study.html",
    corpus: CorpusOption = None,
    set_: SetOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    store: StoreOption = _STORE,
    debug: DebugOption = False,
) -> None:
    """Run variants of a recipe and compare them.

    Writes one table and one plot.
    """
    from tercet.flows.commands.study import run_study

    arguments = RunArguments(recipe, store, tuple(set_ or ()), corpus, None, limit, seed)
    raise typer.Exit(run_study(arguments, vary or [], arms, metric, output))


@app.command()
def init(
    corpus: Annotated[
        str, typer.Argument(help="a file, folder, glob, pydocs, hf:NAME or lmf:FILE.xml")
    ],
    output: Annotated[str, typer.Option("-o", "--output", help="where to write")] = "recipe.yaml",
    store: StoreOption = _STORE,
    debug: DebugOption = False,
) -> None:
    """Write a commented recipe for a corpus."""
    from tercet.flows.commands.init import write_recipe

    write_recipe(corpus, output)


@app.command()
def sql(
    query: Annotated[
        str | None, typer.Argument(help="one SELECT; opens a prompt if omitted")
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="table, csv, json or parquet")
    ] = None,
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
    """Show what an artifact contains and what it was made from."""
    from tercet.flows.commands.browse import show_ref

    show_ref(ref, store, run_ref)


@app.command()
def tag(
    ref: Annotated[str, typer.Argument(help="a run, a step, a table, or name@version")],
    name: Annotated[str, typer.Argument(help="the new name")],
    store: StoreOption = _STORE,
    debug: DebugOption = False,
) -> None:
    """Name a run or an artifact version."""
    from tercet.flows.commands.browse import tag_ref

    tag_ref(ref, name, store)


@app.command()
def accept(
    stage: Annotated[str, typer.Argument(help="the stage whose code changed")],
    recipe: Annotated[str | None, typer.Argument(help="default: the newest run's recipe")] = None,
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Keep a stage's results after an edit of its code.

    For edits that do not affect the results.
    """
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
            help="from the suite: sts, transfer, reranking, pairs, all, or task names; "
            "from the run: retrieval, awareness, fact_order, sts_sets; from a file of your own: "
            "sts:FILE (two texts and a score), fact_order:FILE",
        ),
    ] = "sts",
    splits: Annotated[str, typer.Option("--splits", help="test, dev or dev,test")] = "test",
    pooling: Annotated[
        str | None,
        typer.Option(
            "--pooling", help="mean, cls, cls+mean, mask, first_decoder, …; default: the model's"
        ),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", help="template for mask pooling, or suffix for first_decoder"),
    ] = None,
    precision: Annotated[
        str | None, typer.Option("--precision", help="fp32 or bf16; default: the run's, else fp32")
    ] = None,
    format_: Annotated[str, typer.Option("--format", help="table, csv or json")] = "table",
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Evaluate encoders on a suite or a run's pairs.

    Each score has its interval, each difference a paired test.
    """
    from tercet.flows.commands.evaluate import evaluate_encoders

    evaluate_encoders(
        models, suite, tasks, splits, pooling, precision, format_, store, run_ref, prompt
    )


@app.command()
def define(
    texts: Annotated[list[str], typer.Argument(help="descriptions, each in quotation marks")],
    model: Annotated[
        str, typer.Option("--model", help="a step that was trained on definitions")
    ] = "train",
    part: Annotated[
        str | None,
        typer.Option("--part", help="part of the phase, if several parts use a dictionary"),
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="entries per description")] = 10,
    format_: Annotated[str, typer.Option("--format", help="table or json")] = "table",
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """List the dictionary entries that a description fits best."""
    from tercet.flows.commands.define import define as define_texts

    define_texts(texts, model, part, count, format_, store, run_ref)


@app.command()
def export(
    ref: Annotated[
        str, typer.Argument(help="an encoder (train), a table (triplets), graph, or a tag")
    ],
    destination: Annotated[
        str, typer.Argument(help="a directory that does not exist yet; for graph, FILE.graphml")
    ],
    onnx: Annotated[bool, typer.Option("--onnx", help="also write the encoder as ONNX")] = False,
    int8: Annotated[bool, typer.Option("--int8", help="also write it as int8 ONNX")] = False,
    push: Annotated[str | None, typer.Option("--push", help="upload to OWNER/NAME")] = None,
    public: Annotated[bool, typer.Option("--public", help="make the upload public")] = False,
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Write an encoder, a table or the graph to files.

    For use without Tercet; encoders and tables come with a card.
    """
    from tercet.flows.commands.export import export as export_ref

    export_ref(ref, destination, store, run_ref, onnx, int8, push, public)


@app.command()
def report(
    run_a: Annotated[
        str | None, typer.Argument(metavar="RUN", help="default: the newest run")
    ] = None,
    run_b: Annotated[str | None, typer.Argument(metavar="RUN", help="a run to compare")] = None,
    output: Annotated[str, typer.Option("-o", "--output", help="where to write")] = "report.html",
    store: StoreOption = _STORE,
    run_ref: RunOption = None,
    debug: DebugOption = False,
) -> None:
    """Write a report on one run, or two side by side.

    As one self-contained HTML file.
    """
    from tercet.flows.commands.report import make_report

    make_report([run_a or run_ref, *([run_b] if run_b else [])], output, store)


@app.command()
def doctor(store: StoreOption = _STORE, debug: DebugOption = False) -> None:
    """Check whether this machine can run the quickstart.

    Says what is missing.
    """
    from tercet.flows.commands.doctor import examine

    raise typer.Exit(examine(store))


@app.command()
def serve(
    recipe: RecipeArgument,
    cron: Annotated[str | None, typer.Option("--cron", help='e.g. "0 3 * * *"')] = None,
    interval: Annotated[int | None, typer.Option("--interval", min=1, help="seconds")] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", help="of --cron, by name; default: the machine's")
    ] = None,
    corpus: CorpusOption = None,
    set_: SetOption = None,
    until: UntilOption = None,
    limit: LimitOption = None,
    seed: SeedOption = None,
    store: StoreOption = _STORE,
    debug: DebugOption = False,
) -> None:
    """Run a recipe on a schedule until stopped.

    Runs in this process.
    """
    from tercet.flows.service.deployments import serve_recipe

    arguments = RunArguments(recipe, store, tuple(set_ or ()), corpus, until, limit, seed)
    serve_recipe(arguments, cron, interval, timezone)


@app.command()
def schema() -> None:
    """Print the JSON schema of recipes, for editors."""
    import json

    from tercet.flows.recipe.model import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


# Planned commands, and what to do until they exist.
COMING = {
    "gc": "delete the whole store, or those versions under artifacts/ whose files no other "
    "version refers to (docs/operations.md, Limits known now).",
    "diff": "`tercet report RUN RUN` compares two runs, and `tercet show REF` describes one "
    "artifact.",
    "deploy": "`tercet serve RECIPE` runs a schedule here, and `prefect deploy --all` reads "
    "prefect.yaml for a work pool.",
}


def _not_built(context: typer.Context) -> None:
    from tercet.tasks.stage import BadInput

    name = context.info_name or ""
    raise BadInput(f"`tercet {name}` is not built yet: {COMING[name]}")


for _name in COMING:
    app.command(
        _name,
        hidden=True,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(_not_built)


def main() -> None:
    """Entry point: reports every failure as one sentence and an exit code."""
    try:
        _check_words(sys.argv[1:])
        code = app(sys.argv[1:] or ["--help"], "tercet", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        command = shlex.join(["tercet", *sys.argv[1:]])
        print(f"\nInterrupted. To start again: {command}", file=sys.stderr)
        code = 130
    except Exception as error:
        if "--debug" in sys.argv:
            import traceback

            traceback.print_exc()
        code = _explain(error)
    if code and "prefect" in sys.modules:
        # Prefect keeps the failed flow and everything its frames refer to, so DuckDB prints long
        # complaints about unreleased objects at exit. Nothing is left to do: skip the clean-up.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
    sys.exit(code if isinstance(code, int) else 0)


def _check_words(words: Sequence[str]) -> None:
    """Raises BadInput for a word that is not UTF-8, as file names may be: no recipe can hold it."""
    from tercet.tasks.stage import BadInput

    for word in words:
        if not encodable(word):
            said = os.fsencode(word).decode("utf-8", "backslashreplace")
            raise BadInput(
                f"The word {said!r} is not UTF-8: rename the file, or name its folder or a glob."
            )


def _explain(error: Exception) -> int:
    """Prints a failure as one sentence and returns its exit code."""
    from tercet.flows.terminal.failures import exit_code, sentence

    print(f"tercet: {sentence(error)}", file=sys.stderr)
    return exit_code(error)


if __name__ == "__main__":
    main()
