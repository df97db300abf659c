"""The command line `tercet`. Heavy modules are imported by the command that needs them."""

import logging
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from importlib import metadata
from inspect import Signature, signature
from typing import Annotated, Any, Literal, TypeAlias

import typer
from typer import Argument, Option

from tercet.flows.running.arguments import RunArguments, usual_store

STORE = usual_store()

StoreOption = Annotated[str, Option("--store", help="where artifacts live [$TERCET_STORE]")]
RunOption = Annotated[str | None, Option("--run", help="a run other than the newest")]
FormatOption: TypeAlias = Annotated[Literal["table", "csv", "json"], Option("--format")]
TableOrJsonOption: TypeAlias = Annotated[Literal["table", "json"], Option("--format")]
CronOption = Annotated[str | None, Option("--cron", help='e.g. "0 3 * * *"')]
TimezoneOption = Annotated[
    str | None, Option("--timezone", help="time zone of --cron; default: this machine's")
]


def show_version(show: bool) -> None:
    """Prints Tercet's version and ends."""
    if show:
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
    """Adds the options of `arguments`, except `without`; the command gets RunArguments first."""
    shared = signature(arguments).parameters
    shared_parameters = [parameter for name, parameter in shared.items() if name not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def called(**options: Any) -> None:
            named = {parameter.name: options.pop(parameter.name) for parameter in shared_parameters}
            command(arguments(**named), **options)

        own_parameters = list(signature(command).parameters.values())[1:]
        parameters = [
            one.replace(kind=one.KEYWORD_ONLY) for one in (*shared_parameters, *own_parameters)
        ]
        called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return called

    return decorate


def check_words(words: Sequence[str]) -> None:
    """Raises BadInput for an argument that is not UTF-8, which a file name need not be."""
    from tercet.tasks.stage import BadInput

    for printed in (os.fsencode(word).decode("utf-8", "backslashreplace") for word in words):
        if printed not in words:
            raise BadInput(
                "bad_value",
                f"The argument {printed!r} is not UTF-8: rename the file, or name its folder.",
            )


app = typer.Typer(
    name="tercet",
    help="From an unlabelled corpus to a sentence encoder for it.",
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", callback=show_version, is_eager=True, help="show the version")
    ] = False,
    debug: Annotated[bool, Option("--debug", help="show tracebacks, for any command")] = False,
) -> None:
    """Options of `tercet` itself."""


@app.command()
@of_a_recipe()
def run(
    arguments: RunArguments,
    retry_failed: Annotated[
        bool, Option("--retry-failed", help="ask the language model again for failed rows")
    ] = False,
    write: Annotated[str | None, Option("--write", help="a file for the recipe as run")] = None,
    no_server: Annotated[bool, Option("--no-server", help="run without Prefect")] = False,
) -> None:
    """Run a recipe, reusing what is finished.

    An interrupted run goes on where it stopped.
    """
    from tercet.flows.commands.run import run_recipe

    arguments = replace(arguments, retry_failed=retry_failed)
    raise typer.Exit(run_recipe(arguments, not no_server, write))


@app.command()
@of_a_recipe()
def plan(arguments: RunArguments) -> None:
    """Show what a run would do, and why, without running it."""
    from tercet.flows.commands.plan import show_plan

    show_plan(arguments)


@app.command("try")
@of_a_recipe("until")
def try_(
    arguments: RunArguments,
    method: Annotated[str, Option("--method", help="one of the recipe's, or extract")],
    count: Annotated[int, Option("-n", min=1, max=100, help="number of rows to show")] = 5,
) -> None:
    """Show a few rows of a method before a run.

    For a rule its texts, for a prompted method the language model's answers.
    """
    from tercet.flows.commands.try_method import try_method

    try_method(arguments, method, count)


@app.command()
@of_a_recipe("until")
def study(
    arguments: RunArguments,
    vary: Annotated[
        list[str] | None,
        Option("--vary", metavar="KEY=[V1, V2]", help="values to try for a recipe key"),
    ] = None,
    arms: Annotated[str | None, Option("--arms", help="a YAML file: NAME: {KEY: VALUE}")] = None,
    metric: Annotated[str | None, Option("--metric", help="'SUITE TASK SUBSET METRIC'")] = None,
    output: Annotated[str, Option("-o", "--output", help="where to write")] = "study.html",
    at_once: Annotated[
        int, Option("--at-once", min=1, metavar="N", help="arms at a time, a GPU each")
    ] = 1,
) -> None:
    """Run variants of a recipe and compare them.

    Writes one table and one plot.
    """
    from tercet.flows.commands.study import run_study

    raise typer.Exit(run_study(arguments, vary or [], arms, metric, output, at_once))


