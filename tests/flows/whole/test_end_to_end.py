"""A whole run in processes of its own: what it says, what a second one costs, what SQL tells."""

import contextlib
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TypeAlias

import duckdb
import pytest
import yaml
from faulty_server import until
from tiny_run import (
    LIMIT,
    MAIN,
    WARNED,
    Finished,
    Tiny,
    copy_of,
    ended_well,
    environment,
    held_up,
    query,
    records,
    start,
    started_anew,
    states,
    tercet,
)
from warm import Child

from tercet.storage import runs
from tercet.storage.store import Store, open_store

STEPS = {
    *("ingest", "sample", "extract", "graph", "parse", "embed", "score.evaluator", "select"),
    *("synthesise.next_sentences", "synthesise.word_repetition", "synthesise.entity_swap"),
    *("synthesise.quantity_change", "synthesise.random"),
    *("evaluate.base", "train", "evaluate.encoder"),
}

# Why a triplet is there: back to its document, its sentence, the entity that was mentioned, and the
# edges of the graph by which another entity came into its place.
WHY = """
SELECT d.path AS document, s.text AS sentence, t.negative, t.negative_similarity,
       m.text AS entity, c.detail.new AS swapped_for, kind.text AS both_are, c.detail.pool AS pool
FROM triplets t
JOIN candidates c ON c.candidate_id = t.negative_id
JOIN generations g ON g.generation_id = c.generation_id
JOIN sentences s ON s.sentence_id = t.sentence_id
JOIN documents d ON d.doc_id = s.doc_id
JOIN mentions m ON m.mention_id = c.detail.mention_id
JOIN kg_nodes kind ON kind.kind = 'type' AND kind.text = m.type
JOIN kg_edges was ON was.kind = 'hard' AND was.source = m.node_id AND was.target = kind.node_id
JOIN kg_edges now ON now.kind = 'hard' AND now.source = c.detail.node_id
     AND now.target = kind.node_id
WHERE g.method = 'entity_swap'
ORDER BY t.triplet_id
"""

# Runs of eight words that training texts and test texts have in common, and how many there are on
# either side. What a rule has put in (`new`) may make such a run by chance, and is told apart.
SHARED_GRAMS = """
WITH texts AS (
    SELECT 'train' AS side, unnest([anchor, positive]) AS text, NULL AS new FROM triplets
    UNION ALL SELECT 'train', negative, detail.new
        FROM triplets JOIN candidates ON candidate_id = negative_id
    UNION ALL SELECT 'test', text, NULL FROM sentences WHERE split = 'test'
    UNION ALL SELECT 'test', unnest([query, answer]), NULL FROM document_pairs WHERE split = 'test'
), words AS (
    SELECT side, lower(new) AS new, regexp_extract_all(lower(text), '[\\p{L}\\p{M}\\p{N}]+') AS w
    FROM texts
), grams AS (
    SELECT side, new, unnest([w[i:i + 7] for i in range(1, greatest(len(w) - 6, 2))]) AS gram
    FROM words
)
SELECT count(*) FILTER (gram IN (SELECT gram FROM grams WHERE side = 'test')
                        AND (new IS NULL OR NOT list_contains(gram, new))) AS shared,
       count(*) AS of_train, (SELECT count(*) FROM grams WHERE side = 'test') AS of_test
FROM grams WHERE side = 'train'
"""

TEST_TEXTS_IN_TRAINING = """
WITH test AS (
    SELECT text FROM sentences WHERE split = 'test'
    UNION SELECT unnest([query, answer]) FROM document_pairs WHERE split = 'test'
)
SELECT text FROM test JOIN (SELECT unnest([anchor, positive, negative]) AS said FROM triplets)
ON contains(lower(said), lower(text))
"""

# The store, how two runs on it ended, and what others saw meanwhile.
Two: TypeAlias = tuple[Path, list[subprocess.CompletedProcess[str]], list[tuple[str, str]]]

NO_NETWORK = f"""
import socket, sys
def denied(*arguments, **settings):
    raise OSError("the network was asked for")
socket.socket.connect = socket.create_connection = socket.getaddrinfo = denied
{MAIN}
"""

TELLS_MODULES = """
import sys
from tercet.flows.cli import main
try:
    main()
finally:
    heavy = {"torch", "transformers", "sentence_transformers", "prefect", "datasets"}
    print("imported:", sorted(heavy & set(sys.modules)))
"""


