"""Runs that ask a language model: a real vLLM server, managed by Tercet and as an endpoint."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml
from tiny_run import Tiny, ended_well, query, start, states, tercet

# However late it is killed, a run of this has not got all of its answers.
HELD = """
import time
from tercet.flows.cli import main
from tercet.storage.answers.pool import Pool
real, added = Pool.add, []
def add(self, values):
    added.append(values)
    while len(added) > 150:
        time.sleep(1)
    return real(self, values)
Pool.add = add
main()
"""

METHODS = (
    *("rewrite", "precede", "from_knowledge", "antisense", "entity_revision"),
    *("quantity_revision", "from_changed_knowledge"),
)


def llm_recipe(
    tiny: Tiny, path: Path, llm: dict[str, Any], asking: dict[str, Any], **changes: Any
) -> Path:
    """The tiny recipe with prompted methods alone, over fewer anchors."""
    recipe = yaml.safe_load(tiny.recipe.read_text())
    recipe |= {
        "name": path.stem,
        "sample": {"rows": 60},
        "llm": {"max_tokens": 24, "temperature": 1.0, **llm},
        "synthesise": dict.fromkeys(METHODS),
        "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0},
    }
    recipe["run"]["llm"] = asking
    path.write_text(yaml.safe_dump({**recipe, **changes}, sort_keys=False))
    return path


def words(recipe: Path, store: Path, *options: str) -> list[str]:
    return ["run", str(recipe), "--no-server", "--store", str(store), *options]


def processes(model: Path) -> list[psutil.Process]:
    """What lives of vLLM servers for this model: those that name it, and all of their sessions."""
    found, sessions = [], set()
    everything = list(psutil.process_iter())
    for process in everything:
        try:
            if str(model) in process.cmdline() and not runs_tercet(process):
                sessions.add(os.getsid(process.pid))
        except (psutil.Error, ProcessLookupError):
            continue
    for process in everything:
        try:
            if os.getsid(process.pid) in sessions:
                found.append(process)
        except ProcessLookupError:
            continue
    return found


def runs_tercet(process: psutil.Process) -> bool:
    return "run" in process.cmdline()


def supervisor(process: psutil.Process) -> bool:
    return any(word.endswith("supervisor.py") for word in process.cmdline())


def servers(model: Path) -> list[psutil.Process]:
    """Of these the server itself, which names the model."""
    found = []
    for process in processes(model):
        # Some of what it starts lives for a moment only.
        with contextlib.suppress(psutil.Error):
            if str(model) in process.cmdline() and not supervisor(process):
                found.append(process)
    return found


@pytest.fixture(scope="module")
def talker(tiny_llm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The random model, with many tokens that end an answer, so that most are not cut off."""
    model = Path(shutil.copytree(tiny_llm, tmp_path_factory.mktemp("talker") / "model"))
    vocabulary = json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]
    # Control characters, which no JSON holds: a schema can still be kept.
    ends = [0, *(vocabulary[chr(256 + byte)] for byte in range(32))]
    (model / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    return model


@pytest.fixture(scope="module")
def managed(
    tiny: Tiny, talker: Path, vllm_python: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, "subprocess.CompletedProcess[str]"]:
    """A run of all methods with a server that Tercet starts: recipe, store, how it ended."""
    folder = tmp_path_factory.mktemp("managed")
    recipe = llm_recipe(
        tiny,
        folder / "managed.yaml",
        {"model": str(talker)},
        {"engine": {"python": vllm_python, "max_num_seqs": 64}},
    )
    done = tercet(*words(recipe, folder / "store", "--until", "triplets"))
    return recipe, folder / "store", ended_well(done)


def test_all_methods_run_end_to_end_to_triplets(managed: tuple[Path, Path, Any]) -> None:
    _, store, _ = managed
    said = dict(query(store, "SELECT method, count(*) FROM generations GROUP BY 1"))
    assert set(METHODS) <= set(said)
    # All of them have candidates, and the triplets have texts that the model said.
    made = dict(query(store, "SELECT method, count(*) FROM candidates GROUP BY 1"))
    assert {"rewrite", "precede", "antisense"} <= set(made)
    ((written,),) = query(
        store,
        """SELECT count(*) FROM triplets t JOIN candidates c ON c.candidate_id = t.positive_id
           WHERE c.method IN ('rewrite', 'precede', 'from_knowledge')""",
    )
    assert written > 0
    # Each row is explained: who said it, on what prompt, and what was to be changed.
    (wrong,) = query(
        store,
        """SELECT count(*) FROM generations WHERE method <> 'random' AND (model IS NULL
           OR length(prompt) < 40 OR request_digest IS NULL OR n_tokens IS NULL)""",
    )
    assert wrong == (0,)
    (chained,) = query(
        store,
        """SELECT count(*) FROM triplets t
           JOIN candidates c ON c.candidate_id IN (t.positive_id, t.negative_id)
           JOIN generations g USING (generation_id) JOIN responses r USING (request_digest)
           WHERE r.raw = g.raw AND g.prompt IS NOT NULL""",
    )
    assert chained[0] > 0


def test_every_answer_is_in_the_pool_once(managed: tuple[Path, Path, Any]) -> None:
    _, store, _ = managed
    ((asked, distinct),) = query(
        store, "SELECT count(*), count(DISTINCT request_digest) FROM responses"
    )
    assert (
        asked
        == distinct
        == query(store, "SELECT count(*) FROM generations WHERE request_digest IS NOT NULL")[0][0]
    )


def test_the_server_is_gone_and_the_summary_tells_its_cost(
    managed: tuple[Path, Path, Any], talker: Path
) -> None:
    _, _, done = managed
    assert "tokens" in done.stdout
    assert processes(talker) == []


def test_the_same_run_again_starts_no_server(managed: tuple[Path, Path, Any]) -> None:
    recipe, store, first = managed
    done = ended_well(tercet(*words(recipe, store, "--until", "triplets")))
    assert "starts on port" in first.stderr
    assert "vLLM" not in done.stderr
    assert set(states(store).values()) == {"reused"}


def test_another_recipe_asks_only_for_what_nobody_has(
    managed: tuple[Path, Path, Any], tmp_path: Path
) -> None:
    """Fewer rows of one method, and another check: answers of the pool, no server, no question."""
    recipe, store, _ = managed
    content = yaml.safe_load(recipe.read_text())
    content |= {"name": "other", "parse": {"min_words": 2}}
    content["synthesise"]["rewrite"] = {"weight": 0.5}
    content["run"]["llm"]["engine"]["python"] = "/no/such/python"
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump(content))
    before = query(store, "SELECT count(*) FROM responses")
    ended_well(tercet(*words(other, store, "--until", "triplets")))
    assert query(store, "SELECT count(*) FROM responses") == before
    assert states(store)["synthesise.rewrite"] == "made"