@app.command()
def init(
    corpus: Annotated[str, Argument(help="a file, folder, glob, pydocs, hf:NAME or lmf:FILE.xml")],
    output: Annotated[str, Option("-o", "--output", help="where to write")] = "recipe.yaml",
    query: Annotated[str | None, Option("--query", help="the column of a pair's queries")] = None,
    answer: Annotated[str | None, Option("--answer", help="the column that answers them")] = None,
    questions: Annotated[
        str | None, Option("--questions", help="a table of your questions, to measure by")
    ] = None,
    store: StoreOption = STORE,
) -> None:
    """Write a commented recipe for a corpus."""
    from tercet.flows.commands.init import write_recipe

    write_recipe(corpus, output, query, answer, questions)


@app.command()
def sql(
    query: Annotated[str | None, Argument(help="one SELECT; opens a prompt if omitted")] = None,
    format_: Annotated[
        Literal["table", "csv", "json", "parquet"] | None,
        Option("--format", help="default: as -o ends, else table"),
    ] = None,
    output: Annotated[str | None, Option("-o", "--output", help="write to a file")] = None,
    store: StoreOption = STORE,
    run_ref: RunOption = None,
) -> None:
    """Query the tables of a run."""
    from tercet.flows.commands.sql import answer

    answer(query, format_, output, store, run_ref)


@app.command("ls")
def list_(store: StoreOption = STORE, run_ref: RunOption = None) -> None:
    """List runs, or the artifacts of one run."""
    from tercet.flows.commands.browse import list_store

    list_store(store, run_ref)


@app.command()
def show(
    ref: Annotated[str, Argument(help="a table, name@version, or a tag")],
    store: StoreOption = STORE,
    run_ref: RunOption = None,
) -> None:
    """Show what an artifact contains and what it was made from."""
    from tercet.flows.commands.browse import show_ref

    show_ref(ref, store, run_ref)


@app.command()
def tag(
    ref: Annotated[str, Argument(help="a run, a step, a table, or name@version")],
    name: Annotated[str, Argument(help="the new name")],
    store: StoreOption = STORE,
) -> None:
    """Name a run or an artifact version."""
    from tercet.flows.commands.browse import tag_ref

    tag_ref(ref, name, store)


@app.command()
def untag(
    names: Annotated[list[str], Argument(metavar="TAG…", help="what runs or versions are called")],
    store: StoreOption = STORE,
) -> None:
    """Remove tags."""
    from tercet.flows.commands.browse import untag as remove

    remove(names, store)


@app.command()
def du(
    format_: FormatOption = "table",
    store: StoreOption = STORE,
) -> None:
    """Show what takes up space in a store, by step and by run."""
    from tercet.flows.commands.store import show_room

    show_room(store, format_)


@app.command()
def rm(
    run_ids: Annotated[list[str], Argument(metavar="RUN…", help="ids, or their beginnings")],
    store: StoreOption = STORE,
) -> None:
    """Remove runs.

    `tercet gc --delete` then removes what only they used.
    """
    from tercet.flows.commands.store import remove_runs

    remove_runs(run_ids, store)


@app.command()
def copy(
    source: Annotated[str, Argument(help="a store: a directory, or s3://BUCKET/PREFIX")],
    target: Annotated[str, Argument(help="another, which may be new")],
) -> None:
    """Copy all of a store into a directory or a bucket."""
    from tercet.flows.commands.store import copy_store

    copy_store(source, target)


@app.command()
def verify(
    mend: Annotated[
        bool, Option("--mend", help="discard what is damaged: the next run makes it again")
    ] = False,
    store: StoreOption = STORE,
) -> None:
    """Compare a store's files with their records.

    Exit code 1 if something is damaged.
    """
    from tercet.flows.commands.store import verify_store

    raise typer.Exit(verify_store(store, mend))


@app.command()
def gc(
    keep: Annotated[
        int | None,
        Option("--keep", min=1, help="count only the last N runs of each recipe; default: all"),
    ] = None,
    delete: Annotated[bool, Option("--delete", help="delete it")] = False,
    store: StoreOption = STORE,
) -> None:
    """List what no run and no tag uses any more.

    Language models' answers, and anything younger than a day, stay.
    """
    from tercet.flows.commands.store import collect_garbage

    collect_garbage(store, keep, delete)


