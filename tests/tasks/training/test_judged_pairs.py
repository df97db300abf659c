"""Pairs for a discriminator: what becomes of a labelled row, and which anchors are held out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failures import fails
from inference_pairs import labelled, rows
from stages import stored

from tercet.models import seeding
from tercet.storage.rows import Rows
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.judged_pairs import JUDGED, Judged, JudgedConfig, read_judged

Given = list[dict[str, object]]


def read(
    folder: Path, given: Given, inputs: Mapping[str, Rows] | None = None, **numbers: Any
) -> tuple[Judged, list[dict[str, Any]]]:
    """What is read of the corpora nli and more, and the rejects."""
    emitted: list[dict[str, Any]] = []
    emit = lambda name, table: emitted.extend(table.to_pylist())  # noqa: E731
    slots = {"labelled": labelled(folder, given), **(inputs or {})}
    work = Work(None, 5, slots, {}, {}, Resources(), folder, emit, "fit_pair")
    corpora = [name for name in ("nli", "more") if name not in numbers.get("dev", ())]
    return read_judged(work, JudgedConfig(corpora=corpora, **numbers), "fit_pair: judge"), emitted


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


def plain(anchor: object) -> str:
    return str(anchor).lower().rstrip(" !.")


def test_no_anchor_stands_on_two_sides_whatever_other_rows_there_are(tmp_path: Path) -> None:
    """Nor does it in two spellings."""
    given = rows(200)
    again = [
        {**row, "row_id": row["row_id"] + 10_000, "anchor": f"{str(row['anchor']).upper()} !"}
        for row in given
    ]
    sides: list[dict[str, str]] = []
    for name, some in (("all", [*given, *again]), ("half", given[::-2])):
        judged, _ = read(tmp_path / name, some, validation=0.2, test=0.2)
        parts = {
            side: {plain(anchor) for anchor in part["anchor"].to_pylist()}
            for side, part in judged._asdict().items()
        }
        sides.append({anchor: side for side, part in parts.items() for anchor in part})
        assert len(sides[-1]) == sum(map(len, parts.values()))
    shares = [list(sides[0].values()).count(side) / 200 for side in Judged._fields]
    assert shares == pytest.approx([0.6, 0.2, 0.2], abs=0.08)
    assert sides[1] == {anchor: sides[0][anchor] for anchor in sides[1]}


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
    guarded = stored(tmp_path, contamination=found)["contamination"]
    judged, _ = read(tmp_path, given, {"guarded_labelled": guarded})
    assert given[3]["negative"] not in {text for _, text, _ in pairs(judged)}


def test_a_sample_takes_from_the_pairs_to_fit_to_alone_and_held_out_pairs_have_a_limit(
    tmp_path: Path,
) -> None:
    every, some, limited = (
        read(tmp_path / name, rows(200), **numbers)[0]
        for name, numbers in (
            ("all", {}),
            ("some", {"max_rows": 30}),
            ("limited", {"validation": 0.3, "test": 0.3, "max_held_out": 20}),
        )
    )
    assert some.fit.num_rows == 30
    assert set(some.fit["row_id"].to_pylist()) < set(every.fit["row_id"].to_pylist())
    assert some.validation.equals(every.validation)
    assert some.test.equals(every.test)
    assert [part.num_rows for part in limited][1:] == [20, 20]
    assert limited.fit.num_rows > 100


def one_kind(given: Given, side: str, every: int = 0) -> Given:
    """The rows without a side, but for one of so many."""
    return [row if every and n % every == 0 else {**row, side: None} for n, row in enumerate(given)]


@pytest.mark.parametrize(
    ("given", "numbers", "names"),
    [
        # Too few anchors to hold any out.
        (rows(3), {}, []),
        ([*rows(60), *one_kind(rows(60, seed=2, corpus="more"), "negative")], {}, ["more", "true"]),
        (
            [*rows(60), *one_kind(rows(60, seed=2, corpus="more"), "positive")],
            {},
            ["more", "false"],
        ),
        # All have some of both kinds, and the sample has not.
        (one_kind(rows(500), "positive", 25), {"max_held_out": 10}, ["validation"]),
    ],
)
def test_bad_corpora(tmp_path: Path, given: Given, numbers: Any, names: list[str]) -> None:
    with fails("no_rows", *names):
        read(tmp_path, given, **numbers)


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
    reasons = {
        (row["stage"], row["reason"]) for row in rejects if row["text"] == dev[0]["positive"]
    }
    assert reasons == {("fit_pair", "known_anchor")}