def test_summary_has_before_and_after_with_an_interval(finished: Finished) -> None:
    assert states(finished.store) == dict.fromkeys(STEPS, "made")
    (line,) = [one for one in finished.stdout.splitlines() if "test, recall@10 " in one]
    rows = query(
        finished.store,
        """SELECT phase, value, n FROM evaluations
        WHERE metric = 'recall@10' AND subset = 'test' ORDER BY phase = 'encoder'""",
    )
    before, after, count = rows[0][1], rows[1][1], rows[0][2]
    assert [f"{before:.2f}", f"{after:.2f}"] == line.split("recall@10")[1].split()[:2]
    assert line.split()[-1] == str(count)
    assert " to " in line


def test_the_commands_that_are_told_answer_and_reuse_every_step(
    finished: Finished, tmp_path: Path
) -> None:
    for title, column in (("Query next", "anchor"), ("Acceptance by method", "accepted")):
        words = shlex.split(_after(finished.stdout, title))
        assert words.pop(0) == "tercet"
        assert column in ended_well(tercet(*words)).stdout.splitlines()[0]
    store = copy_of(finished.store, tmp_path / "store")
    command = _after(finished.stdout, "Same run again").replace(str(finished.store), str(store))
    words = shlex.split(command)
    assert words.pop(0) == "tercet"
    done = ended_well(started_anew(*words, script=TELLS_MODULES))
    assert states(store) == dict.fromkeys(STEPS, "reused")
    assert "imported: []" in done.stdout
    before = {path: record["created"] for path, record in records(open_store(str(finished.store)))}
    after = {path: record["created"] for path, record in records(open_store(str(store)))}
    assert before == after