@app.command("eval")
def evaluate(
    models: Annotated[list[str], Argument(help="directories, hub names, or refs")],
    suite: Annotated[str | None, Option("--suite", help="a directory in SentEval's layout")] = None,
    tasks: Annotated[
        str | None,
        Option(
            "--tasks",
            help="from the suite: sts, transfer, reranking, pairs, all, or task names; "
            "from the run: retrieval, awareness, fact_order, sts_sets, retrieval_sets; "
            "from a file of your own: sts:FILE (two texts and a score), fact_order:FILE, "
            "questions:FILE (to the run's passages); default: sts, with --beir none",
        ),
    ] = None,
    beir: Annotated[
        list[str] | None,
        Option(
            "--beir", help="a folder of queries and documents in BEIR's layout; may be repeated"
        ),
    ] = None,
    splits: Annotated[str, Option("--splits", help="test, dev or dev,test")] = "test",
    pooling: Annotated[
        str | None, Option("--pooling", help="mean, cls, cls+mean, mask, …; default: the model's")
    ] = None,
    prompt: Annotated[
        str | None, Option("--prompt", help="template for mask pooling, suffix for first_decoder")
    ] = None,
    precision: Annotated[
        Literal["fp32", "bf16"] | None, Option("--precision", help="default: the run's, else fp32")
    ] = None,
    format_: FormatOption = "table",
    store: StoreOption = STORE,
    run_ref: RunOption = None,
) -> None:
    """Evaluate encoders on a suite, a run's pairs or your queries.

    Each score has its interval, each difference a paired test.
    """
    from tercet.flows.commands.evaluate import evaluate_encoders

    form = (pooling, precision, format_)
    names = ("" if beir else "sts") if tasks is None else tasks
    evaluate_encoders(models, suite, names, splits, *form, store, run_ref, prompt, beir or ())


@app.command()
def define(
    texts: Annotated[list[str], Argument(help="descriptions, each in quotation marks")],
    model: Annotated[str, Option("--model", help="a step trained on definitions")] = "train",
    part: Annotated[str | None, Option("--part", help="if the phase has several")] = None,
    count: Annotated[int, Option("--count", min=1, help="entries per description")] = 10,
    format_: TableOrJsonOption = "table",
    store: StoreOption = STORE,
    run_ref: RunOption = None,
) -> None:
    """List the dictionary entries that a description fits best."""
    from tercet.flows.commands.define import define as define_texts

    define_texts(texts, model, part, count, format_, store, run_ref)


@app.command()
def search(
    query: Annotated[
        str | None, Argument(help="what to find, in quotation marks; default: ask for it")
    ] = None,
    count: Annotated[int, Option("--count", min=1, help="the best passages of each ranking")] = 5,
    by: Annotated[
        str | None, Option("--by", help="one ranking alone: both, after, before or bm25")
    ] = None,
    http: Annotated[
        int | None, Option("--http", help="answer on this port of this machine, with JSON")
    ] = None,
    format_: FormatOption = "table",
    store: StoreOption = STORE,
    run_ref: RunOption = None,
) -> None:
    """Search in a run's passages, before and after training.

    Also by BM25; needs `ingest.passages` in the recipe.
    """
    from tercet.flows.commands.search import search_passages

    search_passages(query, count, by, format_, store, run_ref, http)


@app.command()
def encode(
    table: Annotated[str, Argument(help="a file with a text in each row: .csv, .jsonl, .parquet")],
    output: Annotated[str, Option("-o", "--output", help="where to write")] = "vectors.parquet",
    column: Annotated[
        str | None, Option("--column", help="the texts; default: the column that reads like text")
    ] = None,
    model: Annotated[
        str | None, Option("--model", help="a directory, hub name or ref; default: the run's last")
    ] = None,
    store: StoreOption = STORE,
    run_ref: RunOption = None,
) -> None:
    """Write the vectors of a table's texts to a Parquet file.

    With a run's encoder or any other.
    """
    from tercet.flows.commands.encode import encode_table

    encode_table(table, output, column, model, store, run_ref)


