"""`tercet try` for rules and for what changes a fact; more: flows/whole/test_llm_asking.py."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from failures import fails
from tiny_run import documents, write_corpus, write_recipe

from tercet.flows.commands.try_method import try_method
from tercet.flows.running.arguments import RunArguments
from tercet.storage.artifacts import all_artifacts
from tercet.storage.store import open_store


@pytest.fixture
def arguments(tiny_backbone: Path, tmp_path: Path) -> RunArguments:
    corpus, recipe = tmp_path / "prose.jsonl", tmp_path / "tiny.yaml"
    write_corpus(corpus, documents(60))
    write_recipe(recipe, corpus, tiny_backbone)
    return RunArguments(str(recipe), str(tmp_path / "store"))


def shown(out: str) -> Sequence[dict[str, str]]:
    """The rows that were printed, label to text."""
    rows = [block.splitlines()[1:] for block in out.split("── ")[1:]]
    return [
        {line[:9].strip(): line[10:] for line in row if line[:1].isalpha() and line[9:10] == " "}
        for row in rows
    ]


def test_rows_of_a_rule_with_their_anchors_and_nothing_kept(
    arguments: RunArguments, capsys: pytest.CaptureFixture[str]
) -> None:
    try_method(arguments, "entity_swap", 6)
    out = capsys.readouterr().out
    rows = shown(out)
    assert len(rows) == 6
    assert len({row["anchor"] for row in rows}) == 6
    for row in rows:
        old, _, new = row["changed"].removesuffix(" (T_p)").removesuffix(" (T_r)").partition(" → ")
        assert row["anchor"] != row["negative"]
        assert old in row["anchor"]
        assert new in row["negative"]
    store = open_store(arguments.store)
    steps = {artifact.step for artifact in all_artifacts(store)}
    assert {"ingest", "extract", "graph"} <= steps
    assert not {step for step in steps if step.startswith("synthesise")}
    # The same rows again, from what is there.
    try_method(arguments, "entity_swap", 6)
    assert capsys.readouterr().out == out
    try_method(arguments, "next_sentences", 2)
    assert {"anchor", "positive"} == set(shown(capsys.readouterr().out)[0])


def test_a_method_that_the_recipe_lacks(arguments: RunArguments) -> None:
    with fails("unknown_name", "'synonym'", "entity_swap"):
        try_method(arguments, "synonym", 1)
