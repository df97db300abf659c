"""Set phrases: what very many texts share ties none of them and keeps none out of train."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from stages import emitted

from tercet.tasks.corpus import gather, ingest
from tercet.tasks.corpus.sources.corpora import IngestConfig

draw = random.Random(7)
ENDS = ("t", "sk", "")
WORDS = [a + b + c for a in "bdfglmnprst" for b in ("an", "or", "il", "ea") for c in ENDS]


def words(count: int) -> str:
    return " ".join(draw.choice(WORDS) for _ in range(count))


PHRASES = [words(12) for _ in range(20)]
COUNT = 400


def split(
    lines: list[str], folder: Path, prose: bool | str = False, **more: object
) -> dict[str, list[str]]:
    """The kept sentences by split."""
    path = folder / "a.txt"
    path.write_text("\n".join(lines) + "\n")
    given = {"corpora": [{"name": "a", "source": str(path), "prose": prose}], "test": 0.2, **more}
    config = IngestConfig.model_validate(given)
    found: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for row in emitted(ingest.STAGE, config, {}, folder / "scratch")["sentences"].to_pylist():
        found[row["split"]].append(row["text"])
    return found


@pytest.mark.parametrize(
    "line",
    [
        lambda n: f"{PHRASES[0]} {words(14)}",
        lambda n: f"{words(14)} {PHRASES[0]}",
        lambda n: f"{PHRASES[n % 10]} {words(14)}",
        lambda n: f"{PHRASES[0]} {words(14)}" if n % 2 else words(14),
    ],
)
def test_texts_with_a_set_phrase_are_split_as_others_are(
    line: Callable[[int], str], tmp_path: Path
) -> None:
    lines = [line(number) for number in range(COUNT)]
    found = split(lines, tmp_path)
    assert sum(map(len, found.values())) >= 0.99 * COUNT  # some are near-duplicates by chance
    assert 0.12 * COUNT < len(found["test"]) < 0.28 * COUNT
    assert len(found["train"]) > 0.65 * COUNT
    # Without set phrases, whatever shares one with test is lost.
    assert len(split(lines, tmp_path, common=1.0)["train"]) < 0.5 * COUNT


@pytest.mark.parametrize(
    "line",
    [
        "{0}. {1}. Sent from my small phone today.",
        "Good morning to you all. {0}. With kind regards and thanks. {1}.",
    ],
)
def test_whole_sentences_that_very_many_documents_have_tie_none(line: str, tmp_path: Path) -> None:
    lines = [line.format(words(9).capitalize(), words(9).capitalize()) for _ in range(COUNT)]
    found = split(lines, tmp_path, prose="lines")
    common = line.count(".") - 2
    assert 2 * COUNT * 0.98 <= sum(map(len, found.values())) <= 2 * COUNT + common
    assert 0.12 < len(found["test"]) / (2 * COUNT) < 0.28
    assert len(found["train"]) > 0.65 * 2 * COUNT


@pytest.mark.parametrize("around", [2, 3, 8])
def test_texts_that_differ_in_a_number_stay_on_one_side(around: int, tmp_path: Path) -> None:
    front, back = words(6 * around), words(6 * around)
    family = [f"{front} {number} {back}" for number in range(60)]
    found = split([words(14) for _ in range(COUNT)] + family, tmp_path)
    sides = {name for name, texts in found.items() if set(texts) & set(family)}
    assert len(sides) == 1


def test_a_text_that_stands_twice_is_on_one_side_whatever_phrase_it_begins_with(
    tmp_path: Path,
) -> None:
    lines = [f"{PHRASES[0]} {words(14)}" for _ in range(COUNT)]
    copies = [line.upper() + "!" for line in lines[::3]]
    found = split(lines + copies, tmp_path)
    plain = [{text.lower().rstrip("!") for text in texts} for texts in found.values()]
    assert not any(one & other for one in plain for other in plain if one is not other)


def test_what_few_documents_share_is_no_set_phrase() -> None:
    for holders, documents, share, wanted in (
        (20, 100, 0.01, False),
        (21, 100, 0.01, True),
        (50, 10_000, 0.01, False),
        (101, 10_000, 0.01, True),
        (10_000, 10_000, 1.0, False),
    ):
        found = np.full(holders, 5, dtype=np.uint64)
        rows = np.arange(holders, dtype=np.int32)
        assert (len(gather.set_phrases(found, rows, documents, share)) == 1) is wanted
    # Often in one document is not in many.
    again = gather.set_phrases(np.full(500, 5, np.uint64), np.zeros(500, np.int32), 1000, 0.01)
    assert not len(again)
