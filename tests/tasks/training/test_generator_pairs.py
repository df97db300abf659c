"""Which rows become pairs, and which are held out."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from failures import fails
from stages import stored

from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.generator_pairs import PairsConfig, paraphrases, read_pairs


def work(folder: Path, seed: int = 3, bad: tuple[str, ...] = ()) -> Work:
    """Sixty scored rows of `sick`, two of each source, ten of `other`, and some sentences."""
    rows: list[dict[str, Any]] = [
        {
            "row_id": number,
            "corpus": "sick" if number < 60 else "other",
            "kind": "scored" if number < 60 else "triplets",
            "anchor": f"source {number // 2}",
            "positive": f"target {number}",
            "label": number % 6 if number < 60 else None,
        }
        for number in range(70)
    ]
    sentences = pa.table(
        {
            "text": [f"sentence {number}" for number in range(30)],
            "corpus": ["field"] * 20 + ["general"] * 10,
            "split": ["train"] * 18 + ["dev", "test"] + ["train"] * 10,
        }
    )
    found = pa.table(
        {"text": pa.array(bad, pa.string()), "removed": pa.array([True] * len(bad), pa.bool_())}
    )
    labelled = pa.Table.from_pylist(rows, schema=LABELLED)
    inputs = stored(folder, labelled=labelled, sentences=sentences, contamination=found)
    inputs["guarded_labelled"] = inputs.pop("contamination")
    return Work(None, seed, inputs, {}, {}, Resources(), folder, lambda *_: None)


def read(folder: Path, **settings: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    given = {key: settings.pop(key) for key in ("seed", "bad") if key in settings}
    config = PairsConfig(**{"labelled": ("sick",), "validation": 0.2, **settings})
    found = read_pairs(work(folder, **given), config, "fit_generator: g")
    return tuple(  # type: ignore[return-value]
        list(zip(table["source"].to_pylist(), table["target"].to_pylist(), strict=True))
        for table in found
    )


def test_a_source_is_on_one_side_with_all_its_targets(tmp_path: Path) -> None:
    rows, held_out = read(tmp_path)
    assert len(rows) + len(held_out) == 60
    assert {source for source, _ in rows}.isdisjoint(source for source, _ in held_out)
    assert 4 <= len(held_out) <= 24
    assert all(len([s for s, _ in rows if s == source]) == 2 for source, _ in rows)
    assert read(tmp_path) == (rows, held_out)
    assert read(tmp_path, seed=4)[1] != held_out


def test_labels_above(tmp_path: Path) -> None:
    rows, held_out = read(tmp_path, above=3)
    numbers = {int(target.split()[1]) for _, target in [*rows, *held_out]}
    assert numbers == {number for number in range(60) if number % 6 > 3}
    # It concerns scored corpora alone.
    both = read(tmp_path, above=3, labelled=("sick", "other"))
    others = {(f"source {number // 2}", f"target {number}") for number in range(60, 70)}
    assert set(both[0] + both[1]) == {*rows, *held_out} | others


def test_a_label_above_which_each_corpus_is_taken(tmp_path: Path) -> None:
    given = work(tmp_path).inputs["labelled"].table("labelled").to_pylist()
    rows = [
        {**row, "corpus": "twins", "kind": "scored", "label": row["row_id"] % 2}
        if row["corpus"] == "other"
        else row
        for row in given
    ]
    table = pa.Table.from_pylist(rows, schema=LABELLED)
    kept = paraphrases(table, ("sick", "twins"), {"sick": 4, "twins": 0}, "here")
    expected = [number for number in range(60) if number % 6 == 5] + [61, 63, 65, 67, 69]
    assert kept["row_id"].to_pylist() == expected
    assert paraphrases(table, ("sick",), {"sick": 4, "twins": 0}, "here").num_rows == 10
    with fails("unfit_model", "twins"):
        paraphrases(table, ("sick", "twins"), {"sick": 4, "twins": 1}, "here")


def test_unsupervised_each_text_is_its_own_target(tmp_path: Path) -> None:
    rows, held_out = read(tmp_path, unsupervised=True)
    assert all(source == target for source, target in [*rows, *held_out])
    # A source that two rows share counts once.
    assert len(rows) + len(held_out) == 30 + 60


def test_sentences_of_the_train_split(tmp_path: Path) -> None:
    rows, held_out = read(tmp_path, labelled=(), sentences=("field",))
    texts = {source for source, _ in [*rows, *held_out]}
    assert texts == {f"sentence {number}" for number in range(18)}
    assert all(source == target for source, target in [*rows, *held_out])


def test_samples(tmp_path: Path) -> None:
    rows, held_out = read(tmp_path, max_rows=20, max_validation=2)
    assert len(rows) + len(held_out) <= 20
    assert len(held_out) <= 2


def test_what_an_evaluation_set_has_is_left_out(tmp_path: Path) -> None:
    rows, held_out = read(tmp_path, bad=("target 7", "source 4"))
    texts = {text for pair in [*rows, *held_out] for text in pair}
    assert len(rows) + len(held_out) == 57
    assert texts.isdisjoint({"target 7", "source 4"})


def test_without_pairs_it_says_why(tmp_path: Path) -> None:
    with fails("unfit_model", "sick"):
        read(tmp_path, above=9, labelled=("other", "sick"))
    with fails("unfit_model", "lost"):
        read(tmp_path, labelled=("sick", "lost"))
    with fails("no_rows", "fit_generator"):
        read(tmp_path, max_rows=2, validation=0.0001)