def slow(tiny: Tiny, path: Path, talker: Path, asking: dict[str, Any]) -> Path:
    """A recipe that keeps a small server busy for some time."""
    return llm_recipe(
        tiny,
        path,
        {"model": str(talker), "max_tokens": 200},
        # A server that is started again may take minutes.
        asking | {"concurrency": 16, "list_size": 4, "patience": 1800},
        sample={"rows": 100},
        synthesise={"rewrite": {"per_unit": 2}, "antisense": None},
    )


def answers(store: Path) -> int:
    """Answers that the store holds by now."""
    try:
        return int(query(store, "SELECT count(*) FROM responses")[0][0])
    except Exception:
        return 0


def until(reached: Callable[[], bool], seconds: float = 900) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_killed_server_is_started_again_and_the_run_goes_on(
    tiny: Tiny, talker: Path, vllm_python: str, tmp_path: Path
) -> None:
    engine = {"engine": {"python": vllm_python, "max_num_seqs": 4}}
    recipe = slow(tiny, tmp_path / "killed.yaml", talker, engine)
    for number in range(5):
        # A run that had all of its answers leaves nothing open to kill: on with a new store.
        store = tmp_path / f"store-{number}"
        child = start(*words(recipe, store, "--until", "generations"))
        until(lambda store=store: answers(store) > 20)
        for server in servers(talker):
            server.kill()
        _, stderr = child.communicate(timeout=1200)
        assert child.returncode == 0, stderr
        ((asked, distinct, sent),) = query(
            store,
            "SELECT count(*), count(DISTINCT request_digest), sum(attempts) FROM responses",
        )
        assert asked == distinct == 300
        if sent > asked:
            break
    assert "again" in stderr
    # What was open when it died was sent again, and hardly more: a model of random weights says
    # nothing now and then, which is asked again too.
    assert 0 < sent - asked <= 3 * 16 + asked // 5
    assert processes(talker) == []


