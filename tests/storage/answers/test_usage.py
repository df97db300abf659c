"""What was asked and spent is counted once, and so is the time it took."""

from datetime import datetime, timedelta

import duckdb
from answers_pool import (
    START,
    adding,
    answer,
    ask,
    digest,
    failure,
    line,
)

from tercet.storage.answers import journal as journals
from tercet.storage.answers.pool import Rates, Spent, open_pool
from tercet.storage.catalog.views import write_catalog
from tercet.storage.store import Store


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


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