def test_plan_says_beforehand_that_all_is_reused(finished: Finished) -> None:
    """Without any network: in a network of its own where the system allows that."""
    words = [*finished.tiny.words(finished.store)]
    words = ["plan", *[word for word in words[1:] if word != "--no-server"]]
    program = [sys.executable, "-c", NO_NETWORK, *words]
    if shutil.which("unshare"):
        alone = ["unshare", "--map-root-user", "--net"]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0:
            program = [*alone, *program]
    done = subprocess.run(program, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *lines, total = done.stdout.splitlines()
    lines = [line for line in lines if not WARNED.match(line)]
    assert {line.split()[0] for line in lines} == STEPS
    assert {line.split()[1] for line in lines} == {"reuse"}
    assert total == f"{len(STEPS)} steps: {len(STEPS)} reused."


def test_one_query_leads_from_a_triplet_to_document_sentence_mention_and_edge(
    finished: Finished,
) -> None:
    swaps = query(finished.store, WHY)
    swapped = query(
        finished.store,
        "SELECT count(*), count(DISTINCT negative_id) FROM triplets "
        "WHERE negative_method = 'entity_swap'",
    )
    # Each such triplet once: no join loses or multiplies a row.
    assert swapped == [(len(swaps), len(swaps))]
    assert len(swaps) >= 10
    lines = finished.tiny.corpus.read_text().splitlines()
    for document, sentence, negative, _, entity, new, _, _ in swaps:
        assert sentence in lines[int(document.rpartition(":")[2]) - 1]
        assert entity in sentence
        assert new.casefold() in negative.casefold()
        assert negative != sentence


def test_no_test_text_nor_an_8_gram_of_one_is_in_training(finished: Finished) -> None:
    ((shared, of_train, of_test),) = query(finished.store, SHARED_GRAMS)
    assert of_train > 1000
    assert of_test > 1000
    assert shared == 0
    assert query(finished.store, TEST_TEXTS_IN_TRAINING) == []
    # The corpus holds copies, so that something had to be kept apart.
    reasons = query(finished.store, "SELECT reason FROM rejects WHERE stage = 'ingest'")
    assert ("shared_with_test",) in reasons


def test_warnings_are_kept_with_what_they_are_of_and_shown_by_every_command(
    tiny: Tiny, tmp_path: Path
) -> None:
    content = yaml.safe_load(tiny.recipe.read_text())
    content["select"] |= {"methods": {"entity_swap": {"negative_max": 0.0}}}
    path, store = tmp_path / "strict.yaml", tmp_path / "store"
    path.write_text(yaml.safe_dump(content))
    words = (str(path), "--store", str(store), "--until", "triplets")
    first = ended_well(tercet("run", *words, "--no-server"))
    # Among the first lines of the summary, and as soon as it is known.
    lines = first.stdout.strip().splitlines()[:10]
    (line,) = [line for line in lines if "entity_swap" in line]
    assert line.strip() in first.stderr
    assert line in ended_well(tercet("plan", *words)).stdout
    assert line in ended_well(tercet("show", "select", "--store", str(store))).stdout
    # What was made earlier was told when it was made.
    again = ended_well(tercet("run", *words, "--no-server"))
    assert set(states(store).values()) == {"reused"}
    assert line in again.stdout.splitlines()
    assert line.strip() not in again.stderr


def test_a_run_as_it_should_be_has_no_warning(finished: Finished) -> None:
    # But that the tiny backbone, which has a vocabulary of its own, knows few words.
    assert query(finished.store, "SELECT kind FROM warnings") == [("unknown",)]


def plain_client(store: Path) -> duckdb.DuckDBPyConnection:
    """DuckDB opens the file twice to connect: where it is written anew between, it tries again."""
    for _ in range(20):
        with contextlib.suppress(duckdb.IOException):
            return duckdb.connect(str(store / "catalog.duckdb"), read_only=True)
    raise AssertionError("the catalog cannot be opened")


@pytest.fixture(scope="module")
def two_at_once(tiny: Tiny, finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Two:
    """Two runs of one command on one new store, and what others saw of it meanwhile."""
    store = tmp_path_factory.mktemp("two") / "store"
    words = tiny.words(store)
    seen: list[tuple[str, str]] = []

    def waits(child: Child) -> bool:
        lines = child.stderr.read_text().splitlines()
        return any(line.split()[:3] == ["train", "waits", "for"] for line in lines)

    # Neither ends before it was asked about, and both have to wait for somebody.
    with held_up(finished, store, "train"):
        children = [start(*words), start(*words)]
        while not (store / "catalog.duckdb").exists() and children[0].poll() is None:
            time.sleep(0.05)
        while all(child.poll() is None for child in children) and len(seen) < 9:
            asked = "SELECT state, (SELECT count(*) FROM sentences) FROM runs"
            answer = ended_well(tercet("sql", asked, "--store", str(store), "--format", "csv"))
            listed = ended_well(tercet("ls", "--store", str(store)))
            with plain_client(store) as plain:
                counted = plain.execute("SELECT count(*) FROM sentences").fetchone()
                assert counted is not None
            seen += [("sql", answer.stdout), ("ls", listed.stdout), ("plain", str(counted[0]))]
        assert until(
            lambda: (
                all(map(waits, children)) or any(child.poll() is not None for child in children)
            ),
            LIMIT,
        )
    ended = []
    for child in children:
        stdout, stderr = child.communicate(LIMIT)
        ended.append(subprocess.CompletedProcess(words, child.wait(), stdout, stderr))
    return store, ended, seen


def test_sql_ls_and_other_clients_read_while_a_run_goes_on(
    finished: Finished,
    two_at_once: Two,
) -> None:
    _, _, seen = two_at_once
    answers = dict(seen)
    assert {"sql", "ls", "plain"} <= answers.keys(), "the runs ended before anybody could ask"
    ((sentences,),) = query(finished.store, "SELECT count(*) FROM sentences")
    assert f"running,{sentences}" in answers["sql"].replace('"', "")
    assert "running" in answers["ls"]
    assert answers["plain"] == str(sentences)


def test_two_runs_at_once_make_each_part_once(
    two_at_once: Two,
) -> None:
    store, ended, _ = two_at_once
    for done in ended:
        assert " waits for process " in ended_well(done).stderr
    both = [{s["step"]: s["state"] for s in run["steps"]} for run in runs.list_runs(_open(store))]
    assert len(both) == 2
    for step in STEPS:
        assert sorted(run[step] for run in both) == ["made", "reused"], step
    # Nobody made a part in vain: every data file is the one of a record.
    named = {
        file["path"]
        for _, record in records(_open(store))
        for files in record["tables"].values()
        for file in files
    }
    there = {str(path.relative_to(store)) for path in store.glob("artifacts/*/*/data/*/*")}
    assert there == named


def _open(store: Path) -> Store:
    return open_store(str(store), create=False)


def _after(text: str, title: str, lines: int = 1) -> str:
    """The line that stands so many lines below the one with the title."""
    rows = text.splitlines()
    at = next(number for number, row in enumerate(rows) if title in row)
    return rows[at + lines].strip()
