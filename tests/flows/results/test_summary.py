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
from known_tables import known_tables

from tercet.flows.recipe.model import Recipe
from tercet.flows.results import metric_names, summary
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
        *figure(-100.0, 1),
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
    few = ["(too", "few)"]
    one = ["60.00", "-40.00", "-100.00", *few, "1"]
    assert found["retrieval document pairs test recall@1"] == one
    assert found["retrieval halves test recall@1"] == ["60.00", "65.00", "+5.00", *few, "29"]
    interval = ["60.00", "60.50", "+0.50", "(-0.50", "to", "+1.50)", "30"]
    assert found["retrieval name to summary test recall@1"] == interval
    assert found["retrieval method to class test recall@1 gain"][:2] == ["+3.00", "1.00"]
    assert "sts seen all spearman (transductive)" in found
    assert text.count(metric_names.WHY_TRANSDUCTIVE) == 1


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


def told(
    rejects: list[tuple[str, int | None, str, str, str | None]], of: Recipe, pairs: int = 0
) -> list[str]:
    """rejects: stage, row, reason, detail and text."""
    rows = [dict(zip(REJECTS.names, row, strict=True)) for row in rejects]
    with duckdb.connect() as db:
        db.register("rejects", pa.Table.from_pylist(rows, schema=REJECTS))
        db.register("document_pairs", pa.table({"pair_id": list(range(pairs))}))
        return summary.describe_unmeasured(db, of)


@pytest.mark.parametrize(
    "reject",
    [
        ("halves", None, "no_halves", "halves were not measured: why", "test"),
        ("labels", None, "one_label", "column 'x' has 1 label", None),
        ("labels", None, "rare_label", "column 'x': 9 of 80 texts have this label", "red"),
        ("labels", None, "no_texts", "column 'x' has no value in split test", "test"),
        ("awareness", None, "too_few", "entity: 3 pairs, fewer than the 30 needed", None),
        ("define", None, "no_held_out", "none is held out", None),
        ("evaluate", None, "no_judgement", "own: 1 of 2 queries have no relevant document", None),
    ],
)
def test_each_is_told_once_with_its_reason(
    reject: tuple[str, int | None, str, str, str | None],
) -> None:
    assert told([reject, reject], recipe()) == [f"Not measured: {reject[3]}."]


def test_a_split_that_is_not_measured_promises_nothing() -> None:
    assert told([("halves", None, "no_halves", "why", "dev")], recipe()) == []


def test_pairs_are_promised_where_there_are_any_or_columns_of_them() -> None:
    reject = ("evaluate", None, "no_pairs", "no pairs in split test", "test")
    assert told([reject], recipe()) == []
    assert told([reject], recipe(), pairs=3) == ["Not measured: no pairs in split test."]
    paired = recipe(query="title", answer="body")
    assert told([reject], paired) == ["Not measured: no pairs in split test."]


def test_rejects_of_rows_and_of_other_stages_are_none() -> None:
    rows: list[tuple[str, int | None, str, str, str | None]] = [
        ("awareness", 7, "no_pair", "why", None), ("ingest", None, "no_text", "why", None),
    ]  # fmt: skip
    assert told(rows, recipe()) == []
    # The warnings have it, with what to do.
    assert (
        told(
            [("evaluate", None, "no_document", "own: 1 relevant document", None)],
            recipe(),
        )
        == []
    )
    with known_tables() as db:
        assert summary.describe_unmeasured(db, recipe()) == []