def test_a_killed_run_takes_its_server_along_and_goes_on(
    tiny: Tiny, talker: Path, vllm_python: str, tmp_path: Path
) -> None:
    engine = {"engine": {"python": vllm_python, "max_num_seqs": 4}}
    recipe = slow(tiny, tmp_path / "killed.yaml", talker, engine)
    store = tmp_path / "store"
    arguments = words(recipe, store, "--until", "generations")
    child = start(*arguments, script=HELD)
    until(lambda: answers(store) > 20)
    assert processes(talker)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    ((kept,),) = query(store, "SELECT count(*) FROM responses")
    until(lambda: processes(talker) == [])
    ended_well(tercet(*arguments))
    rows = query(store, "SELECT run_id, count(*) FROM responses GROUP BY 1 ORDER BY min(created)")
    assert [count for _, count in rows] == [kept, 300 - kept]


def test_an_interrupt_is_heard_while_the_server_starts(
    tiny: Tiny, talker: Path, vllm_python: str, tmp_path: Path
) -> None:
    recipe = slow(tiny, tmp_path / "starts.yaml", talker, {"engine": {"python": vllm_python}})
    child = start(*words(recipe, tmp_path / "store", "--until", "generations"))
    until(lambda: bool(servers(talker)))
    # However late the interrupt comes, the server still starts.
    for server in servers(talker):
        server.suspend()
    time.sleep(1)
    os.kill(child.pid, signal.SIGINT)
    _, stderr = child.communicate(timeout=600)
    assert child.returncode == 130
    assert "Resume with:" in stderr
    assert "answers after" not in stderr
    until(lambda: processes(talker) == [])


def test_the_log_of_a_server_that_could_not_start_is_there_to_be_read(
    tiny: Tiny, talker: Path, vllm_python: str, tmp_path: Path
) -> None:
    model = Path(shutil.copytree(talker, tmp_path / "strange"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "architectures": ["NoSuchModel"]}))
    recipe = slow(tiny, tmp_path / "strange.yaml", model, {"engine": {"python": vllm_python}})
    done = tercet(*words(recipe, tmp_path / "store", "--until", "generations"))
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert "NoSuchModel" in last
    named = re.search(r"its log: ([^)]+)\)", last)
    assert named
    assert "NoSuchModel" in Path(named[1]).read_text()


def test_a_real_endpoint_is_asked_twice_only_what_was_open(
    tiny: Tiny, talker: Path, vllm_python: str, tmp_path: Path
) -> None:
    from tercet.models.llm.run_settings import EngineSettings
    from tercet.models.llm.settings import LlmSettings
    from tercet.models.llm.vllm.engine import Engine

    settings = EngineSettings(python=vllm_python, max_num_seqs=4)
    engine = Engine(talker, LlmSettings(model=str(talker)), settings, tmp_path / "log", print)
    url = engine.start()
    try:
        recipe = slow(tiny, tmp_path / "endpoint.yaml", talker, {"endpoints": [url]})
        store = tmp_path / "store"
        arguments = words(recipe, store, "--until", "generations")
        child = start(*arguments)
        until(lambda: answers(store) > 20)
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        ended_well(tercet(*arguments))
        metrics = httpx.get(f"{url.removesuffix('/v1')}/metrics", timeout=600).text
        counted = re.findall(r"^vllm:request_success_total\{.*\} ([\d.]+)$", metrics, re.MULTILINE)
        # The server's own count, of requests that it ended and of those that the kill broke off.
        assert answers(store) == 300
        # Where the model of random weights said nothing, the same run asked again; so the kill may
        # have lost more than one request of each of the 16 rows in flight.
        ((sent,),) = query(store, "SELECT sum(attempts) FROM responses")
        assert 300 <= sum(float(count) for count in counted) <= sent + 2 * 16
        # Extraction by a schema, from the same server: what stops by itself is JSON.
        said = llm_recipe(
            tiny,
            tmp_path / "extraction.yaml",
            {"model": str(talker)},
            {"endpoints": [url]},
            extract_generate={"max_tokens": 160, "temperature": 1.0},
            # One that needs nothing of what was extracted, and one that does.
            synthesise={"rewrite": None, "entity_revision": None},
        )
        ended_well(tercet(*words(said, tmp_path / "extracted", "--until", "triplets")))
    finally:
        engine.stop()
    rows = query(
        tmp_path / "extracted",
        "SELECT raw, finish_reason FROM generations WHERE purpose = 'extraction'",
    )
    assert len(rows) == 60
    stopped = [raw for raw, reason in rows if reason == "stop"]
    assert stopped
    for raw in stopped:
        assert {"category", "entities", "quantities"} == json.loads(raw).keys()
    reasons = query(
        tmp_path / "extracted",
        "SELECT DISTINCT reason FROM rejects WHERE stage = 'extract_parse'",
    )
    assert ("not_json",) not in reasons
