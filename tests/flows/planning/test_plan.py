"""A plan where weights are not here yet, so that the versions of what they make are unknown."""

import shutil
from pathlib import Path

import pytest
import yaml
from commands_store import make_artifact
from tiny_models import WORDS
from tiny_run import Finished, Tiny
from tiny_t5 import tiny_t5

from tercet.flows.commands.plan import show_plan
from tercet.flows.pipeline.fingerprints import fingerprints, made_model, tagged_model
from tercet.flows.planning.plan import plan
from tercet.flows.recipe import file
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import RunPlan, prepare
from tercet.storage.runs import end_run, resolve_run, start_run
from tercet.storage.store import Store, open_store
from tercet.storage.tags import set_tag
from tercet.tasks.stage import BadInput


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


FIRST, SECOND, OTHER = (
    "pretrain.small@aaaaaaaaaaaa",
    "pretrain.small@bbbbbbbbbbbb",
    "x@cccccccccccc",
)


@pytest.fixture
def store(tmp_path: Path, tiny_backbone: Path) -> Store:
    store = open_store(str(tmp_path / "store"))
    for target in (FIRST, SECOND):
        make_artifact(store, *target.split("@"), {}, model=tiny_backbone)
    make_artifact(store, *OTHER.split("@"), {})
    return store


def arguments(tmp_path: Path) -> RunArguments:
    (tmp_path / "texts.txt").write_text("A text of five words.\n", encoding="utf-8")
    content = {
        "name": "borrower",
        "backbone": "borrowed",
        "models": {"borrowed": "tag:small"},
        "corpora": [{"name": "texts", "source": str(tmp_path / "texts.txt")}],
        "train": {"phases": [{"name": "only", "rows": "anchors", "loss": "info_nce"}]},
    }
    path = tmp_path / "borrower.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return RunArguments(str(path), str(tmp_path / "store"))


def versions(plan: RunPlan, store: Store) -> dict[str, str | None]:
    found = fingerprints(plan.steps, 42, store)
    return {name: one.version for name, one in found.items()}


def test_the_version_behind_the_tag_counts_and_its_name_does_not(
    tmp_path: Path, store: Store, tiny_backbone: Path
) -> None:
    given = arguments(tmp_path)
    set_tag(store, "small", FIRST)
    before = versions(prepare(given), store)
    set_tag(store, "other_name", FIRST)
    text = Path(given.recipe).read_text(encoding="utf-8")
    Path(given.recipe).write_text(text.replace("tag:small", "tag:other_name"), encoding="utf-8")
    assert versions(prepare(given), store) == before
    set_tag(store, "other_name", SECOND)
    after = versions(prepare(given), store)
    assert {name for name in before if before[name] != after[name]} == {
        "train",
        "evaluate.base",
        "evaluate.encoder",
    }
    folder = made_model(store, "aaaaaaaaaaaa")
    assert folder is not None
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        p.name for p in tiny_backbone.iterdir()
    )


def test_a_plan_names_a_tag_that_has_moved(
    tmp_path: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    given = arguments(tmp_path)
    set_tag(store, "small", FIRST)
    run = start_run(store, "borrower", {}, {"tags": {"small": FIRST}})
    end_run(store, run, "done", {})
    show_plan(given)
    assert "moved" not in capsys.readouterr().out
    set_tag(store, "small", SECOND)
    show_plan(given)
    said = f"tag:small has moved since the last run: {FIRST} → {SECOND}."
    assert said in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (None, "This store has no tags. Make the model first, and name it: tercet tag STEP@"),
        (OTHER, f"The tag 'small' names {OTHER}, which is not a model: tag the step that made"),
    ],
)
def test_a_tag_without_a_model_is_refused(tmp_path: Path, store: Store, target, words) -> None:
    if target is not None:
        set_tag(store, "small", target)
    with pytest.raises(BadInput, match=words):
        prepare(arguments(tmp_path))


def test_a_tag_of_a_removed_model_says_so(tmp_path: Path, store: Store) -> None:
    set_tag(store, "small", FIRST)
    with pytest.raises(BadInput, match="There is no tag 'other' in this store, only: small"):
        tagged_model(store, "other")
    shutil.rmtree(store.local(f"artifacts/{FIRST.replace('@', '/')}"))
    with pytest.raises(BadInput, match=f"The tag 'small' names {FIRST}, which was removed"):
        prepare(arguments(tmp_path))


def test_without_a_store_there_are_no_tags_and_none_is_made(tmp_path: Path) -> None:
    given = arguments(tmp_path)
    with pytest.raises(BadInput, match="The recipe takes tag:small from the store"):
        prepare(given)
    assert not Path(given.store).exists()
