"""The stage `evaluate` on all suites: figures, items, gains, and several models side by side."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from evaluation_stage import (
    STSB,
    compare,
    constant,
    encoder,
    many_pairs,
    model,
    pairs_table,
    run_stage,
    values,
    words,
    write_stsb,
    write_year,
    written,
)
from failures import fails
from sklearn.metrics import average_precision_score, f1_score
from small_suites import query, write_transfer

from tercet.tasks.evaluation import encoding
from tercet.tasks.evaluation.evaluation_rows import draw_pairs
from tercet.tasks.evaluation.suites.sts import read_awareness

__all__ = ["encoder", "model"]

DUPLICATES = [
    ("how to bake bread", "how to bake a bread", 1),
    ("how to bake bread", "bread baking times", 1),
    ("how to bake bread", "how to mend a tyre", 0),
    ("the red boat", "a green house", 0),
]


def write_pairs(root: Path, name: str = "ours") -> Path:
    (root / "pairs").mkdir(parents=True)
    rows = "".join(f"{a}\t{b}\t{label}\n" for a, b, label in DUPLICATES)
    (root / "pairs" / f"{name}.tsv").write_text("sentence1\tsentence2\tlabel\n" + rows)
    return root


def write_reranking(root: Path, *names: str) -> Path:
    """Two queries: one in two wordings with its answer first, one with its answer second."""
    (root / "reranking").mkdir(parents=True)
    lines = query(["mend a tyre", "bake bread"], ["bake bread now"], ["mend shoes", "sail boats"])
    lines += query("red boat", ["boat"], ["red boat race", "fish"])
    for name in names:
        (root / "reranking" / f"{name}.jsonl").write_text(lines)
    return root


def write_mrpc(root: Path) -> Path:
    """Pairs that share all words or none, but for every fifth of the test pairs."""
    (root / "MRPC").mkdir(parents=True)
    for name, odd in (("train", 10**6), ("test", 5)):
        rows = ["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
        for i in range(30):
            same = i % 2 == (i % odd != 0 or i == 0)
            second = f"he said w{i} ." if same else f"no such x{i} !"
            rows.append(f"{i % 2}\t{i}\t{i}\the said w{i} .\t{second}")
        (root / "MRPC" / f"msr_paraphrase_{name}.txt").write_text("\n".join(rows) + "\n")
    return root


def measured(tmp_path, model, suite, *tasks, **more):
    return run_stage(tmp_path, model, [], retrieval=False, suite=suite, tasks=tasks, **more)


def items(out: dict[str, pa.Table], task: str) -> tuple[list[float | None], list[float]]:
    rows = [row for row in out["evaluation_items"].to_pylist() if row["task"] == task]
    assert [row["item"] for row in rows] == list(range(len(rows)))
    return [row["gold"] for row in rows], [row["value"] for row in rows]


def test_pairs_by_hand(tmp_path, encoder, model):
    out = measured(tmp_path, model, write_pairs(tmp_path / "suite"), "pairs:ours")
    gold, cosines = items(out, "ours")
    # Shared words over the root of both lengths.
    expected = [4 / np.sqrt(4 * 5), 1 / np.sqrt(4 * 3), 2 / np.sqrt(4 * 5), 0]
    assert cosines == pytest.approx(expected, abs=1e-6)
    assert gold == [1, 1, 0, 0]
    (row,) = out["evaluations"].to_pylist()
    # Order: 1, 0, 1, 0: precisions 1 and 2 of 3.
    assert (row["suite"], row["task"], row["metric"]) == ("pairs", "ours", "ap")
    assert row["value"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert row["value"] == pytest.approx(100 * average_precision_score(gold, cosines))
    assert (row["n"], row["text_form"], len(row["data_digest"])) == (4, "lower", 16)


def test_reranking_by_hand_and_the_average_of_four(tmp_path, encoder, model):
    names = ("AskUbuntu", "SciDocs", "StackOverflow", "Mind")
    suite = write_reranking(tmp_path / "suite", *names, "ours")
    out = measured(tmp_path, model, suite, "reranking")
    # "bake bread now" is nearest by the second wording; "boat" (0.71) comes after "red boat race".
    assert items(out, "ours") == ([None, None], [1.0, 0.5])
    found = {row["task"]: row for row in out["evaluations"].to_pylist()}
    assert set(found) == {*names, "ours", "reranking"}
    assert {row["value"] for row in found.values()} == {75.0}
    assert {row["metric"] for row in found.values()} == {"map"}
    assert (found["ours"]["n"], found["reranking"]["n"]) == (2, 8)
    # Four sets resampled each by itself scatter less than one.
    one, four = found["ours"], found["reranking"]
    assert four["ci_high"] - four["ci_low"] < one["ci_high"] - one["ci_low"]
    some = measured(tmp_path / "some", model, suite, "AskUbuntu", "Mind")
    assert set(some["evaluations"]["task"].to_pylist()) == {"AskUbuntu", "Mind"}


def test_queries_with_nothing_to_rank_are_told(tmp_path, encoder, model):
    suite = write_reranking(tmp_path / "suite", "AskUbuntu", "ours")
    with (suite / "reranking" / "ours.jsonl").open("a") as file:
        file.write(query("red", []) + query("red", negative=[]) + query("red", [], []))
    out = measured(tmp_path, model, suite, "reranking")
    (row,) = (row for row in out["rejects"].to_pylist() if row["reason"] == "no_ranking")
    assert row["detail"].endswith("3")


def test_transfer_has_what_was_right_and_the_f1_of_mrpc(tmp_path, encoder, model):
    encoder.embed = lambda text: words(text).reshape(32, -1).sum(axis=1)
    out = measured(tmp_path, model, write_mrpc(tmp_path / "suite"), "MRPC")
    gold, right = items(out, "MRPC")
    assert set(gold) == {None}
    assert set(right) == {0.0, 1.0}
    found = values(out["evaluations"], task="MRPC", subset="all")
    assert found["accuracy"] == pytest.approx(100 * np.mean(right))
    labels = np.arange(30) % 2
    guesses = np.where(np.array(right) > 0, labels, 1 - labels)
    assert found["f1"] == pytest.approx(100 * f1_score(labels, guesses))
    assert {row["n"] for row in out["evaluations"].to_pylist()} == {30}
    # One of seven makes no average.
    assert set(out["evaluations"]["task"].to_pylist()) == {"MRPC"}
    again = measured(tmp_path / "again", model, tmp_path / "suite", "MRPC")
    assert again["evaluations"].equals(out["evaluations"])


def test_a_classifier_gets_the_vectors_as_the_model_gives_them(tmp_path, encoder, model):
    """Lengths tell the classes apart here; of length one the vectors are all the same."""
    encoder.embed = lambda text: np.array([3.0, 4.0]) * (2 if "good" in text else 0.1)
    out = measured(tmp_path, model, write_transfer(tmp_path / "suite"), "SST-2")
    assert values(out["evaluations"])["accuracy"] == 100


def awareness(kinds: tuple[str, ...] = ("entity", "quantity"), each: int = 30) -> pa.Table:
    """Pairs that share fewer words the less alike the teacher finds them."""
    rows = []
    for kind in kinds:
        for i in range(each):
            words = [f"{kind}{i}w{j}" for j in range(8)]
            text = " ".join([*words[: 1 + i % 8], f"{kind}{i}"])
            row = {"pair_id": len(rows), "kind": kind, "anchor": " ".join(words), "text": text}
            similarity = (i % 8) / 8 - (0.9 if kind == "quantity" else 0)
            rows.append(row | {"teacher_similarity": similarity})
    return pa.Table.from_pylist(rows)


def test_awareness_correlates_with_the_teacher(tmp_path, encoder, model):
    out = run_stage(tmp_path, model, [], retrieval=False, awareness=awareness())
    found = {row["task"]: row for row in out["evaluations"].to_pylist()}
    assert set(found) == {"entity", "quantity", "all"}
    assert {(row["suite"], row["subset"], row["metric"]) for row in found.values()} == {
        ("awareness", "all", "spearman")
    }
    assert min(found["entity"]["value"], found["quantity"]["value"]) > 99
    # The teacher finds quantities less alike throughout, the encoder does not.
    assert found["all"]["value"] < 90
    assert [found[task]["n"] for task in ("entity", "quantity", "all")] == [30, 30, 60]
    one = awareness(("entity",))
    only = run_stage(tmp_path / "one", model, [], retrieval=False, awareness=one)
    assert set(only["evaluations"]["task"].to_pylist()) == {"entity", "all"}


def whole_suite(root: Path) -> Path:
    """STS-B, a year, SST-2, a reranking set and a file of pairs."""
    suite = write_stsb(root, STSB * 3)
    rows = [(str(score), a, b) for score, a, b in STSB]
    write_year(suite, "STS13", {"FNWN": rows, "headlines": rows[::-1], "OnWN": rows})
    write_transfer(suite)
    write_reranking(suite, "ours")
    return write_pairs(suite)


TASKS = ("STS13", "STS-B", "SST-2", "reranking", "pairs")


def noisy(text: str) -> np.ndarray:
    """As `words`, with a share of what the text's letters say."""
    return words(text) + 0.8 * words(" ".join(text))


