from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run, version_of

from tercet.flows.commands.accept import accept_stage
from tercet.flows.pipeline import fingerprints
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import RunPlan, prepare
from tercet.storage.store import Store, StoreError, open_store
from tercet.tasks.stage import BadInput

RECIPE = """
name: herons
backbone: {backbone}
corpora:
  - {{name: herons, source: {corpus}}}
train:
  phases:
    - {{rows: anchors, loss: in_batch}}
"""


@pytest.fixture
def plan(tmp_path: Path) -> RunPlan:
    corpus, backbone = tmp_path / "herons.txt", tmp_path / "backbone"
    corpus.write_text("A heron waits in the water.\n")
    backbone.mkdir()
    (backbone / "config.json").write_text("{}")
    (backbone / "model.safetensors").write_bytes(b"")
    recipe = tmp_path / "herons.yaml"
    recipe.write_text(RECIPE.format(corpus=corpus, backbone=backbone))
    open_store(str(tmp_path / "store"))
    return prepare(RunArguments(str(recipe), str(tmp_path / "store")))


def made_before(
    plan: RunPlan,
    step: str,
    changed: Mapping[str, Any],
    module: str | None = None,
    without: str | None = None,
) -> str:
    """A run whose step was made when these components were others; returns its version.

    without: a table or TABLE.COLUMN that was not made then.
    """
    store = open_store(plan.store)
    own = fingerprints.fingerprints(plan.steps, plan.recipe.seed, store)[step]
    components = {**own.components, **changed}
    version = version_of(components)
    modules = {**own.modules, **({module: "0ld"} if module else {})}
    about = {"components": components, "modules": modules, "version": version}
    (stage,) = [one.stage for one in plan.steps if one.name == step]
    tables: dict[str, pa.Table] = {}
    for name, schema in stage.tables.items():
        columns = [column for column in schema if f"{name}.{column.name}" != without]
        if name != without:
            tables[name] = pa.schema(columns).empty_table()
    make_artifact(store, step, version, tables, about)
    content = plan.recipe.model_dump(mode="json")
    make_run(store, "herons", {step: (version, "made", {"t": 1})}, content)
    return version


def version_now(plan: RunPlan, step: str) -> str | None:
    store: Store = open_store(plan.store)
    return fingerprints.fingerprints(plan.steps, plan.recipe.seed, store)[step].version


def test_results_of_older_code_are_adopted(
    plan: RunPlan, capsys: pytest.CaptureFixture[str]
) -> None:
    old = made_before(plan, "ingest", {"code": "0ld"}, module="tercet.tasks.corpus.ingest")
    assert version_now(plan, "ingest") != old
    accept_stage("ingest", None, plan.store, None)
    assert version_now(plan, "ingest") == old
    said = capsys.readouterr().out
    assert said == f"ingest@{old} stays valid after the edit of tasks.corpus.ingest\n"
    with pytest.raises(BadInput, match="Nothing to accept"):
        accept_stage("ingest", None, plan.store, None)


@pytest.mark.parametrize("lacking", ["corpus_outcomes", "documents.label"])
def test_results_without_what_the_code_now_makes_are_refused(plan: RunPlan, lacking: str) -> None:
    old = made_before(plan, "ingest", {"code": "0ld"}, without=lacking)
    with pytest.raises(BadInput, match=f"Ingest has no {lacking}, which its code now makes. Run"):
        accept_stage("ingest", None, plan.store, None)
    assert version_now(plan, "ingest") != old


def test_a_recipe_may_be_named(plan: RunPlan) -> None:
    old = made_before(plan, "ingest", {"code": "0ld"})
    make_run(open_store(plan.store), "other", {})
    accept_stage("ingest", plan.arguments.recipe, plan.store, None)
    assert version_now(plan, "ingest") == old


def test_more_than_code_is_refused_with_what_it_is(plan: RunPlan) -> None:
    store = open_store(plan.store)
    own = fingerprints.fingerprints(plan.steps, plan.recipe.seed, store)["sample"]
    config = {**own.components["config"], "rows": 7}
    made_before(plan, "sample", {"code": "0ld", "config": config})
    before = version_now(plan, "sample")
    with pytest.raises(BadInput, match=r"differs in more than its code: config rows: 7 → none"):
        accept_stage("sample", None, plan.store, None)
    assert version_now(plan, "sample") == before


def test_an_input_that_changed_names_its_stage(plan: RunPlan) -> None:
    made_before(plan, "sample", {"code": "0ld", "inputs": {"sentences": ["another"]}})
    with pytest.raises(BadInput, match="of ingest did, accept it first"):
        accept_stage("sample", None, plan.store, None)


def test_nothing_to_adopt(plan: RunPlan) -> None:
    with pytest.raises(StoreError, match="no runs"):
        accept_stage("ingest", None, plan.store, None)
    made_before(plan, "ingest", {"code": "0ld"})
    with pytest.raises(BadInput, match="no stage 'select'"):
        accept_stage("select", None, plan.store, None)
    with pytest.raises(BadInput, match="no finished result"):
        accept_stage("sample", None, plan.store, None)
