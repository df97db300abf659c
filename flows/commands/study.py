"""`tercet study`: compares variants (arms) of a recipe in one table and one plot."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from tercet.flows.exports.writing import check_file
from tercet.flows.results.metric_names import parse_metric
from tercet.flows.running.arguments import RunArguments
from tercet.flows.studies import arms as studies
from tercet.flows.studies import results as study_results
from tercet.flows.studies.arms import Outcome, PlannedArm
from tercet.flows.studies.results import Results
from tercet.flows.terminal import interrupts, text_table
from tercet.flows.terminal.failures import describe_failure
from tercet.flows.terminal.progress import say, show_step
from tercet.storage.store import FullDisk, Store, open_store
from tercet.tasks.stage import BadInput


def run_study(
    arguments: RunArguments,
    vary: Sequence[str],
    arms_file: str | None,
    metric: str | None,
    output: str,
    at_once: int = 1,
) -> int:
    """Runs every arm, then shows the results. Returns the exit code.

    arguments: arguments of `tercet run` for every arm. at_once: how many arms run at a time.
    Raises: BadInput, StoreError; KeyboardInterrupt is handled here.
    """
    command = again(arguments, vary, arms_file, metric, output, at_once)
    html = Path(output)
    if html.suffix != ".html":
        raise BadInput(
            "bad_value", f"-o {output!r} must end in .html; the table is written beside it as .csv."
        )
    check_file(html, replaces=True)
    arms = studies.arms_of(arguments.recipe, vary, arms_file, arguments.overrides)
    if metric is not None:
        parse_metric(metric)
    interrupts.listen()
    store = open_store(arguments.store)
    try:
        planned = studies.plan_arms(arms, store, arguments)
        if metric is not None:
            study_results.check_metric(parse_metric(metric), planned)
        say("\n".join(plan_lines(planned, store)))
        outcomes = list(_outcomes(planned, min(at_once, len(planned)), command))
    except KeyboardInterrupt:
        say(f"\nInterrupted; finished work is kept. Resume with:\n  {command}")
        return 130
    say("\n".join(_made_lines(outcomes)))
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if len(failed) < len(outcomes):
        arms_found = [study_results.read_arm(outcome, store) for outcome in outcomes]
        _show(study_results.results(arms_found, metric, store), arguments.recipe, html, command)
    if failed:
        names = ", ".join(repr(outcome.planned.arm.name) for outcome in failed)
        say(f"{len(failed)} of {len(outcomes)} arms failed ({names}). Resume with:\n  {command}")
        return 1
    return 0


def again(
    arguments: RunArguments,
    vary: Sequence[str],
    arms_file: str | None,
    metric: str | None,
    output: str,
    at_once: int = 1,
) -> str:
    """The command line that resumes the study."""
    recipe, *common = arguments.words()
    words = ["tercet", "study", recipe]
    for text in vary:
        words += ["--vary", text]
    if arms_file is not None:
        words += ["--arms", arms_file]
    words += common
    if metric is not None:
        words += ["--metric", metric]
    if at_once > 1:
        words += ["--at-once", str(at_once)]
    return shlex.join([*words, "-o", output])


def _outcomes(planned: Sequence[PlannedArm], at_once: int, command: str) -> Iterator[Outcome]:
    """The outcomes of the arms, in their order. Raises FullDisk, which stops all of them."""
    if at_once == 1:
        for number, one in enumerate(planned, 1):
            say(f"\nArm {number} of {len(planned)}: {one.arm.name}")
            yield _told(studies.run_arm(one, say, [show_step]), command)
        return
    longest = max(len(one.arm.name) for one in planned)
    outcomes: dict[int, Outcome] = {}
    say(f"\n{len(planned)} arms, {at_once} at a time:")
    with closing(studies.run_apart(planned, at_once)) as apart:
        for place, message in apart:
            if isinstance(message, Outcome):
                outcomes[place] = _told(message, command)
                message = (
                    f"is done: {len(outcomes)} of {len(planned)}" if not message.error else "failed"
                )
            for line in message.splitlines():
                say(f"{planned[place].arm.name:<{longest}} | {line}")
    yield from (outcomes[place] for place in range(len(planned)))


def _told(outcome: Outcome, command: str) -> Outcome:
    if isinstance(outcome.error, FullDisk):
        raise FullDisk(
            "no_space", f"{describe_failure(outcome.error)} Then: {command}"
        ) from outcome.error
    if outcome.error is not None:
        say(f"Arm {outcome.planned.arm.name!r} failed: {describe_failure(outcome.error)}")
    return outcome


def plan_lines(planned: Sequence[PlannedArm], store: Store) -> list[str]:
    """How the recipe was fitted to the corpus, if it was, and what the arms share, step by step."""
    counts = studies.step_counts(planned, store)
    rows = [(*count, count[2] - count[3]) for count in counts]
    lines, _ = text_table.render(["step", "arms", "artifacts", "exist", "to make"], rows)
    used = sum(arms for _, arms, _, _ in counts)
    artifacts = sum(distinct for _, _, distinct, _ in counts)
    # All arms have one corpus, and so one line, unless an arm changes a key that is fitted.
    chosen = dict.fromkeys(one.plan.chosen for one in planned if one.plan.chosen is not None)
    return [
        *chosen,
        *lines,
        f"{len(planned)} arms with {used} steps in all, {artifacts} of them distinct.",
    ]


def _made_lines(outcomes: Sequence[Outcome]) -> list[str]:
    counts = studies.made_and_reused(outcomes)
    rows = [(step, new, reused) for step, (new, reused) in counts.items()]
    lines, _ = text_table.render(["step", "made", "reused"], rows)
    new, reused = (sum(pair[side] for pair in counts.values()) for side in (0, 1))
    return ["", *lines, f"{new} artifacts made, {reused} reused."]


def _show(results: Results, recipe: str, html: Path, command: str) -> None:
    from tercet.flows.studies import page as study_page

    lines = study_page.table_of(results).text(text_table.terminal_width())
    table = html.with_suffix(".csv")
    study_page.write_csv(table, results)
    study_page.write_html(html, Path(recipe).name, results, command)
    unmeasured = [row for row in results.rows if row.why]
    with suppress(BrokenPipeError):
        print("\n".join(["", *lines]))
        for row in unmeasured:
            print(f"{row.arm.name}: {row.why}")
        print(f"Plot and table: {html}, {table}")