def test_gains_of_every_figure_are_paired(tmp_path, encoder, model):
    suite = whole_suite(tmp_path / "suite")
    encoder.embed = noisy
    before = measured(tmp_path / "a", model, suite, *TASKS)
    encoder.embed = words
    after = measured(tmp_path / "b", model, suite, *TASKS, baseline=before)
    base = {
        (r["task"], r["subset"], r["metric"]): r["value"]
        for r in before["evaluations"].to_pylist()
        if r["metric"] not in ("alignment", "uniformity", "isotropy")
    }
    rows = {(r["task"], r["subset"], r["metric"]): r for r in after["evaluations"].to_pylist()}
    gains = {name: row for name, row in rows.items() if name[2].endswith("_gain")}
    assert {(t, s, m.removesuffix("_gain")) for t, s, m in gains} == set(base)
    for (task, subset, metric), row in gains.items():
        name = (task, subset, metric.removesuffix("_gain"))
        assert row["value"] == pytest.approx(rows[name]["value"] - base[name])
        if row["ci_low"] is not None:
            assert row["ci_low"] <= row["value"] <= row["ci_high"]
    same = measured(tmp_path / "c", model, suite, *TASKS, baseline=after)
    of_same = [r for r in same["evaluations"].to_pylist() if r["metric"].endswith("_gain")]
    assert len(of_same) == len(gains)
    assert {(r["value"], r["ci_low"] or 0.0, r["ci_high"] or 0.0) for r in of_same} == {(0, 0, 0)}


