"""Runs that ask real language models, which Tercet serves by vLLM one after another."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from faulty_server import until
from llm_recipe import words
from tiny_generators import tiny_causal
from tiny_run import ROOT, Tiny, ended_well, query, start, states, tercet

from tercet.models.generators import layout

# However late it is killed, a run of this has not got all of its answers.
HELD = """
import time
from tercet.flows.cli import main
from tercet.storage.answers import Pool
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


def processes(model: Path) -> list[psutil.Process]:
    """What lives of vLLM servers for this model: those that name it, and all of their sessions."""
    alive, sessions = [], set()
    everything = list(psutil.process_iter())
    for process in everything:
        try:
            if str(model) in process.cmdline() and "run" not in process.cmdline():
                sessions.add(os.getsid(process.pid))
        except (psutil.Error, ProcessLookupError):
            continue
    for process in everything:
        try:
            if os.getsid(process.pid) in sessions:
                alive.append(process)
        except ProcessLookupError:
            continue
    return alive


def servers(model: Path) -> list[psutil.Process]:
    """Of these the server itself, which names the model."""
    alive = []
    for process in processes(model):
        # Some of what it starts lives for a moment only.
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if str(model) in words and not any(word.endswith("supervisor.py") for word in words):
                alive.append(process)
    return alive


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
def writer(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generator that knows the corpus's words: no sentence is so long in tokens that it is cut.

    Its template's letters would be other tokens if they were joined to a sentence's.
    """
    texts = [json.loads(line) for line in tiny.corpus.read_text().splitlines()]
    words = sorted({word for row in texts for word in " ".join(row.values()).split()})
    folder = tiny_causal(tmp_path_factory.mktemp("served") / "writer", words)
    around = {"before": words[0][:2], "after": words[1][-2:]}
    layout.write(folder, layout.read(folder).model_copy(update=around))
    return folder


@pytest.fixture(scope="module")
def managed(
    tiny: Tiny,
    talker: Path,
    writer: Path,
    vllm_python: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Path, "subprocess.CompletedProcess[str]"]:
    """A run of all methods with servers that Tercet starts: recipe, store, how it ended.

    The generator's method stands before the language model's.
    """
    folder = tmp_path_factory.mktemp("managed")
    served = {"model": str(writer), "backend": "vllm", "temperature": 0, "max_tokens": 24}
    recipe = llm_recipe(
        tiny,
        folder / "managed.yaml",
        {"model": str(talker)},
        {"engine": {"python": vllm_python, "max_num_seqs": 64}},
        generators={"small": served},
        synthesise={"paraphrase": {"generator": "small"}, **dict.fromkeys(METHODS)},
    )
    done = tercet(*words(recipe, folder / "store", "--until", "triplets"))
    return recipe, folder / "store", ended_well(done)


def test_all_methods_run_end_to_end_to_triplets(managed: tuple[Path, Path, Any]) -> None:
    _, store, _ = managed
    asked_of = dict(query(store, "SELECT method, count(*) FROM generations GROUP BY 1"))
    assert set(METHODS) <= set(asked_of)
    # All of them have candidates, and the triplets have texts that the model said.
    candidates = dict(query(store, "SELECT method, count(*) FROM candidates GROUP BY 1"))
    assert {"rewrite", "precede", "antisense"} <= set(candidates)
    ((written,),) = query(
        store,
        """SELECT count(*) FROM triplets t JOIN candidates c ON c.candidate_id = t.positive_id
           WHERE c.method IN ('rewrite', 'precede', 'from_knowledge')""",
    )
    assert written > 0
    # Each row is explained: who said it, on what prompt; and every answer is in the pool once.
    ((asked, wrong, digests),) = query(
        store,
        """SELECT count(*), count(*) FILTER (model IS NULL OR length(prompt) < 40
            OR n_tokens IS NULL), count(DISTINCT request_digest)
           FROM generations WHERE method NOT IN ('random', 'paraphrase')""",
    )
    assert (wrong, digests) == (0, asked)
    ((pooled, distinct),) = query(
        store, "SELECT count(*), count(DISTINCT request_digest) FROM responses"
    )
    assert asked < pooled == distinct


def test_each_server_ends_before_the_next_starts(
    managed: tuple[Path, Path, Any], talker: Path, writer: Path
) -> None:
    """The first answers the language model's methods, the second the generator's."""
    recipe, store, done = managed
    marks = r"starts on port|vLLM ended in|^synthesise\.(?:antisense|paraphrase)|^embed"
    events = re.findall(marks, done.stderr, re.MULTILINE)
    assert events.count("starts on port") == events.count("vLLM ended in") == 2
    order = [one for one in events if "vLLM" in one or "port" in one]
    assert order == ["starts on port", "vLLM ended in"] * 2
    # Neither stands in the memory that the encoder needs.
    assert "embed" not in events[: len(events) - events[::-1].index("vLLM ended in")]
    assert processes(talker) == processes(writer) == []
    # The same run again starts none.
    done = ended_well(tercet(*words(recipe, store, "--until", "triplets")))
    assert "vLLM" not in done.stderr
    assert set(states(store).values()) == {"reused"}


def test_a_served_generator_writes_what_it_writes_here(
    managed: tuple[Path, Path, Any], tmp_path: Path
) -> None:
    recipe, store, _ = managed
    asked = "SELECT sentence_id, raw FROM generations WHERE method = 'paraphrase'"
    content = yaml.safe_load(recipe.read_text())
    here = {**content["generators"]["small"], "backend": "transformers"}
    here |= {"beams": 1, "no_repeat": 0, "max_new": 20}
    content |= {"name": "here", "generators": {"small": here}, "llm": None}
    content["synthesise"] = {"paraphrase": {"generator": "small"}, "random": None}
    path = tmp_path / "here.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    ended_well(tercet(*words(path, tmp_path / "here", "--until", "parse")))
    served, local = dict(query(store, asked)), dict(query(tmp_path / "here", asked))
    assert served.keys() == local.keys()
    # A random model writes halves of characters, which a server leaves out.
    pairs = [[text[one].replace("\ufffd", "") for text in (served, local)] for one in local]
    # Two programs round differently, and a random model is soon undecided.
    assert sum(one != other for one, other in pairs) <= 3, pairs


def slow(tiny: Tiny, path: Path, talker: Path, python: str) -> Path:
    """A recipe that keeps a small server busy for some time."""
    return llm_recipe(
        tiny,
        path,
        {"model": str(talker), "max_tokens": 200},
        # A server that is started again may take minutes.
        {"engine": {"python": python, "max_num_seqs": 4}, "patience": 1800} | {"concurrency": 16},
        sample={"rows": 100},
        synthesise={"rewrite": {"per_unit": 2}, "antisense": None},
    )


def answers(store: Path) -> int:
    """Answers that the store holds by now."""
    try:
        return int(query(store, "SELECT count(*) FROM responses")[0][0])
    except Exception:
        return 0


def test_a_killed_server_is_started_again_and_the_run_goes_on(
    tiny: Tiny, talker: Path, vllm_python: str, tmp_path: Path
) -> None:
    recipe = slow(tiny, tmp_path / "killed.yaml", talker, vllm_python)
    for number in range(5):
        # A run that had all of its answers leaves nothing open to kill: on with a new store.
        store = tmp_path / f"store-{number}"
        child = start(*words(recipe, store, "--until", "generations"))
        assert until(lambda store=store: answers(store) > 20, 900)
        for server in servers(talker):
            server.kill()
        _, stderr = child.communicate(timeout=1200)
        assert child.returncode == 0, stderr
        counts = "count(*), count(DISTINCT request_digest), sum(attempts)"
        ((asked, distinct, sent),) = query(store, f"SELECT {counts} FROM responses")
        assert asked == distinct == 300
        if sent > asked:
            break
    # What was open when it died was sent again, and hardly more: a model of random weights says
    # nothing now and then, which is asked again too.
    assert 0 < sent - asked <= 3 * 16 + asked // 5
    assert processes(talker) == []


def test_a_killed_run_takes_its_server_along_and_goes_on(
    tiny: Tiny, talker: Path, vllm_python: str, tmp_path: Path
) -> None:
    recipe = slow(tiny, tmp_path / "killed.yaml", talker, vllm_python)
    store = tmp_path / "store"
    arguments = words(recipe, store, "--until", "generations")
    child = start(*arguments, script=HELD)
    assert until(lambda: answers(store) > 20, 900)
    assert processes(talker)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    ((kept,),) = query(store, "SELECT count(*) FROM responses")
    assert until(lambda: processes(talker) == [], 900)
    ended_well(tercet(*arguments))
    rows = query(store, "SELECT run_id, count(*) FROM responses GROUP BY 1 ORDER BY min(created)")
    assert [count for _, count in rows] == [kept, 300 - kept]


@pytest.mark.slow
def test_what_a_real_model_rewords_ends_in_triplets(
    smollm2: Path, vllm_python: str, minilm: Path, tmp_path: Path
) -> None:
    """`gcse_small` in little: SmolLM2 rewords a few sentences, rules change facts."""
    lines = (ROOT / "recipes" / "plain_english.txt").read_text(encoding="utf-8").splitlines()
    corpus, store = tmp_path / "lines.txt", tmp_path / "store"
    corpus.write_text("".join(f"{line}\n" for line in lines[:40]), encoding="utf-8")
    given = ["--until", "select", "--set", f"run.llm.engine.python={vllm_python}"]
    run = ["run", "gcse_small", "--corpus", str(corpus), "--no-server", "--store", str(store)]
    ended_well(tercet(*run, *given))
    ((anchors,),) = query(store, "SELECT count(DISTINCT sentence_id) FROM triplets")
    asked = query(
        store,
        """SELECT method, count(*), count(*) FILTER (raw <> '') FROM generations
        WHERE model IS NOT NULL GROUP BY ALL ORDER BY ALL""",
    )
    assert asked == [("paraphrase", anchors, anchors), ("rewrite", anchors, anchors)]
    # An answer is a candidate or has a reason; those that train are other words for the sentence.
    ((lost,),) = query(
        store,
        """SELECT count(*) FROM generations WHERE generation_id NOT IN
        (SELECT generation_id FROM candidates WHERE generation_id IS NOT NULL UNION ALL
         SELECT row_id FROM rejects WHERE stage = 'parse')""",
    )
    assert lost == 0
    trained = query(
        store,
        """SELECT anchor, positive, negative, negative_method FROM triplets
        WHERE positive_method IN ('rewrite', 'paraphrase')""",
    )
    assert len(trained) > anchors / 4
    assert all(anchor != positive != negative for anchor, positive, negative, _ in trained)
    assert any(method != "random" for *_, method in trained)
