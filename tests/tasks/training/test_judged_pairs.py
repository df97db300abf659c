"""Pairs for a discriminator: what becomes of a labelled row, and which anchors are held out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from failures import fails
from inference_pairs import labelled, rows

from tercet.models import seeding
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.judged_pairs import JUDGED, Judged, JudgedConfig, read_judged

Given = list[dict[str, object]]


def read(
    folder: Path, given: Given, inputs: Mapping[str, Rows] | None = None, **numbers: Any
) -> tuple[Judged, list[dict[str, Any]]]:
    """What is read of the corpora nli and more, and the rejects."""
    emitted: list[dict[str, Any]] = []
    work = Work(
        config=None,
        seed=5,
        inputs={"labelled": labelled(folder, given), **(inputs or {})},
        models={},
        spec={},
        resources=Resources(),
        scratch=folder,
        emit=lambda name, table: emitted.extend(table.to_pylist()),
        stage="fit_pair",
    )
    corpora = [name for name in ("nli", "more") if name not in numbers.get("dev", ())]
    return read_judged(work, corpora, JudgedConfig(**numbers), "fit_pair: judge"), emitted


def pairs(judged: Judged) -> set[tuple[str, str, bool]]:
    return {
        (row["anchor"], row["text"], row["true"]) for part in judged for row in part.to_pylist()
    }


def test_a_positive_is_true_and_a_negative_false(tmp_path: Path) -> None:
    given = [*rows(60), *rows(20, seed=2, corpus="elsewhere")]
    judged, rejects = read(tmp_path, given)
    expected = {(row["anchor"], row["positive"], True) for row in rows(60)}
    expected |= {(row["anchor"], row["negative"], False) for row in rows(60)}
    assert pairs(judged) == expected
    assert rejects == []
    for part in judged:
        assert part.schema == JUDGED
        ids = part["row_id"].to_pylist()
        assert ids == sorted(ids)
        texts = part["anchor"].to_pylist(), part["text"].to_pylist()
        assert ids == seeding.text_ids(*texts).tolist()


def test_no_anchor_stands_on_two_sides_whatever_other_rows_there_are(tmp_path: Path) -> None:
    def sides(judged: Judged) -> dict[str, str]:
        return {
            anchor: name
            for name, part in judged._asdict().items()
            for anchor in part["anchor"].to_pylist()
        }

    judged, _ = read(tmp_path / "all", rows(200), validation=0.2, test=0.2)
    anchors = [set(part["anchor"].to_pylist()) for part in judged]
    assert len(anchors[0] | anchors[1] | anchors[2]) == sum(map(len, anchors))
    shares = [len(of) / 200 for of in anchors]
    assert shares == pytest.approx([0.6, 0.2, 0.2], abs=0.08)
    fewer, _ = read(tmp_path / "half", rows(200)[::-2], validation=0.2, test=0.2)
    every = sides(judged)
    assert sides(fewer) == {anchor: every[anchor] for anchor in sides(fewer)}


def test_an_anchor_in_two_spellings_stands_on_one_side(tmp_path: Path) -> None:
    given = rows(200)
    again = [
        {**row, "row_id": row["row_id"] + 10_000, "anchor": f"{str(row['anchor']).upper()} !"}
        for row in given
    ]
    judged, _ = read(tmp_path, [*given, *again], validation=0.2, test=0.2)
    sides = [
        {anchor.lower().rstrip(" !.") for anchor in part["anchor"].to_pylist()} for part in judged
    ]
    assert all(sides)
    assert sum(len(side) for side in sides) == len({row["anchor"] for row in given})


def test_rows_with_one_side_only_and_repeated_pairs(tmp_path: Path) -> None:
    given = rows(60)
    given[0]["positive"] = given[1]["negative"] = None
    judged, rejects = read(tmp_path, [*given, *given])
    assert len(pairs(judged)) == sum(part.num_rows for part in judged) == 118
    assert rejects == []


def test_a_pair_that_is_true_and_false_is_a_reject(tmp_path: Path) -> None:
    given = rows(60)
    given[7]["negative"] = given[7]["positive"]
    judged, rejects = read(tmp_path, given)
    assert given[7]["anchor"] not in {anchor for anchor, _, _ in pairs(judged)}
    (reject,) = rejects
    assert (reject["reason"], reject["text"]) == ("ambiguous", given[7]["positive"])


def test_texts_of_evaluation_sets_are_left_out(tmp_path: Path) -> None:
    given = rows(60)
    found = pa.table({"text": [given[3]["negative"]], "removed": [True]})
    pq.write_table(found, tmp_path / "found.parquet")
    guarded = rows_of({"contamination": [str(tmp_path / "found.parquet")]})
    judged, _ = read(tmp_path, given, {"guarded_labelled": guarded})
    assert given[3]["negative"] not in {text for _, text, _ in pairs(judged)}


def test_a_sample_takes_from_the_pairs_to_fit_to_alone(tmp_path: Path) -> None:
    every, _ = read(tmp_path / "all", rows(100))
    some, _ = read(tmp_path / "some", rows(100), max_rows=30)
    assert some.fit.num_rows == 30
    assert set(some.fit["row_id"].to_pylist()) < set(every.fit["row_id"].to_pylist())
    assert some.validation.equals(every.validation)
    assert some.test.equals(every.test)


def test_held_out_pairs_have_a_limit_too(tmp_path: Path) -> None:
    judged, _ = read(tmp_path, rows(200), validation=0.3, test=0.3, max_held_out=20)
    assert [part.num_rows for part in judged][1:] == [20, 20]
    assert judged.fit.num_rows > 100


def test_too_few_anchors_to_hold_any_out(tmp_path: Path) -> None:
    with fails("no_rows"):
        read(tmp_path, rows(3))


def test_a_sample_of_one_kind_is_refused_too(tmp_path: Path) -> None:
    given = [
        {**row, "positive": row["positive"] if n % 25 == 0 else None}
        for n, row in enumerate(rows(500))
    ]
    judged, _ = read(tmp_path / "all", given)
    assert all(0 < sum(part["true"].to_pylist()) < part.num_rows for part in judged)
    with fails("no_rows", "validation"):
        read(tmp_path / "some", given, max_held_out=10)


@pytest.mark.parametrize(("side", "said"), [("negative", "true"), ("positive", "false")])
def test_a_corpus_of_one_kind_beside_others_is_refused(
    tmp_path: Path, side: str, said: str
) -> None:
    answers = [{**row, side: None} for row in rows(60, seed=2, corpus="more")]
    with fails("no_rows", "'more'", said):
        read(tmp_path, [*rows(60), *answers])


def test_something_must_be_left_to_fit_to() -> None:
    with fails("bad_value", "validation"):
        JudgedConfig(validation=0.5, test=0.5)


def test_with_a_dev_corpus_every_other_anchor_is_learnt_from(tmp_path: Path) -> None:
    dev = rows(200, seed=2, corpus="more")
    judged, rejects = read(tmp_path, [*rows(60), *dev], dev=("more",), max_held_out=60)
    known = {row["anchor"] for row in rows(60)}
    assert set(judged.fit["anchor"].to_pylist()) == known
    assert judged.fit.num_rows == 120
    held_out = [set(part["anchor"].to_pylist()) for part in (judged.validation, judged.test)]
    assert held_out[0] | held_out[1] <= {row["anchor"] for row in dev} - known
    assert not held_out[0] & held_out[1]
    # The shares are in proportion, and the limit is that of each.
    assert [part.num_rows for part in (judged.validation, judged.test)] == [60, 60]
    assert {row["reason"] for row in rejects} <= {"known_anchor"}


def test_a_pair_of_dev_whose_anchor_is_learnt_from_is_a_reject(tmp_path: Path) -> None:
    dev = rows(60, seed=2, corpus="more")
    dev[0]["anchor"] = f"{str(rows(60)[0]['anchor']).upper()} !"
    judged, rejects = read(tmp_path, [*rows(60), *dev], dev=("more",))
    assert dev[0]["anchor"] not in {anchor for anchor, _, _ in pairs(judged)}
    told = {(row["stage"], row["reason"]) for row in rejects if row["text"] == dev[0]["positive"]}
    assert told == {("fit_pair", "known_anchor")}
