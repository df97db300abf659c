"""What the summary concludes from the figures, and what it advises to run or to change."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from cards_store import evaluation
from commands_store import make_artifact, make_run

from tercet.flows.recipe.model import Recipe
from tercet.flows.results import summary
from tercet.flows.results.queries import connect
from tercet.storage.store import open_store
from tercet.tasks.evaluation.evaluation_rows import EVALUATIONS
from tercet.tasks.stage import REJECTS

TERMS = {"name": "terms", "source": "t.tsv", "role": "labelled", "kind": "definitions"}
ANCHORS = {"rows": "anchors", "loss": "info_nce"}
DEFINITIONS = {"rows": "terms", "loss": "definition", "models": {"entry_matrix": "base"}}


def recipe(*phases: dict[str, Any], **corpus: Any) -> Recipe:
    """One of these phases over a file and a dictionary of terms; without any it whitens."""
    named = [{"name": f"step{n}", **phase} for n, phase in enumerate(phases, 1)]
    return Recipe.model_validate(
        {
            "name": "r",
            "backbone": "b",
            "corpora": [{"name": "c", "source": "c.csv", **corpus}, TERMS],
            **({"train": {"phases": named}} if phases else {"whiten": {}}),
        }
    )


def summarised(
    folder: Path,
    made: dict[str, dict[str, pa.Table]],
    of: Recipe,
    content: dict[str, Any] | None = None,
) -> str:
    """The summary of a run whose steps made these tables. content: its recipe, as recorded."""
    store = open_store(str(folder / "store"))
    steps: dict[str, Any] = {}
    for number, (step, tables) in enumerate(made.items()):
        make_artifact(store, step, f"aaaa{number}", tables)
        counts = {name: table.num_rows for name, table in tables.items()}
        steps[step] = (f"aaaa{number}", "made", counts)
    run_id = make_run(store, "r", steps, content or of.model_dump(mode="json"))
    plan: Any = SimpleNamespace(store=store.location, steps=(), recipe=of)
    return summary.summarise_run(plan, run_id, "tercet run r")


def figure(gain: float, n: int, seeds: int = 1, **more: Any) -> list[dict[str, Any]]:
    """Rows of a figure before, after and its gain, which is a point more with each seed."""
    ends = {"ci_low": 59.0, "ci_high": 61.0, "metric": "recall@1", "n": n} | more
    rows = [evaluation("m0", "base", value=60.0, **ends)]
    for seed in range(42, 42 + seeds):
        ends |= {"seed": seed}
        rows.append(evaluation(f"m{seed}", "encoder", value=60.0 + gain, **ends))
        ends_of_gain = ends | {"ci_low": gain - 1, "ci_high": gain + 1}
        ends_of_gain |= {"metric": f"{ends['metric']}_gain", "value": gain + seed - 42}
        rows.append(evaluation(f"m{seed}", "encoder", **ends_of_gain))
    return rows


STS = {"suite": "sts", "subset": "all", "metric": "spearman"}


def test_a_figure_has_its_gain_its_number_and_what_it_is_worth(tmp_path: Path) -> None:
    rows = [
        *figure(5.0, 29, task="halves"),
        *figure(0.5, 30, task="name_to_summary"),
        *figure(2.0, 40, 3, task="method_to_class"),
        *figure(5.0, 500, task="seen", **STS),
    ]
    blank = dict.fromkeys(EVALUATIONS.names)
    seen = {"suite": ["sts"], "task": ["seen"], "removed": [False]}
    made = {
        "guard": {"contamination": pa.table(seen)},
        "evaluate.base": {},
        "evaluate.encoder": {
            "evaluations": pa.Table.from_pylist([blank | row for row in rows], EVALUATIONS)
        },
    }
    text = summarised(tmp_path, made, recipe(ANCHORS))
    lines = [line.partition("  ") for line in text.splitlines()]
    found = {name: rest.split() for name, _, rest in lines}
    few = ["60.00", "65.00", "+5.00", "(too", "few)", "29"]
    assert found["halves test, recall@1"] == few
    interval = ["60.00", "60.50", "+0.50", "(−0.50", "to", "+1.50)", "30"]
    assert found["name to summary test, recall@1"] == interval
    assert "+3.00 (+0.52 to +5.48)" in text
    assert "seen, Spearman (transductive)" in found


@pytest.mark.parametrize(
    ("phases", "step", "options"),
    [
        ([DEFINITIONS], "train", ""),
        ([DEFINITIONS], "ingest", None),
        ([ANCHORS], "train", None),
        ([ANCHORS, DEFINITIONS], "train.step2", ""),
        ([DEFINITIONS, ANCHORS], "train.step1", " --model train.step1"),
    ],
)
def test_a_dictionary_that_was_trained_on_is_asked_next(
    tmp_path: Path, phases: list[dict[str, Any]], step: str, options: str | None
) -> None:
    text = summarised(tmp_path, {step: {}}, recipe(*phases))
    (asked,) = re.findall(r'tercet define ".*?"(.*) --store', text) or [None]
    assert asked == options


@pytest.mark.parametrize(
    ("anchors", "name", "shown"),
    [([1], "plain", {1}), ([1, 2, 3], "plain", {2, 3}), ([1, 2, 3], 'pl"ain', {1, 2, 3})],
)
def test_the_query_that_is_advised_shows_the_users_own_triplets_if_there_are_any(
    tmp_path: Path, anchors: list[int], name: str, shown: set[int]
) -> None:
    """The second triplet is of a sentence of the user's, the third of a passage."""
    ids = pa.array(anchors, pa.uint64())
    texts = [str(number) for number in anchors]
    triplets = {"sentence_id": ids, "anchor": texts, "positive": texts, "negative": texts}
    sentences = {"sentence_id": pa.array([1, 2], pa.uint64()), "corpus": [name, "docs"]}
    similarity = {"negative_similarity": pa.array([0.5] * len(anchors), pa.float32())}
    made = {
        "ingest": {"sentences": pa.table(sentences)},
        "select": {"triplets": pa.table(triplets | similarity)},
    }
    shipped = {"name": name, "source": "package:tercet.recipes/plain_english.txt"}
    text = summarised(tmp_path, made, recipe(ANCHORS), {"name": "r", "corpora": [shipped]})
    (query,) = re.findall(r'tercet sql "(SELECT anchor.*)" --store', text)
    with connect(open_store(str(tmp_path / "store")), None) as connection:
        assert {int(row[0]) for row in connection.execute(query).fetchall()} == shown