@app.command()
def export(
    ref: Annotated[
        str, Argument(help="an encoder (train), a table (triplets), graph, beir, search, or a tag")
    ],
    destination: Annotated[
        str, Argument(help="a directory that does not exist yet; for graph, FILE.graphml")
    ],
    onnx: Annotated[bool, Option("--onnx", help="also write the encoder as ONNX")] = False,
    int8: Annotated[bool, Option("--int8", help="also write it as int8 ONNX")] = False,
    push: Annotated[str | None, Option("--push", help="upload to OWNER/NAME")] = None,
    public: Annotated[bool, Option("--public", help="make the upload public")] = False,
    anyway: Annotated[
        bool, Option("--anyway", help="even an encoder that is worse than the untouched one")
    ] = False,
    store: StoreOption = STORE,
    run_ref: RunOption = None,
) -> None:
    """Write an encoder, a table, the graph or questions to files.

    For use without Tercet; encoders and tables come with a card. `beir` writes passages and
    questions in BEIR's layout, `search` a program that searches the passages.
    """
    from tercet.flows.commands.export import export as export_ref

    export_ref(ref, destination, store, run_ref, onnx, int8, push, public, anyway)


@app.command()
def report(
    run_a: Annotated[str | None, Argument(metavar="RUN", help="default: the newest done")] = None,
    run_b: Annotated[str | None, Argument(metavar="RUN", help="a run to compare")] = None,
    output: Annotated[str, Option("-o", "--output", help="where to write")] = "report.html",
    store: StoreOption = STORE,
) -> None:
    """Write a report on one run, or two side by side.

    As one self-contained HTML file.
    """
    from tercet.flows.commands.browse import make_report

    make_report([run_a, *([run_b] if run_b else [])], output, store)


@app.command()
def diff(
    run_a: Annotated[str, Argument(metavar="A", help="a run: its id, a tag, or a recipe's name")],
    run_b: Annotated[str, Argument(metavar="B", help="the run to compare with it")],
    format_: TableOrJsonOption = "table",
    store: StoreOption = STORE,
) -> None:
    """Show what makes two runs differ.

    Keys, code and inputs, then rows, then figures.
    """
    from tercet.flows.commands.diff import show_difference

    show_difference(run_a, run_b, format_, store)


@app.command()
def doctor(store: StoreOption = STORE) -> None:
    """Check whether this machine can run the quickstart.

    Says what is missing.
    """
    from tercet.flows.commands.doctor import examine

    raise typer.Exit(examine(store))


@app.command()
@of_a_recipe()
def serve(
    arguments: RunArguments,
    cron: CronOption = None,
    interval: Annotated[int | None, Option("--interval", min=1, help="seconds")] = None,
    timezone: TimezoneOption = None,
) -> None:
    """Run a recipe on a schedule until stopped.

    Runs in this process.
    """
    from tercet.flows.service.deploy import serve_recipe

    serve_recipe(arguments, cron, interval, timezone)


@app.command()
@of_a_recipe("until")
def deploy(
    arguments: RunArguments,
    pool: Annotated[str, Option("--pool", help="the work pool of synthesis")] = "tercet",
    gpu_pool: Annotated[str | None, Option("--gpu-pool", help="the pool of training")] = None,
    cron: CronOption = None,
    timezone: TimezoneOption = None,
    notify: Annotated[str | None, Option("--notify", help="a block to notify of failures")] = None,
) -> None:
    """Put a recipe on your Prefect server.

    Its workers run it; automations watch over the runs.
    """
    from tercet.flows.service.deploy import deploy_recipe

    deploy_recipe(arguments, pool, gpu_pool, cron, timezone, notify)


@app.command()
def schema() -> None:
    """Print the JSON schema of recipes, for editors."""
    import json

    from tercet.flows.recipe.model import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


def main() -> None:
    """Entry point: reports every failure as one sentence and an exit code."""
    words = [word for word in sys.argv[1:] if word != "--debug"]
    # Warnings of the store are shown even where Prefect's settings keep the terminal quiet.
    logger, handler = logging.getLogger("tercet"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("tercet: %(message)s"))
    logger.handlers = [handler]
    logger.propagate = False
    try:
        check_words(words)
        code = app(words or ["--help"], "tercet", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        command = shlex.join(["tercet", *sys.argv[1:]])
        print(f"\nInterrupted. To start again: {command}", file=sys.stderr)
        code = 130
    except Exception as error:
        if "--debug" in sys.argv:
            import traceback

            traceback.print_exc()
        from tercet.flows.terminal.failures import exit_code, with_kind

        print(f"tercet: {with_kind(error)}", file=sys.stderr)
        code = exit_code(error)
    if code and "prefect" in sys.modules:
        # Prefect keeps the failed flow and everything its frames refer to, so DuckDB prints long
        # complaints about unreleased objects at exit. Nothing is left to do: skip the clean-up.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 1)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
