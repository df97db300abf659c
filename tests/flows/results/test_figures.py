"""The table `evaluations` as figures."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from figure_rows import stored
from known_tables import known_tables
from report_store import write_run

from tercet.flows.pages.blocks import Table
from tercet.flows.recipe.model import Recipe
from tercet.flows.report.measured import discriminators
from tercet.flows.report.subject import open_runs
from tercet.flows.results import figures
from tercet.flows.results.figures import (
    DEFINITION_ARMS,
    GENERATOR_LABELS,
    JUDGE_ARMS,
    Gain,
    defined,
    defined_in_words,
    gains_in_words,
    judged,
    judged_in_words,
    measured_generators,
    of_geometry,
    of_tasks,
    read_choice,
    read_figures,
    seeds,
)
from tercet.flows.results.metric_names import Metric
from tercet.storage.store import open_store
from tercet.tasks.evaluation.define import DEFINITION_FIGURES
from tercet.tasks.evaluation.measure_generators import GENERATOR_METRICS
from tercet.tasks.stage import REJECTS
from tercet.tasks.synthesis.parse import CANDIDATES
from tercet.tasks.synthesis.synthesise import GENERATIONS
from tercet.tasks.training.discriminator_figures import DISCRIMINATOR_METRICS
from tercet.tasks.training.phase_rows import DRAWN_PAIRS

RECALL = Metric("retrieval", "document_pairs", "test", "recall@1")


def row(phase: str, value: float, metric: str = "recall@1", **more: Any) -> dict[str, Any]:
    place = {"suite": RECALL.suite, "task": RECALL.task, "subset": RECALL.subset}
    model = f"{phase}-{more.get('seed', 1)}"
    return {"model_version": model, "phase": phase, "metric": metric, "value": value} | place | more


ROWS = [
    row("base", 60.0, seed=1, n=50),
    row("encoder", 66.0, seed=2, n=50, data_digest="d"),
    row("encoder", 64.0, seed=1, n=50, data_digest="d"),
    row("encoder", 6.0, "recall@1_gain", seed=2, ci_low=4.0, ci_high=8.0),
    row("encoder", 4.0, "recall@1_gain", seed=1, ci_low=2.0, ci_high=6.0),
    # What an earlier phase reached.
    row("mixed", 62.0, seed=1),
    row("mixed", 2.0, "recall@1_gain", seed=1),
]


def test_before_after_and_gain_by_seed() -> None:
    (found,) = read_figures(stored(ROWS))
    assert found.metric == RECALL
    assert found.before is not None
    assert (found.before.value, found.before.n) == (60.0, 50)
    assert list(found.values().items()) == [(1, 64.0), (2, 66.0)]
    assert found.mean() == 65.0
    assert found.first is not None
    assert (found.first.model, found.first.digest) == ("encoder-1", "d")
    gain, low, high = found.gain()
    assert gain == 5.0
    # Over two seeds, not over the queries.
    assert low is not None
    assert high is not None
    assert low < 4.0 < 6.0 < high
    assert seeds([found]) == [1, 2]
    (found,) = read_figures(stored([row("base", 60.0), row("encoder", 61.5)]))
    assert found.gain() == (1.5, None, None)


def test_the_figures_of_one_model_also_of_an_earlier_phase() -> None:
    (found,) = read_figures(stored(ROWS), "encoder-2")
    assert found.values() == {2: 66.0}
    assert found.gain() == (6.0, 4.0, 8.0)
    (found,) = read_figures(stored(ROWS), "mixed-1")
    assert found.values() == {1: 62.0}
    assert found.gain() == (2.0, None, None)


def test_of_too_few_questions_there_is_no_interval() -> None:
    few = stored([{**one, "n": 29} for one in ROWS])
    (found,) = read_figures(few)
    assert found.few
    assert found.gain() == (5.0, None, None)
    (found,) = read_figures(few, "encoder-2")
    assert found.gain() == (6.0, None, None)


def test_test_stands_before_dev_geometry_apart_and_undefined_values_nowhere() -> None:
    nan = float("nan")
    assert read_figures(stored([row("encoder", nan), row("encoder", nan, "recall@1_gain")])) == []
    rows = [
        row("encoder", 1.0, "alignment"),
        row("encoder", 1.0, subset="dev"),
        row("encoder", 1.0),
        row("encoder", 1.0, "spearman", suite="sts", task="STS-B", subset="all"),
    ]
    found = read_figures(stored(rows))
    order = [(f.metric.task, f.metric.subset) for f in of_tasks(found)]
    assert order == [("document_pairs", "test"), ("document_pairs", "dev"), ("STS-B", "all")]
    assert [f.metric.name for f in of_geometry(found)] == ["alignment"]


def test_figures_of_sets_whose_texts_stayed_in_training_are_transductive() -> None:
    places = [("sts", "STS-B", "all"), ("sts", "STS-B dev", "all"), ("sts", "STS16", "all")]
    places += [("sts", "STS", "all"), ("pairs", "STS-B", "all"), ("fact_order", "ours dev", "all")]
    rows = [
        row("encoder", 70.0, "spearman", suite=suite, task=task, subset=subset)
        for suite, task, subset in places
    ]
    connection = stored(rows)
    assert not any(figure.transductive for figure in read_figures(connection))
    connection.execute("DROP VIEW contamination")
    connection.execute("CREATE TABLE contamination (suite VARCHAR, task VARCHAR, removed BOOLEAN)")
    connection.execute("INSERT INTO contamination VALUES ('sts', 'STS16', true)")
    assert not any(figure.transductive for figure in read_figures(connection))
    connection.execute(
        "INSERT INTO contamination VALUES ('sts', 'STS-B', false), ('fact_order', 'ours', false)"
    )
    marked = {figure.metric.task for figure in read_figures(connection) if figure.transductive}
    # An average with such a set is one as well.
    assert marked == {"STS-B", "STS-B dev", "STS", "ours dev"}


def recipe(**draw: float) -> dict[str, Any]:
    phase = {"name": "drawn", "rows": {"from": "anchors", "draw": draw}, "loss": "info_nce"}
    content = {
        "name": "g",
        "backbone": "a/b",
        "corpora": [{"name": "field", "source": "f.txt"}],
        "synthesise": {"synonym": None},
        "evaluator": {"model": "a/b"},
        "train": {"phases": [phase]},
    }
    found: dict[str, Any] = Recipe.model_validate(content).model_dump(mode="json")
    return found


def connection(generated: int, of: int, *refused: tuple[str, str]) -> duckdb.DuckDBPyConnection:
    """So many of the drawn pairs are generated. refused: stage and reason of each text that is not
    accepted, beside five that are, and a negative."""

    def table(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema)

    pairs = [
        {"phase": "drawn", "part": "drawn", "sentence_id": number,
         "operation": "generated" if number < generated else "cutoff"}
        for number in range(of)
    ]  # fmt: skip
    stages = [*(stage for stage, _ in refused), *[""] * 5]
    texts = [
        {"generation_id": number, "purpose": "positive", "relation": "keeps", "sentence_id": number}
        for number in range(len(stages))
    ]
    altered = {"generation_id": 99, "purpose": "negative", "relation": "alters", "sentence_id": 0}
    candidates = [
        {"generation_id": number, "candidate_id": 1000 + number}
        for number, stage in enumerate(stages)
        if stage != "parse"
    ]
    lost = [
        {"stage": stage, "reason": reason, "row_id": number + (0 if stage == "parse" else 1000)}
        for number, (stage, reason) in enumerate(refused)
    ]
    lost.append({"stage": "parse", "reason": "empty", "row_id": 99})
    db = duckdb.connect()
    db.register("drawn_pairs", table(DRAWN_PAIRS, pairs))
    db.register("generations", table(GENERATIONS, [*texts, altered]))
    db.register("candidates", table(CANDIDATES, candidates))
    db.register("rejects", table(REJECTS, lost))
    return db


def test_few_draws_are_told_with_the_reasons() -> None:
    refused = [("parse", "same_as_source")] * 6 + [("parse", "cut_off")] * 3
    db = connection(3, 100, *refused, ("select", "below_positive_min"))
    draw = {"word_shuffle": 1, "cutoff": 1, "word_repetition": 1, "generated": 1}
    (sentence,) = figures.describe_draws(db, recipe(**draw))
    # As many as are meant need no reason, and without generated texts there is nothing to say.
    for generated, enough in ((44, False), (45, True)):
        half = recipe(cutoff=1, generated=1)
        (other,) = figures.describe_draws(connection(generated, 100), half)
        assert ("per_unit" not in other) == enough
    assert not [*figures.describe_draws(connection(0, 10), recipe(cutoff=1))]
    assert not [*figures.describe_draws(known_tables(), half)]
    for part in (
        "3.0%",
        "25.0%",
        "3 of 100",
        "15",
        "same_as_source 6, cut_off 3, below_positive_min 1",
    ):
        assert part in sentence


@pytest.mark.parametrize(
    ("mix", "by", "n", "parts"),
    [
        (0.0, "questions", 55, ("55", "untouched")),
        (0.25, "questions", 55, ("25 %",)),
        (0.5, "default", 29, ("50 %", "29")),
    ],
)
def test_the_choice_names_the_encoder_and_the_questions(
    mix: float, by: str, n: int, parts: tuple[str, ...]
) -> None:
    with duckdb.connect() as db:
        db.execute(
            f"CREATE TABLE choices AS SELECT 7 AS seed, {mix} AS mix, '{by}' AS chosen_by "
            "FROM range(3)"
        )
        db.execute(f"CREATE TABLE candidate_encoders AS SELECT 7 AS seed, {n} AS n, true AS chosen")
        sentence = str(read_choice(db, 7))
        assert all(part in sentence for part in parts)
        assert read_choice(db, 8) is None


FIGURES = {"recall@1": 10.0, "recall@10": 40.0, "mrr": 21.25, "median_rank": 1234.0}


def rows(
    seeds: tuple[int, ...] = (42,), arms: tuple[str, ...] = tuple(DEFINITION_ARMS)
) -> list[Any]:
    blank = dict.fromkeys(DEFINITION_FIGURES.names)
    found = []
    for seed in seeds:
        for number, arm in enumerate(arms):
            figures = {metric: value - number for metric, value in FIGURES.items()}
            if arm != "before" and "before" in arms:
                figures["mrr_gain"] = 3.0 - number
            for metric, value in figures.items():
                ends = {"ci_low": value - 2, "ci_high": value + 2}
                shift = float(seed - seeds[0])
                found.append(
                    {**blank, "name": "step1", "seed": seed, "arm": arm, "metric": metric}
                    | {"value": value + shift, **ends, "n": 80}
                )
    return found


def connection_of_definitions(found: list[Any]) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.register("definition_figures", pa.Table.from_pylist(found, schema=DEFINITION_FIGURES))
    return db


def test_the_training_stands_before_its_controls() -> None:
    (one,) = defined(connection_of_definitions(rows()))
    assert (one.name, one.definitions, one.seeds) == ("step1", 80, 1)
    assert list(one.figures) == list(DEFINITION_ARMS)
    assert one.figures["words"]["mrr"] == (18.25, 16.25, 20.25)
    assert "+3.0 (+1.0 to +5.0)" in defined_in_words(one)
    assert "+2.0 (+0.0 to +4.0)" in defined_in_words(one)


def test_several_seeds_or_too_few_definitions_have_no_interval() -> None:
    (one,) = defined(connection_of_definitions(rows((42, 44))))
    assert one.seeds == 2
    assert one.figures["own_entries"]["mrr"] == (22.25, None, None)
    assert "+4.0 by" in defined_in_words(one)
    (one,) = defined(connection_of_definitions([{**row, "n": 20} for row in rows()]))
    assert one.figures["words"]["mrr"] == (18.25, None, None)
    assert "+3.0 (too few)" in defined_in_words(one)


def test_where_nothing_stood_before_there_is_no_gain() -> None:
    arms = ("own_entries", "projection", "words")
    (one,) = defined(connection_of_definitions(rows(arms=arms)))
    assert tuple(one.figures) == arms
    assert defined_in_words(one) == ""


AREAS = {"discriminator": 0.91, "hypothesis": 0.76, "pair_words": 0.87, "cosine": 0.84}


def metrics(margin: float = 0.02) -> list[dict[str, Any]]:
    """margin: what the interval of the gain over words of both texts begins at."""
    blank = {**dict.fromkeys(DISCRIMINATOR_METRICS.names), "pairs": 200, "anchors": 80}
    rows = []
    for arm, area in AREAS.items():
        figures = {"auc": area, "accuracy": 100 * area - 8, "calibration_error": 0.05}
        if arm != "discriminator":
            figures["auc_gain"] = AREAS["discriminator"] - area
        for metric, value in figures.items():
            low = margin if metric == "auc_gain" and arm == "pair_words" else value - 0.01
            rows.append(
                {**blank, "discriminator": "judge", "arm": arm, "subset": "all", "metric": metric}
                | {"value": value, "ci_low": low, "ci_high": value + 0.01}
            )
    rows.append({**rows[0], "subset": "one corpus", "value": 0.1})
    return rows


def connection_of_discriminators(rows: list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()
    db.register("discriminator_metrics", pa.Table.from_pylist(rows, schema=DISCRIMINATOR_METRICS))
    return db


def test_the_discriminator_stands_before_its_controls() -> None:
    (one,) = judged(connection_of_discriminators(metrics()))
    assert (one.name, one.pairs, one.anchors) == ("judge", 200, 80)
    assert list(one.arms) == list(JUDGE_ARMS)
    assert {arm: found.auc for arm, found in one.arms.items()} == AREAS
    assert one.arms["discriminator"].gain is None
    gain = one.arms["cosine"].gain
    assert gain is not None
    assert round(gain[0], 2) == 0.07


def test_it_says_whether_it_is_better_than_what_anyone_could() -> None:
    no_cosine = [row for row in metrics() if row["arm"] != "cosine"]
    few = [{**row, "anchors": 29} for row in metrics()]
    for rows, part in (
        (metrics(), "0.020"),
        (no_cosine, "0.020"),
        (metrics(margin=-0.001), "not surely better than words of both texts"),
        (few, "not known"),
    ):
        (one,) = judged(connection_of_discriminators(rows))
        assert part in judged_in_words(one)
    assert one.arms["discriminator"].low is None


def test_the_report_shows_verdicts_by_generator_and_method(tmp_path: Path) -> None:
    candidates = [
        {"candidate_id": i, "generation_id": i, "sentence_id": 1, "method": method}
        | {"role": role, "relation": relation, "text": f"text {i}"}
        for i, (method, role, relation) in enumerate(
            [
                ("paraphrase", "positive", "keeps"),
                ("paraphrase", "positive", "keeps"),
                ("negation", "negative", "alters"),
                ("next_sentences", "positive", "topic"),
            ]
        )
    ]
    by_scorer = {"pair": [0.98, 0.5, 0.25, 0.1], "own": [0.125, 0.75]}
    bin_of_p = {"discriminator": "judge", "p_low": 0.95, "p_high": 1.0, "pairs": 50}
    models = ["/models/writer", "/models/writer", None, None]
    tables = {
        "discriminator_metrics": metrics(),
        "reliability": [
            bin_of_p | {"mean_p": 0.98, "share_true": 0.96, "ci_low": 0.91, "ci_high": 0.99}
        ],
        "candidates": candidates,
        "generations": [{"generation_id": i, "model": model} for i, model in enumerate(models)],
        "scores": [
            {"candidate_id": i, "scorer": name, "measure": "p_true", "value": value}
            for name, values in by_scorer.items()
            for i, value in enumerate(values)
        ],
        "rejects": [
            {"stage": "select", "row_id": 1, "reason": "below_p_min"},
            {"stage": "select", "row_id": 2, "reason": "surplus"},
        ],
    }
    recipe = {"select": {"p_true": "pair", "p_min": 0.5}}
    run = write_run(tmp_path / "store", tables, recipe=recipe)
    with open_runs(open_store(str(tmp_path / "store")), [run]) as subjects:
        figures, _, reliability, verdicts = discriminators(subjects).blocks
    assert isinstance(figures, Table)
    assert isinstance(reliability, Table)
    assert isinstance(verdicts, Table)
    assert figures.rows[0][:3] == ["the discriminator", "0.910", "0.900 to 0.920"]
    assert reliability.rows == [["0.95 to 1.00", 50, "0.980", "0.960", "0.910 to 0.990"]]
    # Refusals are put to the scorer that decides.
    assert verdicts.rows == [
        ["own", "writer", "paraphrase", "positive", 2, "0.438", None, None],
        ["pair", "writer", "paraphrase", "positive", 2, "0.740", 1, 1],
        ["pair", "rule", "negation", "negative", 1, "0.750", 0, 0],
    ]


def connection_of_generated(gain: float | None, n: int = 90) -> duckdb.DuckDBPyConnection:
    blank = dict.fromkeys(GENERATOR_METRICS.names)
    rows = [
        {**blank, "generator": name, "arm": arm, "metric": metric, "value": value, "n": n}
        for name, arm, metric, value in (
            (None, "copy", "average_rouge", 56.0),
            ("vae", "generator", "average_rouge", 61.25),
            ("vae", "generator", "deficiency", 44.0),
            ("plain", "generator", "average_rouge", 60.0),
        )
    ]
    over = {"arm": "generator", "metric": "gain_over_replaced", "n": n, "generator": "vae"}
    low = None if gain is None else gain - 1
    high = None if gain is None else gain + 1
    rows.append({**blank, **over, "value": gain, "ci_low": low, "ci_high": high})
    db = duckdb.connect()
    db.register("generator_metrics", pa.Table.from_pylist(rows, schema=GENERATOR_METRICS))
    return db


def test_generators_stand_apart_from_the_controls_that_they_share() -> None:
    found = measured_generators(connection_of_generated(2.5))
    assert found is not None
    assert found.pairs == 90
    assert list(found.generators) == ["plain", "vae"]
    assert list(found.controls) == ["copy"]
    values = dict(zip(GENERATOR_LABELS, found.generators["vae"], strict=True))
    assert values["average_rouge"] == 61.25
    assert values["deficiency"] == 44.0
    assert values["perplexity"] is None
    assert found.gains == {"plain": [], "vae": [Gain("words replaced at random", 2.5, 1.5, 3.5)]}
    assert "+2.5 points (+1.5 to +3.5)" in gains_in_words("vae", found.gains["vae"])
    few = measured_generators(connection_of_generated(2.5, n=9))
    assert few is not None
    assert "+2.5 points (too few)" in gains_in_words("vae", few.gains["vae"])
    without = measured_generators(connection_of_generated(None))
    assert without is not None
    assert without.gains["vae"] == []


def test_a_run_without_these_tables_measured_nothing() -> None:
    assert defined(known_tables()) == judged(known_tables()) == []
    assert measured_generators(known_tables()) is None
