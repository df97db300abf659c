"""One of several endpoints is not well: the run goes on, and its summary says which, and how."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from threading import Event

import pytest
import yaml
from faulty_server import FaultyServer, Reply, Seen, silent_port
from odd_answers import right
from tiny_run import Tiny

from tercet.flows.results import queries, summary
from tercet.flows.results.queries import Row
from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_step
from tercet.storage.catalog import views as catalog
from tercet.storage.store import open_store
from tercet.tasks.stage import silent
from tercet.tasks.warning import sentence

Asked = Callable[..., tuple[list[Row], list[str], str]]


def saying(text: str) -> Callable[[Seen], Reply]:
    body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
    return lambda seen: Reply(body=body, after=0.02)


@pytest.fixture(scope="module")
def asked(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Runs up to the candidates with these endpoints; a name of the model for each run."""
    folder = tmp_path_factory.mktemp("endpoints")
    (folder / "prompt.jinja").write_text("{{ sentence }}")

    def run(name: str, *urls: str) -> tuple[list[Row], list[str], str]:
        content = yaml.safe_load(tiny.recipe.read_text())
        content |= {
            "sample": {"rows": 60},
            "llm": {"name": name},
            "synthesise": {"rewrite": {"prompt": str(folder / "prompt.jinja")}},
            "select": {"pairing": "role"},
        }
        asking = {"concurrency": 4, "tries": 3, "timeout": 600, "patience": 600}
        content["run"]["llm"] = {"endpoints": list(urls), **asking}
        path = folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content))
        plan = prepare(RunArguments(str(path), str(folder / "store"), until="candidates"))
        said: list[str] = []
        with open_run(plan, said.append) as handle:
            for step in plan.steps:
                run_step(handle, step, silent)
        told = summary.summarise_run(plan, handle.run_id, "tercet run")
        with catalog.connect(open_store(plan.store, create=False)) as connection:
            return queries.read_warnings(connection), said, told

    return run


WORDS = "Der Bäcker hat gestern mit der Lehrerin über das neue Buch und die alte Stadt gesprochen."


@pytest.mark.parametrize(
    ("name", "behave", "kind", "fault"),
    [
        ("empty", saying(""), "no_text", "an answer without text"),
        ("page", lambda seen: Reply(body=b"<html>Hi.</html>"), "no_text", "is not JSON"),
        ("tags", saying("<html><body><p>Here is one for you.</p></body>"), "refused", "markup"),
        ("script", saying("猫坐在垫子上，狗在院子里跑来跑去。"), "refused", "wrong_script"),
        ("german", saying(WORDS), "refused", "wrong_language"),
    ],
)
def test_nonsense_of_one_endpoint_is_told_with_its_address(
    asked: Asked, name: str, behave: Callable[[Seen], Reply], kind: str, fault: str
) -> None:
    says, ready, done = right(random.Random(1)), Event(), Event()
    if kind == "no_text":
        ready.set()
        done.set()

    def well_says(seen: Seen) -> Reply:
        if seen.number < 15:
            return says(seen)
        # From here on, and until it has twenty rows, the other has its turn.
        ready.set()
        return replace(says(seen), held=done, after=600)

    def odd_says(seen: Seen) -> Reply:
        if seen.number >= 20:
            done.set()
        return replace(behave(seen), held=ready, after=600)

    with FaultyServer(well_says) as well, FaultyServer(odd_says) as odd:
        found, said, told = asked(name, well.url, odd.url)
    (row,) = (row for row in found if (row["kind"], row["key"]) == (kind, odd.url))
    assert 0 < row["count"] <= row["total"]
    line = sentence(row)
    assert odd.url in line
    assert fault in line
    assert line in said
    assert f"  {line}" in told.strip().splitlines()[:10]


def test_one_that_is_down_and_two_models_are_told_and_stop_no_run(asked: Asked) -> None:
    def page(root: str) -> dict[str, bytes]:
        return {"/v1/models": json.dumps({"data": [{"id": "mixed", "root": root}]}).encode()}

    with (
        silent_port() as port,
        FaultyServer(pages=page("a/small")) as one,
        FaultyServer(pages=page("a/large")) as other,
    ):
        found, said, _ = asked("mixed", f"http://127.0.0.1:{port}/v1", one.url, other.url)
    (unlike,) = (row for row in found if row["kind"] == "unlike")
    assert "with root small, and" in unlike["message"]
    (down,) = (row for row in found if row["kind"] == "no_text")
    assert f":{port}/v1 brought no text" in down["message"]
    assert any(f":{port}/v1 does not answer (ConnectError)" in line for line in said)
    assert len(one.times_asked()) + len(other.times_asked()) == 60
