"""What a language model has answered is never lost, never asked twice, and counted once."""

import threading
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest
from answers_pool import (
    START,
    adding,
    answer,
    ask,
    digest,
    failure,
    files,
    line,
    texts,
)
from failures import fails

from tercet.storage import answers as journals
from tercet.storage.answers import Rates, Spent, open_pool
from tercet.storage.catalog.views import write_catalog
from tercet.storage.store import Store


def test_an_answer_is_found_at_once_and_after_the_end_word_for_word(store: Store) -> None:
    text = " Two\nlines,\ta tab, 'quotes' \"double\", \\, NUL \0, \u2028, é, 漢字, 🧪 "
    pool = open_pool(store, "recipe", "run")
    pool.add(answer(1, raw=text, prompt_tokens=7, n_tokens=9, attempts=3, seconds=1.25))
    for found in (pool.find([digest(1), digest(2)]), open_pool(store, "b", "c").find([digest(1)])):
        assert set(found) == {digest(1)}
        row = (text, "stop", 7, 9, "m", "http://here/v1", 3, 1.25)
        assert tuple(found[digest(1)]) == row
    pool.close()
    sealed, left = files(store)
    assert (len(sealed), left) == (1, [])
    assert texts(store, range(3)) == {1: text}
    assert ask(store, "SELECT raw FROM responses") == [(text,)]


def test_a_pool_that_is_only_asked_writes_nothing(store: Store) -> None:
    assert texts(store, range(5)) == {}
    assert not store.local("responses").exists()


def test_a_failed_request_is_no_answer_until_it_has_one(store: Store) -> None:
    with open_pool(store, "recipe", "first") as pool:
        pool.add(failure(1))
        pool.add(failure(2))
        assert pool.find([digest(1), digest(2)]) == {}
        pool.add(answer(2, raw="at last"))
        assert pool.find([digest(1), digest(2)])[digest(2)].raw == "at last"
    assert texts(store, range(4)) == {2: "at last"}
    query = "SELECT request_digest, finish_reason, error FROM responses ORDER BY ALL"
    assert ask(store, query) == [(digest(1), "failed", "HTTP 500"), (digest(2), "stop", None)]


@pytest.mark.parametrize("sealed", ["both", "first", "second", "none"])
def test_of_two_answers_to_one_request_the_first_counts(store: Store, sealed: str) -> None:
    later, earlier = open_pool(store, "recipe", "a"), open_pool(store, "recipe", "b")
    later.add(answer(1, raw="late", created=START + timedelta(seconds=1)))
    later.add(answer(2, raw="two", created=START))
    earlier.add(answer(1, raw="early", created=START))
    if sealed in ("both", "first"):
        later.close()
    if sealed in ("both", "second"):
        earlier.close()
    assert texts(store, range(3)) == {1: "early", 2: "two"}
    query = "SELECT raw FROM responses ORDER BY request_digest"
    assert ask(store, query) == [("early",), ("two",)]
    assert ask(store, "SELECT sum(answers) FROM usage") == [(3,)]


def test_a_kill_loses_no_answer_whose_add_returned(store: Store) -> None:
    told = []
    for attempt in range(4):
        with adding(store, attempt * 100_000, 50_000, "end") as process:
            wanted = [1, 7, 150, 2500][attempt]
            for _ in range(wanted):
                told.append(int(line(process)))
            process.kill()
            assert process.stdout is not None
            told += [int(number) for number in process.stdout.read().split()]
    assert len(told) >= 1 + 7 + 150 + 2500
    found = texts(store, range(400_000))
    assert {number: f"answer {number} " * 20 for number in told}.items() <= found.items()
    # What was written when the kill came, and not yet told, may be there as well.
    assert len(found) <= len(told) + 4
    assert files(store)[1] == []


