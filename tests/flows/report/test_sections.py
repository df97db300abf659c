"""Each section says what the tables say, by hand-computed values."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands_store import graph_store
from question_rows import question_rows
from report_sections import flat, of, table
from report_store import EVIL, Written, write_run
from report_store import made as made_rows
from report_store import measured as measured_rows
from report_store import trained as trained_rows

from tercet.flows.pages.blocks import Chart, Items, Note, Table, Tabs
from tercet.flows.report import (
    background,
    examples,
    figures,
    projection,
    report,
    synthesis,
    training,
)
from tercet.flows.results.subject import Subject, open_runs
from tercet.storage.runs import end_run, record_step, start_run
from tercet.storage.store import open_store


def test_the_funnel_counts_what_the_tables_hold(whole: tuple[Subject, ...]) -> None:
    (chart,) = of(synthesis.funnel(whole), Chart)
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
    assert [(row[0], row[1], *row[3:]) for row in table(synthesis.funnel(whole))] == [
        ("select", "above_negative_max", 20, "57.1"),
        ("select", "below_positive_min", 15, "42.9"),
        ("parse", "empty", 1, "100.0"),
    ]


def test_examples_show_taken_and_refused_candidates_by_method(whole: tuple[Subject, ...]) -> None:
    (tabs,) = of(examples.examples(whole), Tabs)
    assert [panel.name for panel in tabs.panels] == ["next_sentences", "entity_swap"]
    taken, refused = (b for b in flat(tabs.panels[1].blocks) if isinstance(b, Items))
    assert [item.tag for item in taken.items] == ["In a triplet"] * 4
    assert "cosine 0.990" in refused.items[0].below
    assert "“new”" in refused.items[0].below


def test_scores_are_binned_on_their_side_of_the_threshold(whole: tuple[Subject, ...]) -> None:
    charts = {chart.title: chart for chart in of(synthesis.scores(whole), Chart)}
    rows = charts["next_sentences"].spec["data"]["values"]
    assert [(row["start"], row["count"], row["outcome"]) for row in rows] == [
        (0.1, 15, "beyond it"),
        (0.5, 15, "within the threshold"),
    ]
    (rule,) = charts["next_sentences"].spec["layer"][1]["data"]["values"]
    assert rule["at"] == 0.2


def test_before_and_after_with_interval(whole: tuple[Subject, ...]) -> None:
    section = figures.before_and_after(whole)
    rows = table(section)
    name, *numbers = rows[0][:4]
    assert name == "document pairs test, recall@1"
    assert numbers == ["60.00", "65.00", "+5.00 (+3.00 to +7.00)"]
    assert of(section, Table)[0].strong == {0, 1}


def test_seeds_are_summed_up(both: tuple[Subject, ...]) -> None:
    section = figures.over_seeds(both[1:])
    # 64, 65, 66: mean 65, deviation 1, and 4.303 / sqrt(3) on either side.
    shown = ["document pairs test, recall@1", "65.00 (62.52 to 67.48)", "1.00", "1.00", 3]
    assert table(section)[0][:5] == shown
    gain = figures.before_and_after(both[1:])
    assert table(gain)[0][3] == "+5.00 (+2.52 to +7.48)"


def test_alignment_and_uniformity_have_both_models(whole: tuple[Subject, ...]) -> None:
    (chart,) = of(figures.space(whole), Chart)
    points = {(p["texts"], p["model"]): p for p in chart.spec["data"]["values"]}
    assert points["document pairs test", "after"]["alignment"] == pytest.approx(0.8)
    # One of STS-B's texts has stayed in training.
    assert points["STS-B dev (transductive)", "before"]["uniformity"] == pytest.approx(-2.5)


def test_contamination_is_counted_by_level(whole: tuple[Subject, ...]) -> None:
    assert table(background.contamination(whole)) == [
        ["sts", "STS-B", "exact", 2, 2, "1.00"],
        ["sts", "STS-B", "ngram", 1, 0, "0.60"],
    ]


def test_the_plane_is_a_draw_with_a_sign_for_each_method(whole: tuple[Subject, ...]) -> None:
    (chart,) = of(projection.candidate_map(whole), Chart)
    points = chart.spec["data"]["values"]
    assert len(points) == 30 * 3
    assert {p["method"] for p in points} == {"source", "next_sentences", "entity_swap"}
    again = of(projection.candidate_map(whole), Chart)[0].spec["data"]["values"]
    assert again == points


def test_signs_in_the_plane_are_distinct() -> None:
    points = [{"role": "source", "method": "source"}]
    points += [{"role": "positive", "method": f"p{i}"} for i in range(7)]
    points += [{"role": "negative", "method": f"n{i}"} for i in range(7)]
    names = projection.legend(points)
    assert names[0]["method"] == "source"
    assert len({(name["colour"], name["shape"]) for name in names}) == 15


def test_a_section_that_shows_nothing_is_not_on_the_page(written: Written) -> None:
    store = open_store(str(written.store), create=False)
    with open_runs(store, [written.failed]) as subjects:
        page = report.render_report(subjects)
        for part in report.parts():
            section = part(subjects)
            for chart in of(section, Chart):
                assert chart.spec["data"]["values"], section.title
            notes = [block for block in section.blocks if isinstance(block, Note)]
            full = len(notes) < len(section.blocks) or any(n.tone != "missing" for n in notes)
            assert (f">{section.title}</h2>" in page) == full
        assert ">The gate</h2>" not in page


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
    remedy = "look at /home/ann/notes.txt"
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
    with open_runs(store, [first, run_id]) as (_, made_before):
        (chart,) = of(background.cost([made_before]), Chart)
        seconds = {row["step"]: row["seconds"] for row in chart.spec["data"]["values"]}
        assert seconds == {"everything": 1.5, "lost": 0.0}
        assert made_before.made_in == 1.5


def test_entries_are_shown_for_every_step(tmp_path: Path) -> None:
    values = {"entries": 3.0, "definitions": 5.0, "isotropy": 0.12345, "mean_cosine": 0.5}
    tables: dict[str, list[dict[str, Any]]] = {
        "entry_spaces": [
            {"name": name, "seed": seed, "metric": metric, "value": value + shift}
            for name, seed, shift in (
                ("step1", None, 0.0),
                ("step2", 42, 0.25),
                ("step2", 43, 0.75),
            )
            for metric, value in values.items()
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
        section = figures.entries(subjects)
    assert table(section) == [
        ["step1", "3", "5", "0.1235", "0.500"],
        # The mean of both seeds.
        ["step2", "4", "6", "0.6235", "1.000"],
    ]
    charts = of(section, Chart)
    assert [len(chart.spec["data"]["values"]) for chart in charts] == [3, 3, 3, 3]
    # Those of the first seed.
    assert [point["x"] for point in charts[2].spec["data"]["values"]] == [0, 1, 2]
    assert charts[0].spec["data"]["values"][1]["y"] == 0.123
    assert {(p["x"], p["y"]) for p in charts[3].spec["data"]["values"]} == {(-1.0, 0.5)}


def test_a_ranking_that_no_encoder_makes_has_no_gain_and_does_not_count(tmp_path: Path) -> None:
    tables = measured_rows(queries=500)
    for row in [row for row in tables["evaluations"] if row["suite"] == "retrieval"]:
        if not row["metric"].endswith("_gain"):
            words = {"suite": "retrieval_sets", "task": "mine bm25", "value": 60.0}
            tables["evaluations"].append(row | words)
    run = write_run(tmp_path / "store", tables)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run]) as subjects:
        rows = table(figures.before_and_after(subjects))
    assert rows[0][:4] == ["mine bm25 test, recall@1", "60.00", "60.00", None]


def test_each_question_has_its_ranks_and_what_came_first_instead(tmp_path: Path) -> None:
    measured = measured_rows()
    rows = question_rows("base-version", "encoder-42")
    rows["evaluation_items"] += measured["evaluation_items"]
    run_id = write_run(tmp_path / "store", {**measured, **rows})
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run_id]) as subjects:
        shown = table(figures.questions(subjects))
    assert shown[0] == ["gains most", "+100.0", None, 1, 7, 1, None, "mine"]
    assert shown[-1][:7] == ["loses most", "−90.0", 1, 9, 1, 9, "wrong.md: wrong words"]
    assert len(shown) == 5


def test_the_gate_and_dev_are_drawn(whole: tuple[Subject, ...]) -> None:
    titles = [chart.title for chart in of(training.curves(whole), Chart)]
    assert titles == ["Loss, triplets", "Dev, triplets"]
    opening, gradient, _ = of(training.gate(whole), Chart)
    assert [row["value"] for row in opening.spec["data"]["values"]][-1] == 1.0
    assert gradient.title == "Gradient, triplets"
    assert [row["value"] for row in gradient.spec["data"]["values"]][-1] == 0.5


def test_the_order_of_facts_is_drawn_where_a_part_reports_it(tmp_path: Path) -> None:
    tables = trained_rows()
    for row in tables["training_log"]:
        row["terms"] = [("strict.in_order", row["step"] / 20), ("topical.loss", 1.0)]
    run_id = write_run(tmp_path / "store", tables)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run_id]) as subjects:
        titles = [chart.title for chart in of(training.curves(subjects), Chart)]
    assert titles == ["Loss, triplets", "Order of facts, triplets", "Dev, triplets"]


def test_the_most_connected_entities_stand_with_their_neighbours(tmp_path: Path) -> None:
    store, run = graph_store(tmp_path / "store")
    with open_runs(store, [run]) as subjects:
        assert table(synthesis.neighbourhoods(subjects)) == [
            ["pond", "place", 3, 2, "reed (1), heron\x0b & <egret> (2)"],
            ["heron\x0b & <egret>", "animal", 5, 1, "pond (2)"],
            ["reed", None, 1, 1, "pond (1)"],
        ]


def test_entities_and_counts_are_those_of_the_users_own_sentences(tmp_path: Path) -> None:
    # Every sentence of a corpus mentions all its entities; "day" occurs in both.
    entities = {"plain": ("day", "person", "year"), "docs": ("bolt", "day")}
    names = sorted({name for named in entities.values() for name in named})
    corpora = ("plain", "plain", "plain", "docs", "docs")
    pairs = {(a, b) for named in entities.values() for a in named for b in named if a != b}
    tables: dict[str, list[dict[str, Any]]] = {
        "sentences": [
            {"sentence_id": place, "text": f"S{place}.", "corpus": corpus}
            for place, corpus in enumerate(corpora)
        ],
        "mentions": [
            {"sentence_id": place, "node_id": names.index(name), "kind": "entity"}
            for place, corpus in enumerate(corpora)
            for name in entities[corpus]
        ],
        "kg_nodes": [
            {"node_id": place, "kind": "entity", "text": name, "count": len(corpora)}
            for place, name in enumerate(names)
        ],
        "kg_edges": [
            {"source": names.index(a), "target": names.index(b), "kind": "soft", "count": 1}
            for a, b in sorted(pairs)
        ],
    }
    shipped = {"name": "plain", "source": "package:tercet.recipes/plain_english.txt"}
    recipe = {"corpora": [{"name": "docs", "source": "docs"}, shipped]}
    run = write_run(tmp_path / "store", tables, recipe=recipe)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run]) as subjects:
        assert table(synthesis.neighbourhoods(subjects)) == [
            ["bolt", None, 2, 1, "day (2)"],
            ["day", None, 2, 1, "bolt (2)"],
        ]
