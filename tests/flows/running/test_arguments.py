"""A run's arguments: the same on the command line, in Prefect and in the store's notes."""

import json

import pytest

from tercet.flows.running.arguments import DEFAULT_STORE, RunArguments, usual_store


def test_words_start_the_same_run_again() -> None:
    given = RunArguments("quickstart", "st", ("a.b=1", "c=[1, 2]"), "pydocs", "select", 5, 0)
    assert given.words() == [
        *("quickstart", "--corpus", "pydocs", "--until", "select", "--limit", "5", "--seed", "0"),
        *("--set", "a.b=1", "--set", "c=[1, 2]", "--store", "st"),
    ]
    assert RunArguments("quickstart").words() == ["quickstart"]
    # Prefect keeps them as JSON.
    parameters = RunArguments("quickstart", overrides=("a=1",)).parameters()
    assert json.loads(json.dumps(parameters)) == parameters


def test_the_store_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERCET_STORE", "s3://bucket/ours")
    assert usual_store() == "s3://bucket/ours"
    monkeypatch.setenv("TERCET_STORE", "")
    assert usual_store() == DEFAULT_STORE