def test_halves_of_surrogate_pairs_become_text(store: Store) -> None:
    with open_pool(store, "recipe", "run") as pool:
        pool.add(answer(1, raw="a\ud83d\ude00b\ud800c\udc00"))
        assert pool.find([digest(1)])[digest(1)].raw == "a😀b\ufffdc\ufffd"
    assert texts(store, range(2)) == {1: "a😀b\ufffdc\ufffd"}


def test_an_answer_of_ten_megabytes_is_kept(store: Store) -> None:
    long = "0123456789é" * 1_000_000
    with open_pool(store, "recipe", "run") as pool:
        pool.add(answer(1, raw=long))
        pool.add(answer(2))
        assert texts(store, range(3)) == {1: long, 2: "answer 2"}
    assert texts(store, range(3)) == {1: long, 2: "answer 2"}


WRONG: dict[str, dict[str, Any]] = {
    "request_digest": {"request_digest": None},
    "raw": {"raw": b"bytes"},
    "n_tokens": {"n_tokens": 1.5},
    "attempts": {"attempts": True},
    "seconds": {"seconds": float("inf")},
}


@pytest.mark.parametrize("column", WRONG)
def test_a_row_that_is_none_is_refused_with_the_columns_name(store: Store, column: str) -> None:
    with open_pool(store, "recipe", "run") as pool:
        with pytest.raises(ValueError, match=rf"^{column} of an answer"):
            pool.add(answer(1, **WRONG[column]))
        assert pool.find([digest(1)]) == {}


def test_two_processes_at_once_see_each_others_answers(store: Store) -> None:
    pool = open_pool(store, "recipe", "here")
    pool.add(answer(5))
    with adding(store, 100, 30, "wait") as process:
        while line(process) != "waits":
            pass
        numbers = range(200)
        assert {int(key, 16) for key in pool.find([digest(n) for n in numbers])} == {
            5,
            *range(100, 130),
        }
        assert texts(store, numbers).keys() == {5, *range(100, 130)}
        # Both live: opening the pool must seal neither journal.
        assert [len(found) for found in files(store)] == [0, 2]
        assert ask(store, "SELECT count(*) FROM responses") == [(31,)]
        assert ask(store, "SELECT count(*) FROM partial.responses") == [(31,)]
    assert len(pool.find([digest(n) for n in numbers])) == 31
    pool.close()
    assert len(texts(store, numbers)) == 31