def test_the_models_seed_is_told_and_draws_nothing(tmp_path, encoder, model):
    suite = whole_suite(tmp_path / "suite")

    def out(folder, **more):
        more = {"suite": suite, "tasks": TASKS, "max_pairs": 20, **more}
        return run_stage(tmp_path / folder, model, many_pairs(60), **more)

    one, two, three = out("a"), out("b", model_seed=43), out("c", seed=2)
    assert set(one["evaluations"]["seed"].to_pylist()) == {1}
    assert set(two["evaluations"]["seed"].to_pylist()) == {43}
    assert two["evaluations"].drop_columns("seed").equals(one["evaluations"].drop_columns("seed"))
    assert two["retrieval_ranks"].equals(one["retrieval_ranks"])
    ends = "ci_low"
    assert not three["evaluations"][ends].equals(one["evaluations"][ends])


def test_texts_are_encoded_once_over_all_suites(tmp_path, encoder, model):
    suite = whole_suite(tmp_path / "suite")
    pairs = [*many_pairs(20), ("a red apple", "how to bake bread", "test")]
    out = run_stage(tmp_path, model, pairs, suite=suite, tasks=TASKS, awareness=awareness())
    assert len(encoder.seen) == len(set(encoder.seen))
    suites = {"retrieval", "sts", "transfer", "reranking", "pairs", "awareness"}
    assert set(out["evaluations"]["suite"].to_pylist()) == suites


def test_blocks_and_a_file_of_vectors_change_nothing(tmp_path, encoder, model, monkeypatch):
    suite = whole_suite(tmp_path / "suite")
    whole = measured(tmp_path / "a", model, suite, *TASKS)
    monkeypatch.setattr(encoding, "_BLOCK", 7)
    monkeypatch.setattr(encoding, "_IN_MEMORY", 0)
    parted = measured(tmp_path / "b", model, suite, *TASKS)
    assert (tmp_path / "b" / "vectors").is_file()
    assert parted["evaluations"].equals(whole["evaluations"])
    assert parted["evaluation_items"].equals(whole["evaluation_items"])


