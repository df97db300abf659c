"""Each section says what the tables say, by hand-computed values."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_store import EVIL, Written, write_run
from report_store import made as made_rows
from report_store import measured as measured_rows
from report_store import trained as trained_rows

from tercet.flows.pages.blocks import Chart, Fold, Grid, Items, Note, Section, Table, Tabs
from tercet.flows.report import (
    differences,
    entries,
    examples,
    kept,
    made,
    measured,
    pairs,
    projection,
    report,
    trained,
)
from tercet.flows.report.subject import Subject, open_runs
from tercet.flows.results import transductive
from tercet.storage.runs import end_run, record_step, start_run
from tercet.storage.store import open_store


@pytest.fixture
def whole(written: Written) -> Iterator[tuple[Subject, ...]]:
    with open_runs(open_store(str(written.store), create=False), [written.whole]) as subjects:
        yield subjects


@pytest.fixture
def both(written: Written) -> Iterator[tuple[Subject, ...]]:
    store = open_store(str(written.store), create=False)
    with open_runs(store, [written.whole, written.seeds]) as subjects:
        yield subjects


def flat(blocks: Sequence[Any]) -> list[Any]:
    found = []
    for block in blocks:
        found.append(block)
        if isinstance(block, Grid | Fold):
            found += flat(block.blocks)
        if isinstance(block, Tabs):
            found += [inner for panel in block.panels for inner in flat(panel.blocks)]
    return found


def of(section: Section, kind: type) -> list[Any]:
    return [block for block in flat(section.blocks) if isinstance(block, kind)]


def table(section: Section, place: int = 0) -> list[list[Any]]:
    return [list(row) for row in of(section, Table)[place].rows]


def test_the_funnel_counts_what_the_tables_hold(whole: tuple[Subject, ...]) -> None:
    (chart,) = of(made.funnel(whole), Chart)
    values = {row["what"]: row["rows"] for row in chart.spec["data"]["values"]}
    # Positives are taken of even anchors, negatives of every third one: triplets of every sixth.
    assert values == {
        "documents": 1,
        "sentences": 30,
        "of these for training": 30,
        "anchors": 30,
        "generations": 60,
        "candidates": 60,
        "within the thresholds": 15 + 10,
        "triplets": 5,
    }


def test_reasons_are_counted_and_told(whole: tuple[Subject, ...]) -> None:
    rows = table(made.funnel(whole))
    told = [(stage, reason, count, share) for stage, reason, _, count, share in rows]
    assert told == [
        ("select", "above_negative_max", 20, "57.1"),
        ("select", "below_positive_min", 15, "42.9"),
        ("parse", "empty", 1, "100.0"),
    ]
    assert rows[0][2] == "too close to the anchor for a negative"


def test_examples_show_taken_and_refused_candidates_by_method(whole: tuple[Subject, ...]) -> None:
    (tabs,) = of(examples.examples(whole), Tabs)
    assert [panel.name for panel in tabs.panels] == ["next_sentences", "entity_swap"]
    taken, refused = (b for b in flat(tabs.panels[1].blocks) if isinstance(b, Items))
    assert [item.tag for item in taken.items] == ["In a triplet"] * 4
    assert {item.tag for item in refused.items} == {"Too close to the anchor for a negative"}
    assert "cosine 0.990 · met the bound" in refused.items[0].below
    assert "became “new” (T_r)" in refused.items[0].below


def test_scores_are_binned_on_their_side_of_the_threshold(whole: tuple[Subject, ...]) -> None:
    charts = {chart.title: chart for chart in of(made.scores(whole), Chart)}
    rows = charts["next_sentences"].spec["data"]["values"]
    assert [(row["start"], row["count"], row["outcome"]) for row in rows] == [
        (0.1, 15, "beyond it"),
        (0.5, 15, "within the threshold"),
    ]
    (rule,) = charts["next_sentences"].spec["layer"][1]["data"]["values"]
    assert rule["at"] == 0.2


def test_false_pairs_follow_the_median_normalisation() -> None:
    gold = np.array([0.0, 0.0, 0.0, 5.0, 5.0, 5.0, 2.5, 2.5, 2.5])
    # The medians are 0.2 and 0.8: 0.8 becomes 1, 0.2 becomes 0, and 0.5 one half.
    values = np.array([0.1, 0.2, 0.8, 0.2, 0.8, 0.9, 0.5, 0.65, 0.35])
    # False: 0.8 of score 0 (too high), 0.2 of score 5 (too low), and 0.25 off on either side.
    assert pairs.errors(gold, values, 0.0, 5.0) == (2, 2)


def test_a_difference_of_just_the_bound_is_not_false() -> None:
    gold = np.array([0.0, 1.0, 0.5])
    assert pairs.errors(gold, np.array([0.0, 1.0, 0.69]), 0.0, 1.0) == (0, 0)
    assert pairs.errors(gold, np.array([0.0, 1.0, 0.71]), 0.0, 1.0) == (1, 0)


@pytest.mark.parametrize("gold", [[1.0, 5.0], [0.0, 4.0], []])
def test_without_extreme_scores_nothing_can_be_normalised(gold: list[float]) -> None:
    assert pairs.errors(np.array(gold), np.array(gold) / 5, 0.0, 5.0) is None


def test_false_pairs_of_both_models(whole: tuple[Subject, ...]) -> None:
    # One pair of score 5 has the cosine of score 0.
    assert table(pairs.false_pairs(whole)) == [
        ["before", 0, 1, "2.7", 37],
        ["after", 0, 1, "2.7", 37],
    ]


def test_densities_have_a_hill_for_each_score(whole: tuple[Subject, ...]) -> None:
    before, after = of(pairs.density(whole), Chart)
    assert {row["gold"] for row in before.spec["data"]["values"]} == set(range(6))
    peaks = {row["said"]: row["x"] for row in before.spec["layer"][1]["data"]["values"]}
    assert peaks["0"] == pytest.approx(0.1, abs=0.02)
    assert peaks["4"] == pytest.approx(0.74, abs=0.02)
    # A density: its area is one.
    curve = [row for row in before.spec["data"]["values"] if row["gold"] == 2]
    step = curve[1]["x"] - curve[0]["x"]
    assert sum(row["density"] for row in curve) * step == pytest.approx(1, abs=0.02)
    assert after.title == "After"


def test_before_and_after_with_interval(whole: tuple[Subject, ...]) -> None:
    section = measured.before_and_after(whole)
    rows = table(section)
    name, *numbers = rows[0][:5]
    assert name == "document pairs test, recall@1"
    assert numbers == ["+5.00", "+3.00 to +7.00", "60.00", "65.00"]
    assert of(section, Table)[0].strong == {0, 1}


def test_one_seed_says_what_would_fill_the_section(whole: tuple[Subject, ...]) -> None:
    (note,) = measured.over_seeds(whole).blocks
    assert isinstance(note, Note)
    assert "`seeds: 5`" in note.text


def test_seeds_are_summed_up(both: tuple[Subject, ...]) -> None:
    section = measured.over_seeds(both[1:])
    # 64, 65, 66: mean 65, deviation 1, and 4.303 / sqrt(3) on either side.
    name, mean, sd, interval, n = table(section)[0]
    assert (name, mean, sd, n) == ("document pairs test, recall@1", "65.00", "1.00", 3)
    assert interval == "62.52 to 67.48"
    gain = measured.before_and_after(both[1:])
    assert table(gain)[0][1:3] == ["+5.00", "+2.52 to +7.48"]


def test_alignment_and_uniformity_have_both_models(whole: tuple[Subject, ...]) -> None:
    (chart,) = of(measured.space(whole), Chart)
    points = {(p["texts"], p["model"]): p for p in chart.spec["data"]["values"]}
    assert points["document pairs test", "after"]["alignment"] == pytest.approx(0.8)
    # One of STS-B's texts has stayed in training.
    assert points["STS-B dev (transductive)", "before"]["uniformity"] == pytest.approx(-2.5)


def test_the_gate_and_dev_are_drawn(whole: tuple[Subject, ...]) -> None:
    titles = [chart.title for chart in of(trained.curves(whole), Chart)]
    assert titles == ["Loss, triplets", "Dev, triplets"]
    (grid,) = of(trained.curves(whole), Grid)
    assert "Checkpoint kept for its value on dev: step 20 of triplets (seed 42)." in grid.caption
    opening, gradient, _ = of(trained.gate(whole), Chart)
    assert [row["value"] for row in opening.spec["data"]["values"]][-1] == 1.0
    assert gradient.title == "Gradient, triplets"
    assert [row["value"] for row in gradient.spec["data"]["values"]][-1] == 0.5


def test_contamination_is_counted_by_level(whole: tuple[Subject, ...]) -> None:
    assert table(kept.contamination(whole)) == [
        ["sts", "STS-B", "exact", 2, 2, "1.00"],
        ["sts", "STS-B", "ngram", 1, 0, "0.60"],
    ]


def test_texts_that_stayed_in_training_make_figures_transductive(
    whole: tuple[Subject, ...],
) -> None:
    notes = of(kept.contamination(whole), Note)
    assert [note.text for note in notes] == [transductive.WHY]


def test_a_guard_that_found_nothing_says_so(both: tuple[Subject, ...]) -> None:
    (note,) = kept.contamination(both[1:]).blocks
    assert "No text of the evaluation sets was found" in note.text


def test_the_plane_is_a_draw_with_a_sign_for_each_method(whole: tuple[Subject, ...]) -> None:
    (chart,) = of(projection.plane(whole), Chart)
    points = chart.spec["data"]["values"]
    assert len(points) == 30 * 3
    assert {p["method"] for p in points} == {"source", "next_sentences", "entity_swap"}
    again = of(projection.plane(whole), Chart)[0].spec["data"]["values"]
    assert again == points


def test_signs_in_the_plane_are_distinct() -> None:
    points = [{"role": "source", "method": "source"}]
    points += [{"role": "positive", "method": f"p{i}"} for i in range(7)]
    points += [{"role": "negative", "method": f"n{i}"} for i in range(7)]
    names = projection.legend(points)
    assert names[0]["method"] == "source"
    assert len({(name["colour"], name["shape"]) for name in names}) == 15


def test_changed_keys_of_two_recipes() -> None:
    one = {"a": {"b": 1, "same": [1, 2]}, "c": [{"tau": 0.05}], "gone": None}
    other = {"a": {"b": 2, "same": [1, 2]}, "c": [{"tau": 0.1}], "new": True}
    assert differences.changed(one, other) == [
        ["a.b", "1", "2"],
        ["c.0.tau", "0.05", "0.1"],
        ["gone", "null", None],
        ["new", None, "True"],
    ]


def test_two_runs_differ_by_their_means(both: tuple[Subject, ...]) -> None:
    rows = table(differences.difference(*both))
    assert rows[0][:4] == ["document pairs test, recall@1", "65.00", "65.00", "+0.00"]
    assert table(differences.keys(*both))[-1] == ["select.negative_max", "0.97", "0.9"]


def ranked(seed: int, found: int, gain: float) -> dict[str, list[dict[str, Any]]]:
    """Tables of a run of one seed that finds the first so many of 200 queries at once."""
    tables = measured_rows({seed: gain})
    for row in tables["evaluations"]:
        if row["suite"] == "retrieval" and row["metric"] == "recall@1":
            row |= {"value": found / 2, "n": 200}
    tables["retrieval_ranks"] = [
        {
            "model_version": f"encoder-{seed}",
            "pair_id": i,
            "split": "test",
            "rank": 1 + (i >= found),
        }
        for i in range(200)
    ]
    return tables


def test_two_runs_of_one_seed_are_compared_over_the_same_queries(tmp_path: Path) -> None:
    a = write_run(tmp_path / "store", ranked(42, 100, 5.0), recipe={"evaluate": {"bootstrap": 500}})
    b = write_run(tmp_path / "store", ranked(43, 120, 5.0), version="fedcba9876543210")
    with open_runs(open_store(str(tmp_path / "store"), create=False), [a, b]) as subjects:
        rows = {row[0]: row for row in table(differences.difference(*subjects))}
        said = differences.verdict(*subjects)
    name, *values, interval, over, same = rows["document pairs test, recall@1"]
    assert values == ["50.00", "60.00", "+10.00"]
    assert (over, same) == ("200 queries", "same")
    # 10 % of the queries differ: 10 points, more or less 1.96 times 100 √(0.1 × 0.9 / 200).
    low, high = (float(word.replace("−", "-")) for word in interval.split(" to "))
    assert low == pytest.approx(10 - 4.16, abs=1.1)
    assert high == pytest.approx(10 + 4.16, abs=1.1)
    assert rows["STS-B dev, Spearman"][4:6] == ["+0.00 to +0.00", "500 pairs"]
    assert said is not None
    assert said.startswith(f"B is better than A. {name}: A 50.00, B 60.00, B − A +10.00 points")
    assert "over 200 queries. With one training each" in said


def test_two_runs_whose_seeds_all_differ_alike_have_no_interval(tmp_path: Path) -> None:
    ids = []
    for place, gains in enumerate(({1: 5.0, 2: 4.0}, {1: 7.0, 2: 6.0})):
        tables = measured_rows(gains)
        for row in tables["evaluations"]:
            row["model_version"] += f" of {place}"
        ids.append(write_run(tmp_path / "store", tables, version=f"{place:016x}"))
    with open_runs(open_store(str(tmp_path / "store"), create=False), ids) as subjects:
        said = differences.verdict(*subjects)
    assert said is not None
    assert "the difference over 2 common seeds has no interval" in said


def test_a_run_against_itself_has_the_same_encoder(whole: tuple[Subject, ...]) -> None:
    said = differences.verdict(whole[0], whole[0])
    assert said is not None
    assert said.startswith("A and B have the same encoder.")


def test_runs_that_were_measured_on_other_queries_have_no_interval(tmp_path: Path) -> None:
    other = ranked(43, 120, 5.0)
    for row in other["retrieval_ranks"]:
        row["pair_id"] += 1000
    a = write_run(tmp_path / "store", ranked(42, 100, 5.0))
    b = write_run(tmp_path / "store", other, version="fedcba9876543210")
    with open_runs(open_store(str(tmp_path / "store"), create=False), [a, b]) as subjects:
        rows = {row[0]: row for row in table(differences.difference(*subjects))}
        said = differences.verdict(*subjects)
    assert rows["document pairs test, recall@1"][4:6] == ["–", None]
    assert said is not None
    assert said.startswith("Whether B is better than A is not known")


def test_a_section_that_shows_nothing_is_not_on_the_page(written: Written) -> None:
    store = open_store(str(written.store), create=False)
    with open_runs(store, [written.failed]) as subjects:
        page = report.render_report(subjects)
        for part in report.PARTS:
            section = part(subjects)
            for chart in of(section, Chart):
                assert chart.spec["data"]["values"], section.title
            notes = [block for block in section.blocks if isinstance(block, Note)]
            told = len(notes) < len(section.blocks) or any(n.tone != "missing" for n in notes)
            assert (f">{section.title}</h2>" in page) == told
        assert ">The gate</h2>" not in page


def test_hostile_text_is_in_the_sections_and_will_be_escaped(whole: tuple[Subject, ...]) -> None:
    items = [item for block in of(examples.examples(whole), Items) for item in block.items]
    assert any(EVIL in item.text + item.above for item in items)


def test_the_first_screen_says_better_or_not_and_beyond_chance(
    whole: tuple[Subject, ...], both: tuple[Subject, ...]
) -> None:
    said = measured.verdict(whole[0])
    assert said is not None
    assert said.startswith("Better: document pairs test, recall@1 went from 60.00 to 65.00")
    assert "+5.00 points; the 95 % interval over these 500 queries, +3.00 to +7.00" in said
    assert "With one seed" in said
    over_seeds = measured.verdict(both[1])
    assert over_seeds is not None
    assert "over 3 seeds" in over_seeds
    assert "With one seed" not in over_seeds
    of_two = differences.verdict(*both)
    assert of_two is not None
    assert of_two.startswith("Whether B is better than A is not known")


def test_a_report_has_no_place_and_no_key_of_the_machine(tmp_path: Path) -> None:
    recipe = {
        "description": "Notes of /home/ann/notes",
        "backbone": "/home/ann/models/tiny",
        "llm": {"url": "https://ann:pw@host/v1?api_key=abc123secret"},
    }
    end = {"error": "/home/ann/corpus.txt is gone."}
    ids = [
        write_run(tmp_path / "store", {}, recipe=recipe, state="failed", end=end),
        write_run(tmp_path / "store", {}, name="other", version="fedcba9876543210"),
    ]
    path = tmp_path / "store/artifacts/everything/0123456789abcdef/manifest.json"
    remedy = "iconv -f latin1 -t utf-8 /home/ann/notes.txt > NEW"
    warning = {"step": "everything", "stage": "everything", "key": None, "kind": "unreadable"}
    warning |= {"count": 1, "total": 2, "message": "m", "example": "/home/ann", "remedy": remedy}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"warnings": [warning]}))
    for refs in (ids[:1], ids):
        with open_runs(open_store(str(tmp_path / "store"), create=False), refs) as subjects:
            html = report.render_report(subjects)
        for secret in ("/home/ann", "ann:pw", "abc123secret", str(tmp_path)):
            assert secret not in html


def test_numbers_that_are_none_are_left_out(tmp_path: Path) -> None:
    tables = {**made_rows(), **trained_rows(), **measured_rows()}
    tables["training_log"][3]["loss"] = float("nan")
    tables["training_log"][4]["terms"][1] = ("student_negative", float("inf"))
    tables["embeddings"][0]["vector"][0] = float("nan")
    tables["evaluations"][0]["value"] = float("nan")
    tables["acceptance"][0]["similarity_median"] = float("nan")
    run_id = write_run(tmp_path / "store", tables)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run_id]) as subjects:
        html = report.render_report(subjects)
    assert "could not be read" not in html


def test_the_order_of_facts_is_drawn_where_a_part_reports_it(tmp_path: Path) -> None:
    tables = trained_rows()
    for row in tables["training_log"]:
        row["terms"] = [("strict.in_order", row["step"] / 20), ("topical.loss", 1.0)]
    run_id = write_run(tmp_path / "store", tables)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run_id]) as subjects:
        drawn = of(trained.curves(subjects), Chart)
        assert "No gate was in use" in of(trained.gate(subjects), Note)[0].text
    assert [chart.title for chart in drawn] == [
        "Loss, triplets",
        "Order of facts, triplets",
        "Dev, triplets",
    ]
    assert "from 0.05 to 1" in drawn[1].alt


def test_few_steps_show_both_cosines_as_points(tmp_path: Path) -> None:
    tables = trained_rows()
    tables["training_log"] = tables["training_log"][:1]
    run_id = write_run(tmp_path / "store", tables)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run_id]) as subjects:
        charts = of(trained.gate(subjects), Chart)
    assert all("point" in chart.spec["layer"][0]["mark"] for chart in charts)


def test_steps_that_were_reused_show_how_long_they_took_when_they_were_made(
    tmp_path: Path,
) -> None:
    store = open_store(str(tmp_path / "store"))
    first = write_run(tmp_path / "store", {}, stages=())
    version = "0123456789abcdef"
    reused = {"stage": "everything", "version": version, "state": "reused", "seconds": 0.01}
    run_id = start_run(store, "again", {"name": "again"}, {"steps": ["everything", "lost"]})
    record_step(store, run_id, "everything", {**reused, "step": "everything", "tables": {}})
    lost = {**reused, "stage": "lost", "version": "fedcba9876543210", "step": "lost"}
    record_step(store, run_id, "lost", {**lost, "tables": {}})
    end_run(store, run_id, "done", {})
    with open_runs(store, [first, run_id]) as (made_now, made_before):
        (chart,) = of(kept.cost([made_before]), Chart)
        said = {row["step"]: (row["seconds"], row["said"]) for row in chart.spec["data"]["values"]}
        assert said == {"everything": (1.5, "reused: 1.5 s when made"), "lost": (0.0, "reused")}
        assert chart.caption == (
            "0.0 s in this run. The steps it reused took 1.5 s when they were made."
        )
        (chart,) = of(kept.cost([made_now]), Chart)
        assert chart.caption == "2.0 s in all."
        assert made_before.made_in == 1.5


def test_entries_are_shown_for_every_step(tmp_path: Path, whole: tuple[Subject, ...]) -> None:
    figures = {"entries": 3.0, "definitions": 5.0, "isotropy": 0.12345, "mean_cosine": 0.5}
    tables: dict[str, list[dict[str, Any]]] = {
        "entry_spaces": [
            {"name": name, "seed": seed, "metric": metric, "value": value + shift}
            for name, seed, shift in (
                ("step1", None, 0.0),
                ("step2", 42, 0.25),
                ("step2", 43, 0.75),
            )
            for metric, value in figures.items()
        ],
        "entry_points": [
            {"name": name, "seed": seed, "entry_id": number, "text": f"{EVIL}{number}"}
            | {"x": number + (seed == 43), "y": 0.1234, "pca_x": -1.0, "pca_y": 0.5}
            for name, seed in (("step1", None), ("step2", 42), ("step2", 43))
            for number in range(3)
        ],
    }
    run = write_run(tmp_path / "store", tables)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run]) as subjects:
        section = entries.entries(subjects)
    assert table(section) == [
        ["step1", 3, 5, 0.1235, 0.5, None, None],
        # The mean of both seeds.
        ["step2", 4, 6, 0.6235, 1.0, None, None],
    ]
    charts = of(section, Chart)
    assert [len(chart.spec["data"]["values"]) for chart in charts] == [3, 3, 3, 3]
    # Those of the first seed.
    assert [point["x"] for point in charts[2].spec["data"]["values"]] == [0, 1, 2]
    assert charts[0].spec["data"]["values"][1]["y"] == 0.123
    assert {(p["x"], p["y"]) for p in charts[3].spec["data"]["values"]} == {(-1.0, 0.5)}
    (missing,) = of(entries.entries(whole), Note)
    assert "No phase trains against the entries" in missing.text
