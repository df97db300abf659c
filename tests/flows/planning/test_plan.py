"""A plan where weights are not here yet, so that the versions of what they make are unknown."""

from pathlib import Path

import pytest
from tiny_models import WORDS
from tiny_run import Finished, Tiny
from tiny_t5 import tiny_t5

from tercet.flows.commands.plan import show_plan
from tercet.flows.planning.plan import plan
from tercet.flows.recipe import file
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.storage.runs import resolve_run
from tercet.storage.store import open_store


def test_what_was_never_made_is_to_run_whatever_its_weights_are(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    store = tmp_path / "store"
    arguments = RunArguments(str(tiny.recipe), str(store), ("backbone=nobody/weights",))
    planned = plan(prepare(arguments))
    assert {step.state for step in planned} == {"run"}
    assert {step.step for step in planned if step.version is None} >= {"train", "evaluate.base"}
    show_plan(arguments)
    said = capsys.readouterr().out
    assert f"{len(planned)} steps: {len(planned)} to run; time unknown." in said
    # Something of another version lies here: it may be what these weights made, or not.
    open_store(str(store)).create("artifacts/train/0123456789abcdef/plan.json", b"[]")
    states = {step.step: (step.state, step.why) for step in plan(prepare(arguments))}
    assert states["train"] == ("unknown", ("weights not fetched yet",))
    assert states["evaluate.encoder"] == ("run", ("never run here",))
    show_plan(arguments)
    assert "1 unknown until their weights are fetched" in capsys.readouterr().out


def test_after_a_run_the_times_are_those_of_its_rows(finished: Finished) -> None:
    # Sentences are read anew, so that no later step knows yet how many it will read.
    change = ("ingest.min_words=4",)
    arguments = RunArguments(str(finished.tiny.recipe), str(finished.store), change)
    planned = plan(prepare(arguments))
    run = resolve_run(open_store(str(finished.store), create=False), None)
    took = {step["step"]: float(step["seconds"]) for step in run["steps"]}
    open_steps = {step.step: step for step in planned if step.rows is None}
    assert {"sample", "parse", "select", "train", "evaluate.encoder"} <= set(open_steps)
    for name, step in open_steps.items():
        if name != "ingest":  # a source is no other's
            assert step.seconds is not None
            assert step.seconds <= took[name]


@pytest.mark.parametrize("name", ["gense", "gense_plus", "gense_domain", "gense_cpu"])
def test_gense_s_recipes_are_planned_where_their_data_are(name: str, tmp_path: Path) -> None:
    """With local files in the place of the hub's, and nothing fetched."""
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"The list has {n} rows and one old value in it.\n" for n in range(9)))
    (tmp_path / "triplets.csv").write_text("sent0,sent1,hard_neg\nOne list.,A list.,No list.\n")
    # The hub's columns: those of yahoo-answers/title-answer-pair have another name.
    for corpus in ("eli5", "gooaq", "yahoo"):
        first = "title" if corpus == "yahoo" else "question"
        (tmp_path / f"{corpus}.csv").write_text(f"{first},answer\nWhich list?,The old one.\n")
    changes = []
    for number, corpus in enumerate(file.load(name).corpora):
        of_kind = corpus.name if corpus.kind == "pairs" else corpus.kind
        source = lines if corpus.kind is None else tmp_path / f"{of_kind}.csv"
        own = {"source": source, "name": corpus.name, "role": corpus.role}
        own |= {"kind": corpus.kind} if corpus.kind else {}
        if corpus.columns:
            columns = ", ".join(f"{ours}: {theirs}" for ours, theirs in corpus.columns.items())
            own |= {"columns": f"{{{columns}}}"}
        written = ", ".join(f"{key}: {value}" for key, value in own.items())
        changes.append(f"corpora.{number}={{{written}}}")
    if name != "gense_cpu":
        t5 = tiny_t5(tmp_path / "t5", WORDS)
        places = ("backbone", "models.writer.fit_generator.init")
        changes += [f"{place}={t5}" for place in places]
    store = str(tmp_path / "store")
    planned = plan(prepare(RunArguments(name, store, tuple(changes))))
    assert {step.state for step in planned} == {"run"}
    trained = [step.step for step in planned if step.step.startswith("train.")]
    assert trained == [f"train.{phase.name}" for phase in file.load(name).train.phases]
    made = {step.step for step in planned} & {"fit_generator.writer", "fit_pair.judge"}
    assert len(made) == 1


def test_the_endpoint_recipes_ceiling_is_above_what_its_anchors_take(tmp_path: Path) -> None:
    recipe = prepare(RunArguments("gcse_endpoint", str(tmp_path / "store"))).recipe
    # What a sentence of 20 tokens took with MiniLM's tokenizer, chat template and answers
    # included: 1,500 tokens for extraction and seven methods.
    assert recipe.run.llm.max_tokens_total is not None
    assert recipe.run.llm.max_tokens_total > 1.4 * 1_500 * (recipe.sample.rows or 0)
