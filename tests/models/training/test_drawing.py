"""The random selection: what it makes of sentences, how often, and from what it is drawn."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tercet.models import seeding
from tercet.models.training.phase import OPERATIONS, UNCHANGED, Drawing

TEXTS = [
    " ".join(f"w{number}" for number in np.random.default_rng(row).permutation(40)[: 4 + row % 15])
    for row in range(4_000)
]
IDS = seeding.text_ids(TEXTS)


def generated(rows: list[tuple[int, int, str]]) -> pa.Table:
    """row_id, candidate_id and text of these."""
    columns = list(zip(*sorted(rows), strict=True)) or [(), (), ()]
    kinds = (pa.uint64(), pa.uint64(), pa.string())
    names = ("row_id", "candidate_id", "text")
    return pa.table({n: pa.array(c, k) for n, c, k in zip(names, columns, kinds, strict=True)})


def of_all(per_row: int = 2) -> pa.Table:
    """So many generations of each text."""
    return generated(
        [
            (int(row), i * 10 + k, f"made {row} {k}")
            for i, row in enumerate(IDS)
            for k in range(per_row)
        ]
    )


def drawn(shares: dict[str, float], made: pa.Table, epoch: int = 0, seed: int = 5) -> pa.Table:
    return Drawing(dict.fromkeys(OPERATIONS, 0.0) | shares, made).positives(IDS, TEXTS, seed, epoch)


def test_shares_are_as_set() -> None:
    for shares in (dict.fromkeys(OPERATIONS, 1.0), {"cutoff": 3.0, "generated": 1.0}):
        found = Counter(drawn(shares, of_all())["operation"].to_pylist())
        assert set(found) == set(shares)
        for name, share in shares.items():
            p = share / sum(shares.values())
            # Four standard deviations of a binomial.
            assert abs(found[name] / 4000 - p) < 4 * (p * (1 - p) / 4000) ** 0.5, name


def test_each_operation_does_what_the_paper_says() -> None:
    for name in OPERATIONS[:-1]:
        made = drawn({name: 1.0}, generated([]))
        assert set(made["operation"].to_pylist()) <= {name, UNCHANGED}
        for text, new in zip(TEXTS, made["text"].to_pylist(), strict=True):
            words, changed = text.split(), new.split()
            if name == "word_shuffle":
                assert changed != words
                assert Counter(changed) == Counter(words)
            elif name == "cutoff":
                assert 1 <= len(words) - len(changed) <= min(6, len(words) // 3)
                kept = iter(words)
                assert all(word in kept for word in changed)
            else:
                most = max(1, int(0.3 * (len(words) - 1)))
                assert 1 <= len(changed) - len(words) <= most
                assert list(dict.fromkeys(changed)) == words
    # How many words go is drawn too.
    gone = Counter(
        len(text.split()) - len(new.split())
        for text, new in zip(
            TEXTS, drawn({"cutoff": 1.0}, generated([]))["text"].to_pylist(), strict=True
        )
    )
    assert set(gone) == {1, 2, 3, 4, 5, 6}


def test_every_epoch_draws_afresh_and_the_same_one_alike() -> None:
    shares = dict.fromkeys(OPERATIONS, 1.0)
    first, again, second, other = (
        drawn(shares, of_all(), epoch, seed) for epoch, seed in ((0, 5), (0, 5), (1, 5), (0, 6))
    )
    assert first.equals(again)
    for later in (second, other):
        same = [
            a == b
            for a, b in zip(first["text"].to_pylist(), later["text"].to_pylist(), strict=True)
        ]
        assert np.mean(same) < 0.15
    # Of one sentence the epochs give all operations, whatever it began with.
    epochs = [drawn(shares, of_all(), epoch)["operation"].to_pylist() for epoch in range(12)]
    assert np.mean([len(set(of_one)) for of_one in zip(*epochs, strict=True)]) > 3.5


def test_a_row_depends_on_no_other() -> None:
    drawing = Drawing(dict.fromkeys(OPERATIONS, 1.0), of_all())
    whole = drawing.positives(IDS, TEXTS, 5, 3)
    place = np.array([7, 4, 1_000])
    some = drawing.positives(IDS[place], [TEXTS[i] for i in place], 5, 3)
    assert some.equals(whole.take(pa.array(place)).combine_chunks())


def test_a_sentence_without_a_generation_draws_among_the_others() -> None:
    only = generated([(int(IDS[0]), 8, "eight"), (int(IDS[0]), 9, "nine")])
    made = drawn({"generated": 1.0, "cutoff": 1.0}, only)
    assert set(made["operation"].to_pylist()[1:]) == {"cutoff"}
    rows = [drawn({"generated": 1.0}, only, epoch).to_pylist() for epoch in range(20)]
    of_first = {(row[0]["text"], row[0]["candidate_id"]) for row in rows}
    assert of_first == {("eight", 8), ("nine", 9)}
    assert {row[1]["operation"] for row in rows} == {UNCHANGED}
    assert rows[0][1]["text"] == TEXTS[1]
    assert rows[0][1]["candidate_id"] is None


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ("one", {"word_repetition"}),
        ("same same same", {"word_repetition"}),
        ("one two three", {"word_repetition", "word_shuffle"}),
        ("one two three four", {"word_repetition", "word_shuffle", "cutoff"}),
    ],
)
def test_short_sentences_have_what_fits_them(text: str, possible: set[str]) -> None:
    drawing = Drawing(dict.fromkeys(OPERATIONS, 1.0), generated([]))
    ids = seeding.text_ids([text])
    found = {
        drawing.positives(ids, [text], 1, epoch)["operation"][0].as_py() for epoch in range(40)
    }
    assert found == possible
