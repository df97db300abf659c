"""The stage `evaluate` on document pairs, questions and STS."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from evaluation_stage import (
    STSB,
    constant,
    encoder,
    evaluate_model,
    many_pairs,
    model,
    pairs_table,
    run_stage,
    values,
    words,
    write_stsb,
    write_year,
)
from failures import fails
from small_suites import SICK_HEADER, YEARS

from tercet.tasks.evaluation import evaluate
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.evaluation.evaluation_rows import LEAST

__all__ = ["encoder", "model"]


def ranks_by_pair(out: dict[str, pa.Table]) -> dict[int, int]:
    rows = out["retrieval_ranks"].to_pylist()
    return {row["pair_id"]: row["rank"] for row in rows}


def test_retrieval_by_hand(tmp_path, encoder, model):
    pairs = [
        ("red", "red apple", "test"),
        ("green pear", "green", "test"),
        ("red", "blue plum", "test"),
        ("red", "never seen", "train"),
    ]
    out = run_stage(tmp_path, model, pairs)
    ranks = ranks_by_pair(out)
    ids = pairs_table(pairs)["pair_id"].to_pylist()
    # "red" is nearest to "red apple"; to "blue plum" it is as far as to "green": a tie, against it.
    assert [ranks[i] for i in ids[:3]] == [1, 1, 3]
    assert ids[3] not in ranks
    found = values(out["evaluations"], subset="test")
    assert found["recall@1"] == pytest.approx(200 / 3)
    assert found["recall@10"] == pytest.approx(100)
    assert found["mrr"] == pytest.approx(100 * (1 + 1 + 1 / 3) / 3)
    # Cosines sqrt(1/2), sqrt(1/2) and 0: squared distances 2 - 2 cos.
    assert found["alignment"] == pytest.approx((2 * (2 - np.sqrt(2)) + 2) / 3, abs=1e-6)
    assert "recall@1_gain" not in found
    row = out["evaluations"].to_pylist()[0]
    assert (row["phase"], row["n"], row["seed"], row["pooling"]) == ("base", 3, 1, "mean")
    assert row["ci_low"] <= row["value"] <= row["ci_high"]


def test_splits_are_measured_each_among_its_own_answers(tmp_path, encoder, model):
    pairs = [*many_pairs(30), *many_pairs(4, "dev"), ("w1 q1", "w1 a1", "train")]
    out = run_stage(tmp_path, model, pairs, splits=("test", "dev"))
    ranks = out["retrieval_ranks"].to_pydict()
    assert Counter(ranks["split"]) == {"test": 30, "dev": 4}
    assert max(r for r, s in zip(ranks["rank"], ranks["split"], strict=True) if s == "dev") <= 4
    counts = {(r["subset"], r["metric"]): r["n"] for r in out["evaluations"].to_pylist()}
    assert counts["test", "recall@1"] == 30
    assert counts["dev", "recall@1"] == 4


def test_documents_with_the_same_answer_do_not_count_against_each_other(tmp_path, encoder, model):
    pairs = [("red", "red apple", "test"), ("red fruit", "red apple", "test")]
    out = run_stage(tmp_path, model, [*pairs, ("x", "y", "test")])
    ranks = ranks_by_pair(out)
    assert [ranks[i] for i in pairs_table(pairs)["pair_id"].to_pylist()] == [1, 1]


def test_a_constant_encoder_finds_nothing(tmp_path, encoder, model):
    encoder.embed = constant
    out = run_stage(tmp_path, model, many_pairs(50))
    assert set(out["retrieval_ranks"]["rank"].to_pylist()) == {50}
    assert values(out["evaluations"])["recall@10"] == 0


def test_gains_over_a_baseline_are_paired(tmp_path, encoder, model):
    pairs = many_pairs(60)
    encoder.embed = lambda text: words(text) + 0.8 * words(text[::-1])
    before = run_stage(tmp_path / "a", model, pairs)
    encoder.embed = words
    after = run_stage(tmp_path / "b", model, pairs, baseline=before)
    base, found = values(before["evaluations"]), values(after["evaluations"])
    for metric in ("recall@1", "recall@10", "mrr"):
        assert found[f"{metric}_gain"] == pytest.approx(found[metric] - base[metric])
    assert {r["phase"] for r in after["evaluations"].to_pylist()} == {"encoder"}
    same = run_stage(tmp_path / "c", model, pairs, baseline=after)
    gains = [r for r in same["evaluations"].to_pylist() if r["metric"].endswith("_gain")]
    assert [(r["value"], r["ci_low"], r["ci_high"]) for r in gains] == [(0, 0, 0)] * 3
    with fails("no_rows", "10", "70"):
        run_stage(tmp_path / "d", model, many_pairs(70), baseline=before)


def test_max_pairs_draws_by_seed_whatever_the_order(tmp_path, encoder, model):
    def ids(folder, pairs, **kwargs):
        out = run_stage(tmp_path / folder, model, pairs, max_pairs=10, **kwargs)
        return out["retrieval_ranks"]["pair_id"].to_pylist(), values(out["evaluations"])

    pairs = many_pairs(40)
    first = ids("a", pairs)
    assert len(first[0]) == 10
    assert ids("b", pairs[::-1]) == first
    assert ids("c", pairs, seed=2)[0] != first[0]


def test_a_split_without_pairs_is_a_reject(tmp_path, encoder, model):
    out = run_stage(tmp_path, model, [("a", "b", "train")])
    assert out["evaluations"].num_rows == out["retrieval_ranks"].num_rows == 0
    (row,) = out["rejects"].to_pylist()
    assert row["reason"] == "no_pairs"


def test_spearman_alignment_and_uniformity_of_stsb(tmp_path, encoder, model):
    suite = write_stsb(tmp_path, STSB)
    table = evaluate_model(model, suite, ["STS-B"])
    found = values(table, task="STS-B", subset="all")
    assert found["spearman"] == pytest.approx(100)
    # Of the pairs above 4, one is of equal texts and one shares two of three words: 2 - 2 * 2/3.
    assert found["alignment"] == pytest.approx((0 + 2 / 3) / 2, abs=1e-6)
    assert found["uniformity"] < 0
    assert values(table, subset="mean") == values(table, subset="wmean")
    rows = {row["metric"]: row for row in table.to_pylist()}
    assert (rows["alignment"]["n"], rows["uniformity"]["n"], rows["spearman"]["n"]) == (2, 4, 4)
    assert rows["spearman"]["text_form"] == "lower"
    # Of any four of these pairs, those drawn are in order; and geometry has no interval.
    assert rows["spearman"]["ci_low"] == rows["spearman"]["ci_high"] == 100
    assert rows["alignment"]["ci_low"] is None


def test_the_three_settings_of_a_year(tmp_path, encoder, model):
    """Each file is in perfect or reversed order by itself; together the order is another."""
    texts = {"one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0}
    # The angle to "zero" grows with the number, so the cosine with it falls.
    encoder.embed = lambda text: np.array(
        [np.cos(texts.get(text, 0) / 4), np.sin(texts.get(text, 0) / 4)]
    )
    files = {
        "FNWN": [("3", "zero", "one"), ("", "zero", "x"), ("1", "zero", "three")],
        "headlines": [("5", "zero", "two"), ("4", "zero", "four"), ("2", "zero", "five")],
        "OnWN": [("1", "zero", "two"), ("2", "zero", "five"), ("3", "zero", "three"),
                 ("4", "zero", "one")],
    }  # fmt: skip
    table = evaluate_model(model, write_year(tmp_path, "STS13", files), ["STS13"])
    found = {row["subset"]: row["value"] for row in table.to_pylist()}
    # OnWN: cosines rank 3 1 2 4 against scores 1 2 3 4: squared differences 4 1 1 0, 1 - 36/60.
    assert found["FNWN"] == pytest.approx(100)
    assert found["headlines"] == pytest.approx(100)
    assert found["OnWN"] == pytest.approx(40)
    assert found["mean"] == pytest.approx((100 + 100 + 40) / 3)
    assert found["wmean"] == pytest.approx((2 * 100 + 3 * 100 + 4 * 40) / 9)
    # Mid-ranks of all nine: of the cosines with numbers 1 3 2 4 5 2 5 3 1, and of the scores.
    cosines = [8.5, 4.5, 6.5, 3, 1.5, 6.5, 1.5, 4.5, 8.5]
    scores = [5.5, 1.5, 9, 7.5, 3.5, 1.5, 3.5, 5.5, 7.5]
    assert found["all"] == pytest.approx(100 * np.corrcoef(cosines, scores)[0, 1])
    # A mean of files, one of which is of two pairs: half its resamples hold one pair only.
    ends = {row["subset"]: (row["ci_low"], row["ci_high"]) for row in table.to_pylist()}
    assert ends["FNWN"] == ends["mean"] == ends["wmean"] == (None, None)
    assert ends["all"][0] < found["all"] < ends["all"][1]
    assert {row["subset"]: row["n"] for row in table.to_pylist()} == {
        "all": 9, "mean": 9, "wmean": 9, "FNWN": 2, "headlines": 3, "OnWN": 4
    }  # fmt: skip


def test_the_average_of_the_seven(tmp_path, encoder, model):
    suite = write_stsb(tmp_path, STSB)
    rows = [(str(score), a, b) for score, a, b in STSB]
    for number, (task, stems) in enumerate(YEARS.items()):
        # Each year is one pair longer, so that `wmean` is another than `mean`.
        files = {stem: rows[i % 2 :] for i, stem in enumerate(stems)}
        files[stems[0]] = [*rows, *[("1", "a fish", f"some fish {i}") for i in range(number)]]
        write_year(suite, task, files)
    (suite / "SICK").mkdir()
    lines = [f"{i}\t{a}\t{b}\t{1 + s / 2}\tN\n" for i, (s, a, b) in enumerate(STSB)]
    (suite / "SICK" / "SICK_test_annotated.txt").write_text(SICK_HEADER + "".join(lines))
    table = evaluate_model(model, suite)
    for setting in ("all", "mean", "wmean"):
        by_task = {
            row["task"]: row["value"]
            for row in table.to_pylist()
            if row["subset"] == setting and row["metric"] == "spearman"
        }
        seven = [value for task, value in by_task.items() if task != "STS"]
        assert len(seven) == 7
        assert by_task["STS"] == pytest.approx(np.mean(seven))
    one = evaluate_model(model, suite, ["STS12", "SICK-R"])
    assert "STS" not in one["task"].to_pylist()


def test_pooling_length_and_the_models_code_reach_the_encoder(tmp_path, encoder, model):
    suite = write_stsb(tmp_path, STSB)
    more = {"pooling": "cls", "max_length": 32, "trust_remote_code": True}
    table = evaluate_model(model, suite, ["STS-B"], **more)
    assert encoder.loaded == [(model, "cls", 32, "cpu", True)]
    assert set(table["pooling"].to_pylist()) == {"cls"}


def test_externals_are_the_files_read(tmp_path):
    suite = write_stsb(tmp_path, STSB)
    config = EvaluateConfig(suite=suite, tasks=("STS-B",))
    name = "STS/STSBenchmark/sts-test.csv"
    assert evaluate.externals(config) == {name: suite / name}
    assert evaluate.externals(EvaluateConfig()) == {}
    with fails("missing_file", "12"):
        evaluate.externals(EvaluateConfig(suite=suite))


def test_the_version_is_the_artifacts_or_a_digest_of_the_files(tmp_path, model):
    files = tmp_path / "train" / "abc123" / "files" / "x1"
    files.mkdir(parents=True)
    (files / "config.json").write_text("{}")
    digest = evaluate.model_version(files)
    assert digest == evaluate.model_version(model)
    (tmp_path / "train" / "abc123" / "_parts").mkdir()
    (tmp_path / "train" / "abc123" / "manifest.json").write_text("{}")
    assert evaluate.model_version(files) == "abc123"


@pytest.mark.slow
def test_the_packaged_minilm_has_its_known_figures(minilm: Path, shared_data: Path):
    """STS16 in its three settings; benchmarks/sts_selftest.py holds all the seven."""
    suite = shared_data / "downstream"
    table = evaluate_model(minilm, suite, ["STS16"], pooling="mean", precision="bf16")
    found = {row["subset"]: row["value"] for row in table.to_pylist()}
    assert found["all"] == pytest.approx(78.99, abs=0.1)
    assert found["mean"] == pytest.approx(81.3, abs=0.1)
    assert found["wmean"] == pytest.approx(81.2, abs=0.1)


def questions(**asked: list[tuple[str, str, str]]) -> pa.Table:
    tables = []
    for name, rows in asked.items():
        table = pairs_table(rows)
        tables.append(table.append_column("question", pa.array([name] * len(rows))))
    return pa.concat_tables(tables)


def test_each_question_is_a_task_of_its_own(tmp_path, encoder, model):
    natural = many_pairs(6)
    asked = questions(
        name=[*many_pairs(LEAST), *many_pairs(LEAST - 1, "dev")], other=many_pairs(LEAST + 3)
    )
    base = run_stage(tmp_path / "a", model, natural, questions=asked, splits=["dev", "test"])
    rows = base["evaluations"].to_pylist()
    found = {(r["task"], r["subset"]): r for r in rows if r["metric"] == "recall@1"}
    # Too few of dev.
    assert set(found) == {("document_pairs", "test"), ("name", "test"), ("other", "test")}
    assert found["name", "test"]["n"] == LEAST
    assert found["other", "test"]["n"] == LEAST + 3
    alone = run_stage(tmp_path / "b", model, natural, splits=["dev", "test"])
    assert [r for r in rows if r["task"] == "document_pairs"] == alone["evaluations"].to_pylist()
    ranks = base["retrieval_ranks"].to_pylist()
    assert {row["task"] for row in ranks} == {"document_pairs", "name", "other"}
    trained = run_stage(
        tmp_path / "c", model, natural, baseline=base, questions=asked, splits=["dev", "test"]
    )
    rows = [r for r in trained["evaluations"].to_pylist() if r["metric"] == "recall@1_gain"]
    gains = {row["task"]: row["value"] for row in rows}
    assert gains == {"document_pairs": 0.0, "name": 0.0, "other": 0.0}


def test_the_nearest_answer_stands_beside_the_rank(tmp_path, encoder, model):
    rows = [("a b", "a c", "test"), ("d e", "a b", "test"), ("f g", "f h", "test")]
    ids = pairs_table(rows)["pair_id"].to_pylist()
    out = run_stage(tmp_path / "a", model, rows)["retrieval_ranks"].sort_by("pair_id").to_pylist()
    found = {row["pair_id"]: (row["nearest_id"], row["nearest_similarity"]) for row in out}
    assert found[ids[0]] == (ids[1], pytest.approx(1, abs=1e-6))
    assert found[ids[2]] == (ids[2], pytest.approx(0.5, abs=1e-6))
    assert {row["rank"] for row in out if row["pair_id"] == ids[0]} == {2}
    encoder.embed = constant
    out = run_stage(tmp_path / "b", model, rows)["retrieval_ranks"].to_pylist()
    assert {row["nearest_id"] for row in out} < set(ids)
