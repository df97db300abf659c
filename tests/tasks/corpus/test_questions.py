"""Which of the questions that a reader offers stand."""

import numpy as np
import pytest

from tercet.models import seeding
from tercet.tasks.corpus import questions
from tercet.tasks.corpus.splits import DEV, TEST, TRAIN

KEPT = {"a": TEST, "b": TEST, "c": DEV, "d": TRAIN, "e": TEST}
SPLIT = np.array([TEST, DEV, TRAIN, TEST], dtype=np.int8)
DOCUMENTS = np.array([10, 11, 12, 13], dtype=np.uint64)


def table_of(rows, kept=KEPT, first=0):
    offered = questions.offered(rows, first)
    splits = np.array(list(kept.values()), dtype=np.int8)
    return questions.standing(offered, seeding.text_ids(kept), splits, SPLIT, DOCUMENTS)


def stand(*rows):
    names = ("doc_id", "question", "query", "answer", "split")
    return [tuple(row[name] for name in names) for row in table_of(rows).to_pylist()]


def test_its_sentences_are_held_out_with_its_document():
    rows = [
        (0, "name", "f()", "a b", ["a", "b"]),
        (1, "name", "g()", "c", ["c"]),
        # Training documents, sentences of other splits, sentences that are not kept, no sentence.
        (2, "name", "h()", "d", ["d"]),
        (0, "name", "i()", "a c", ["a", "c"]),
        (1, "name", "j()", "e", ["e"]),
        (0, "name", "k()", "a x", ["a", "x"]),
        (0, "name", "l()", "", []),
    ]
    assert stand(*rows) == [
        (10, "name", "f()", "a b", "test"),
        (11, "name", "g()", "c", "dev"),
    ]


def test_one_answer_a_query_and_one_query_an_answer():
    rows = [
        (0, "name", "f()", "x", ["x"]),
        (0, "name", "f()", "a", ["a"]),
        (3, "name", "f()", "b", ["b"]),
        (3, "name", "g()", "a", ["a"]),
        (3, "name", "g()", "b", ["b"]),
        # Another question has its own.
        (3, "class", "f()", "a", ["a"]),
    ]
    # What does not stand hides nothing; the second g() falls with the first.
    assert stand(*rows) == [
        (10, "name", "f()", "a", "test"),
        (13, "class", "f()", "a", "test"),
    ]


def test_ids_tell_questions_apart():
    rows = [(0, name, "f()", "a", ["a"]) for name in ("one", "two")]
    table = table_of(rows, {"a": TEST}, 3)
    assert table["doc_id"].to_pylist() == [13, 13]
    wanted = [seeding.text_id(name, "f()", "a") for name in ("one", "two")]
    assert table["pair_id"].to_pylist() == wanted


@pytest.mark.parametrize("rows", [(), ((0, "name", "f()", "a", ["a"]),)])
def test_a_corpus_may_have_no_sentence_or_no_question(rows):
    assert table_of(rows, {}).num_rows == 0