Reject = tuple[str, int | None, str, str, str | None]
PAIRLESS: Reject = ("evaluate", None, "no_pairs", "why", "test")


@pytest.mark.parametrize(
    ("reject", "corpus", "pairs", "shown"),
    [
        (("halves", None, "no_halves", "why", "test"), {}, 0, True),
        (("labels", None, "one_label", "why", None), {}, 0, True),
        (("awareness", None, "too_few", "why", None), {}, 0, True),
        (("define", None, "no_held_out", "why", None), {}, 0, True),
        (("evaluate", None, "no_judgement", "why", None), {}, 0, True),
        # Pairs are promised where there are any, or columns of them.
        (PAIRLESS, {}, 0, False),
        (PAIRLESS, {}, 3, True),
        (PAIRLESS, {"query": "title", "answer": "body"}, 0, True),
        # Nothing was promised of this split, and the warnings have that document.
        (("halves", None, "no_halves", "why", "dev"), {}, 0, False),
        (("evaluate", None, "no_document", "why", None), {}, 0, False),
        (("awareness", 7, "no_pair", "why", None), {}, 0, False),
        (("ingest", None, "no_text", "why", None), {}, 0, False),
    ],
)
def test_what_was_not_measured_is_said_once_with_its_reason(
    reject: Reject, corpus: dict[str, str], pairs: int, shown: bool
) -> None:
    rows = [dict(zip(REJECTS.names, reject, strict=True))] * 2
    with duckdb.connect() as db:
        db.register("rejects", pa.Table.from_pylist(rows, schema=REJECTS))
        db.register("document_pairs", pa.table({"pair_id": list(range(pairs))}))
        lines = summary.describe_unmeasured(db, recipe(**corpus))
    assert len(lines) == shown
    assert all("why" in line for line in lines)
