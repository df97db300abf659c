"""Fact order as the stage `evaluate` measures it."""

import numpy as np
import pytest
from evaluation_stage import constant, encoder, model, run_stage

from tercet.flows.pipeline.fingerprints import without
from tercet.models import seeding
from tercet.tasks.evaluation.evaluate import STAGE, EvaluateConfig, externals

__all__ = ["encoder", "model"]

# By shared words, the first and the third are in order, the second ties, the last is not.
CASES = [
    ("a b c d", "a b c x", "a b x y", "number"),
    ("a b c d", "a b x y", "a b y z", "name"),
    ("e f g h", "e f g x", "e x y z", "number"),
    ("i j k l", "i x y z", "i j k x", "number"),
]


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "ours.tsv"
    lines = [("anchor", "rewording", "changed", "kind", "split")]
    lines += [(*case, "dev" if case[0].startswith("e") else "test") for case in CASES]
    path.write_text("\n".join("\t".join(line) for line in lines))
    return str(path)


def measured(tmp_path, model, files, **more):
    return run_stage(tmp_path / "work", model, [], retrieval=False, fact_order=files, **more)


def figures(table):
    rows = table["evaluations"].to_pylist()
    return {(r["task"], r["subset"], r["metric"]): r for r in rows if r["suite"] == "fact_order"}


def test_by_hand(tmp_path, encoder, model, cases):
    out = measured(tmp_path, model, {"ours": cases}, splits=["dev", "test"])
    found = {key: row["value"] for key, row in figures(out).items()}
    assert found == {
        ("ours", "all", "accuracy"): 50.0,
        ("ours", "number", "accuracy"): 50.0,
        ("ours", "name", "accuracy"): 50.0,
        ("ours dev", "all", "accuracy"): 100.0,
    }
    assert figures(out)["ours", "all", "accuracy"]["n"] == 3
    items = out["evaluation_items"].to_pylist()
    assert [(i["task"], i["subset"], i["item"], i["value"]) for i in items] == [
        ("ours", "number", 0, 1.0),
        ("ours", "number", 1, 0.0),
        ("ours", "name", 0, 0.5),
        ("ours dev", "number", 0, 1.0),
    ]
    anchors = seeding.text_ids([CASES[place][0] for place in (0, 3, 1, 2)])
    assert [item["anchor_id"] for item in items] == anchors.tolist()
    cases = out["fact_order_cases"].to_pylist()
    assert [(c["task"], c["kind"], c["item"]) for c in cases] == [
        ("ours", "number", 0),
        ("ours", "name", 0),
        ("ours", "number", 1),
        ("ours dev", "number", 0),
    ]
    assert tuple(cases[0][name] for name in ("anchor", "rewording", "changed")) == CASES[0][:3]
    assert cases[0]["rewording_similarity"] == pytest.approx(0.75)
    assert cases[0]["changed_similarity"] == pytest.approx(0.5)
    # Each distinct text once.
    assert sorted(encoder.seen) == sorted({text for case in CASES for text in case[:3]})


def test_gains_are_paired_and_a_collapsed_encoder_gets_a_half(tmp_path, encoder, model, cases):
    base = measured(tmp_path, model, cases)
    encoder.embed = constant
    out = measured(tmp_path, model, cases, baseline=base)
    found = figures(out)
    assert found["ours", "all", "accuracy"]["value"] == 50.0
    assert found["ours", "number", "accuracy_gain"]["value"] == 0.0
    # In all resamples every case is a tie, so the gain varies as the first model's figure does.
    gain, before = found["ours", "all", "accuracy_gain"], figures(base)["ours", "all", "accuracy"]
    assert gain["ci_high"] == pytest.approx(50 - before["ci_low"])


def test_the_content_of_the_file_counts_and_not_its_place(cases):
    config = EvaluateConfig(fact_order=cases)
    assert {name: str(path) for name, path in externals(config).items()} == {
        "fact_order/ours": cases
    }
    kept = without(config.model_dump(mode="json"), STAGE.locations)
    assert kept == without(EvaluateConfig().model_dump(mode="json"), STAGE.locations)


def test_kinds_are_resampled_by_themselves(tmp_path, encoder, model):
    """As wide as an interval over as many independent cases."""
    path = tmp_path / "many.tsv"
    rows = ["anchor\trewording\tchanged\tkind"]
    for i in range(200):
        near, far = (f"a{i} b{i} u", f"a{i} v w") if i % 2 else (f"a{i} v w", f"a{i} b{i} u")
        rows.append(f"a{i} b{i} c{i}\t{near}\t{far}\t{'early' if i < 100 else 'late'}")
    path.write_text("\n".join(rows))
    found = figures(measured(tmp_path, model, str(path)))
    for subset, n in (("all", 200), ("early", 100), ("late", 100)):
        row = found["many", subset, "accuracy"]
        assert row["n"] == n
        # Hashed words may collide.
        assert row["value"] == pytest.approx(50, abs=2)
        expected = 2 * 1.96 * 50 / np.sqrt(n)
        assert row["ci_high"] - row["ci_low"] == pytest.approx(expected, rel=0.2)


def test_several_cases_of_an_anchor_are_drawn_together(tmp_path, encoder, model):
    """With one anchor there is nothing to draw, however many cases it has."""
    path = tmp_path / "one.tsv"
    rows = ["anchor\trewording\tchanged\tkind"]
    rows += [f"a b c d\ta b c x{i}\ta b y{i} z{i}\tnumber" for i in range(5)]
    rows += [f"a b c d\ta u{i} v{i} w{i}\ta b c x{i}\tnumber" for i in range(5)]
    path.write_text("\n".join(rows))
    row = figures(measured(tmp_path, model, str(path)))["one", "all", "accuracy"]
    assert (row["value"], row["ci_low"], row["ci_high"], row["n"]) == (50.0, 50.0, 50.0, 10)