def test_threads_add_at_once_while_others_look(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "SEAL_ROWS", 30)
    pool = open_pool(store, "recipe", "run")
    missing: list[int] = []

    def add(first: int) -> None:
        for number in range(first, first + 40):
            pool.add(answer(number))
            if digest(number) not in pool.find([digest(number)]):
                missing.append(number)

    threads = [threading.Thread(target=add, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missing == []
    assert pool.spent() == Spent(160 * 15, 0.0, 160)
    pool.close()
    assert ask(store, "SELECT count(*), sum(n_tokens) FROM responses") == [(160, 800)]


def test_a_damaged_file_is_told_in_a_sentence(store: Store) -> None:
    with open_pool(store, "recipe", "run") as pool:
        pool.add(answer(1))
    (path,) = files(store)[0]
    path.write_bytes(b"no parquet at all")
    with fails("damaged"):
        open_pool(store, "recipe", "run")


def test_what_a_recipe_has_spent_is_counted_over_its_runs(store: Store) -> None:
    with open_pool(store, "recipe", "first") as pool:
        assert pool.spent() == Spent(0, 0.0, 0)
        pool.add(answer(1, cost=0.25))
        pool.add(answer(2, cost=0.5, prompt_tokens=100))
        pool.add(failure(3))
        assert pool.spent() == Spent(120, 0.75, 2)
    with open_pool(store, "another", "run") as pool:
        assert pool.spent() == Spent(0, 0.0, 0)
        pool.add(answer(4, cost=8.0))
    with open_pool(store, "recipe", "second") as pool:
        assert pool.spent() == Spent(120, 0.75, 2)
        with adding(store, 50, 10, "wait") as process:
            while line(process) != "waits":
                pass
            pool.find([digest(1)])
            assert pool.spent() == Spent(270, 0.75, 12)
        open_pool(store, "third", "seals").close()
        pool.find([digest(1)])
        pool.add(answer(5, cost=1.0))
        assert pool.spent() == Spent(285, 1.75, 13)


def test_the_rate_counts_the_time_in_which_any_request_was_open(store: Store) -> None:
    def at(second: float) -> datetime:
        return START + timedelta(seconds=second)

    with open_pool(store, "recipe", "run") as pool:
        assert pool.rates("m") is None
        # Open from 0 to 4, from 1 to 3 and from 3.5 to 6, then a pause, and from 20 to 22.
        pool.add(answer(1, created=at(3), seconds=2.0, n_tokens=10))
        pool.add(answer(2, created=at(4), seconds=4.0, n_tokens=20))
        pool.add(answer(3, created=at(6), seconds=2.5, n_tokens=40, method="antisense"))
        pool.add(answer(4, created=at(22), seconds=2.0, n_tokens=30))
        pool.add(failure(5, created=at(100), seconds=60.0))
        pool.add(answer(6, created=at(50), seconds=9.0, model="another"))
        expected = Rates(100 / 8, {"antisense": 40.0, "rewrite": 20.0}, 4)
        assert pool.rates("m") == expected
    with open_pool(store, "new", "second") as pool:
        assert pool.rates("m") == expected
        assert pool.rates("nobody") is None
        # The same seconds in another run are seconds of their own.
        pool.add(answer(7, created=at(4), seconds=2.0, n_tokens=50))
        assert pool.rates("m") == Rates(150 / 10, {"antisense": 40.0, "rewrite": 27.5}, 5)


def test_usage_tells_what_each_run_and_method_asked(store: Store) -> None:
    def at(second: float) -> datetime:
        return START + timedelta(seconds=second)

    with open_pool(store, "recipe", "one") as pool:
        pool.add(answer(1, created=at(2), seconds=2.0, cost=0.5, attempts=3))
        pool.add(answer(2, created=at(3), seconds=2.0, cost=0.25))
        pool.add(failure(3, created=at(9), seconds=1.0))
    pool = open_pool(store, "recipe", "two")
    pool.add(answer(1, created=at(30), method="antisense"))
    rewrite = ("one", "recipe", "rewrite", "m", 2, 1, 6, 20, 10, 0.75, 4.0, at(2), at(9))
    antisense = ("two", "recipe", "antisense", "m", 1, 0, 0, 10, 5, None, 0.5, at(30), at(30))
    assert ask(store, "SELECT * FROM usage ORDER BY run_id") == [rewrite, antisense]


def test_a_store_without_answers_has_both_tables_and_the_catalog_grows(store: Store) -> None:
    columns = "SELECT column_name FROM duckdb_columns() WHERE table_name = 'responses'"
    for name in ("responses", "usage"):
        assert ask(store, f"SELECT count(*) FROM {name}") == [(0,)]
    assert [name for (name,) in ask(store, columns + " AND schema_name = 'main'")] == (
        journals.RESPONSES.names
    )
    path = write_catalog(store)
    with duckdb.connect(str(path), read_only=True) as client:
        assert client.execute("SELECT count(*) FROM usage").fetchall() == [(0,)]
        assert client.execute("SELECT raw FROM responses").fetchall() == []
    with open_pool(store, "recipe", "run") as pool:
        pool.add(answer(1))
    write_catalog(store)
    pool = open_pool(store, "recipe", "run")
    pool.add(answer(2))
    with duckdb.connect(str(path), read_only=True) as client:
        query = "SELECT raw FROM responses ORDER BY request_digest"
        assert client.execute(query).fetchall() == [("answer 1",)]
        pool.close()
        assert client.execute(query).fetchall() == [("answer 1",), ("answer 2",)]
        assert client.execute("SELECT sum(answers) FROM usage").fetchall() == [(2,)]