def test_several_models_differ_from_the_first(tmp_path, encoder, model):
    suite = whole_suite(tmp_path / "suite")
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text('{"other": 1}')
    load = encoder.load_encoder

    def load_encoder(path, *rest, **more):
        encoder.embed = noisy if path == other else words
        return load(path, *rest, **more)

    encoder.load_encoder = load_encoder
    models = {"ours": model, "theirs": other, "copy": model}
    table = compare(models, suite=suite, tasks=TASKS, bootstrap=200)
    rows = table.to_pylist()
    assert list(dict.fromkeys(row["model"] for row in rows)) == ["ours", "theirs", "copy"]
    first = [row for row in rows if row["model"] == "ours"]
    assert not any(row["metric"].endswith("_gain") or row["p"] is not None for row in first)
    known = {(r["model"], r["task"], r["subset"], r["metric"]): r for r in rows}
    for model_name in ("theirs", "copy"):
        gain = known[model_name, "STS-B", "all", "spearman_gain"]
        one = known["ours", "STS-B", "all", "spearman"]["value"]
        two = known[model_name, "STS-B", "all", "spearman"]["value"]
        assert gain["value"] == pytest.approx(two - one)
        assert 0 < gain["p"] <= 1
    assert known["copy", "STS-B", "all", "spearman_gain"]["p"] == 1
    versions = {row["model"]: row["model_version"] for row in rows}
    assert versions["ours"] == versions["copy"] != versions["theirs"]


def test_pairs_of_a_run_are_measured_as_its_stage_does(tmp_path, encoder, model):
    encoder.embed = noisy
    pairs = [*many_pairs(60), *many_pairs(20, "dev")]
    config = {"max_pairs": 40, "splits": ("test", "dev")}
    out = run_stage(tmp_path / "stage", model, pairs, awareness=awareness(), seed=9, **config)
    stage = out["evaluations"].to_pylist()
    rows = written(tmp_path, {"document_pairs": pairs_table(pairs)}, "document_pairs")
    again = tmp_path / "again"
    shutil.copytree(model, again)
    table = compare(
        {"one": model, "two": again},
        splits=("test", "dev"),
        pairs=draw_pairs(rows, ("test", "dev"), 40, 9),
        tasks_of_run=read_awareness(awareness()),
        bootstrap=200,
        seed=9,
    )
    found = [row for row in table.to_pylist() if row["model"] == "one"]
    assert len(stage) == 15
    keys = ("suite", "task", "subset", "metric", "value", "ci_low", "ci_high", "n", "data_digest")
    shown = [[[row[key] for key in keys] for row in rows_of_one] for rows_of_one in (found, stage)]
    assert shown[0] == shown[1]
    gains = [row for row in table.to_pylist() if row["metric"].endswith("_gain")]
    assert {(row["task"], row["subset"]) for row in gains} == {
        ("document_pairs", "test"),
        ("document_pairs", "dev"),
        *((task, "all") for task in ("entity", "quantity", "all")),
    }
    assert {(row["model"], row["value"], row["p"]) for row in gains} == {("two", 0.0, 1.0)}


@pytest.mark.parametrize(
    ("task", "file", "content"),
    [
        ("STS13", "STS13-en-test/STS.gs.headlines.txt", "3\n" * len(STSB)),
        ("STS13", "STS13-en-test/STS.gs.headlines.txt", "1" + "\n" * len(STSB)),
        ("STS-B", "STSBenchmark/sts-test.csv", "g\tf\ty\t1\t1\ta b\ta c\n"),
    ],
)
def test_scores_without_a_correlation_are_named(tmp_path, encoder, model, task, file, content):
    suite = whole_suite(tmp_path / "suite")
    (suite / "STS" / file).write_text(content)
    with fails("unfit_model", task):
        measured(tmp_path, model, suite, task)


@pytest.mark.parametrize("task", ["STS13", "STS-B", "reranking", "pairs"])
@pytest.mark.parametrize("vector", [np.ones(8), np.zeros(8)])
def test_an_encoder_that_tells_nothing_apart_is_refused(tmp_path, encoder, model, task, vector):
    encoder.embed = lambda text: vector
    with fails("damaged"):
        measured(tmp_path, model, whole_suite(tmp_path / "suite"), task)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("fault", [np.nan, np.inf])
def test_a_vector_that_is_no_vector_is_counted(tmp_path, encoder, model, task, fault):
    encoded: list[str] = []

    def embed(text: str) -> np.ndarray:
        encoded.append(text)
        return words(text) * (fault if len(encoded) == 2 else 1)

    encoder.embed = embed
    with fails("damaged", "1"), np.errstate(invalid="ignore"):
        measured(tmp_path, model, whole_suite(tmp_path / "suite"), task)


def test_a_constant_encoder_classifies_as_the_commonest_class(tmp_path, encoder, model):
    encoder.embed = constant
    out = measured(tmp_path, model, write_transfer(tmp_path / "suite"), "SST-2")
    assert values(out["evaluations"])["accuracy"] == 50
