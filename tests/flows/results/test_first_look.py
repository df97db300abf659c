"""What is shown of a run: moved queries and a moved fact, and which question was trained on."""

import duckdb
import pyarrow as pa
import pytest
from known_tables import known_tables
from question_rows import MOVES, TABLES, question_rows, question_tables

from tercet.flows.recipe import file as recipe_file
from tercet.flows.results.first_look import first_look, read_questions, trained_on
from tercet.tasks.stages import known_schemas

TEXTS = {i: (f"query {i}", f"answer {i}") for i in range(1, 31)}


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    """Thirty test queries: 1 to 4 come right, 5 to 6 go wrong, 7 goes from wrong to wrong."""
    made = duckdb.connect()
    made.execute("CREATE TABLE evaluations (phase VARCHAR, model_version VARCHAR, seed INT, "
                 "suite VARCHAR, task VARCHAR)")  # fmt: skip
    for phase, model in (("base", "old"), ("encoder", "new")):
        for task in ("document_pairs", "method_to_class", "name_to_summary"):
            made.execute(
                "INSERT INTO evaluations VALUES (?, ?, 1, 'retrieval', ?)", [phase, model, task]
            )
    made.execute("CREATE TABLE document_pairs (pair_id UBIGINT, query VARCHAR, answer VARCHAR)")
    made.executemany("INSERT INTO document_pairs VALUES (?, ?, ?)",
                     [(i, *texts) for i, texts in TEXTS.items()])  # fmt: skip
    made.execute(
        "CREATE TABLE retrieval_ranks (model_version VARCHAR, pair_id UBIGINT, split VARCHAR, "
        "task VARCHAR, nearest_id UBIGINT, nearest_similarity FLOAT)"
    )
    for i in TEXTS:
        old = i + 1 if i <= 4 or i == 7 else i
        new = i + 2 if 5 <= i <= 7 else i
        for model, nearest, similarity in (("old", old, 0.5), ("new", new, 0.75)):
            row = [model, i, "test", "document_pairs", nearest, similarity]
            made.execute("INSERT INTO retrieval_ranks VALUES (?, ?, ?, ?, ?, ?)", row)
    made.execute("CREATE TABLE fact_order_cases (model_version VARCHAR, task VARCHAR, "
                 "kind VARCHAR, item INT, anchor VARCHAR, rewording VARCHAR, changed VARCHAR, "
                 "rewording_similarity FLOAT, changed_similarity FLOAT)")  # fmt: skip
    made.execute("CREATE TABLE triplets (positive_method VARCHAR)")
    for name in TABLES:
        made.register(name, known_schemas()[name].empty_table())
    return made


def add_case(connection, item: int, old: tuple[float, float], new: tuple[float, float]) -> None:
    for model, cosines in (("old", old), ("new", new)):
        row = [model, "ours", "number", item, f"a{item}", f"r{item}", f"c{item}", *cosines]
        connection.execute("INSERT INTO fact_order_cases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)


def shown(lines: list[str]) -> list[str]:
    """The numbers of the queries that stand in these lines."""
    return [line.split()[-1] for line in lines if line.startswith("  query")]


def test_moved_queries_are_counted_and_drawn_for_better_and_worse(connection) -> None:
    lines = first_look(connection, 1, {})
    assert "7 of 30" in " ".join(lines[:3])
    queries = shown(lines)
    assert len(queries) == 3
    place = next(i for i, line in enumerate(lines) if line.startswith("  query"))
    number = int(queries[0])
    old = number + 1 if number <= 4 or number == 7 else number
    new = number + 2 if number >= 5 else number
    assert lines[place + 1].split() == ["before", "0.50", *"="[: old == number], "answer", str(old)]
    assert lines[place + 2].split() == ["after", "0.75", *"="[: new == number], "answer", str(new)]
    # Which are shown depends on the seed, and some show what went wrong.
    connection.execute("UPDATE evaluations SET seed = NULL")
    assert first_look(connection, 2, {}) == []
    drawn = set()
    for seed in range(2, 12):
        connection.execute("UPDATE evaluations SET seed = ?", [seed])
        drawn |= set(shown(first_look(connection, seed, {})))
    assert drawn <= set("1234567")
    assert drawn & set("56")
    assert drawn & set("1234")


def test_ones_own_questions_are_shown_in_place_of_drawn_queries(connection) -> None:
    for name, table in question_tables().items():
        connection.register(name, table)
    lines = first_look(connection, 1, {})
    assert "2 of 5" in lines[1]
    asked = [line.split()[1:] for line in lines if line.startswith("  question")]
    assert [words[0] for words in asked] == ["+100.0", "+20.0", "-20.0", "-90.0"]
    assert [line.split()[:4] for line in lines[-2:]] == [
        ["before", "rank", "1", "right.md:"],
        ["after", "rank", "9", "wrong.md:"],
    ]
    assert shown(lines) == []


def test_a_fact_with_both_cosines_before_and_after(connection) -> None:
    add_case(connection, 0, (0.9, 0.8), (0.9, 0.7))
    assert any("1 cases" in line for line in first_look(connection, 1, {}))
    add_case(connection, 1, (0.7, 0.8), (0.85, 0.6))
    lines = first_look(connection, 1, {})
    assert any("1 of 2" in line for line in lines)
    assert [line.split()[1:] for line in lines[-3:]] == [
        ["a1"],
        ["0.70", "0.85", "r1"],
        ["0.80", "0.60", "c1"],
    ]


def test_the_users_own_queries_and_cases_stand_before_those_of_tercet(connection) -> None:
    """Of seven queries that moved only the third and the sixth are of the user's documents."""
    connection.execute("ALTER TABLE document_pairs ADD COLUMN doc_id INT")
    connection.execute("UPDATE document_pairs SET doc_id = pair_id IN (3, 6)")
    connection.execute("CREATE TABLE documents AS FROM (VALUES (0, 'plain'), (1, 'docs')) "
                       "d(doc_id, corpus)")  # fmt: skip
    for item in range(20):
        add_case(connection, item, (0.7, 0.8), (0.85, 0.6))
    connection.execute("UPDATE fact_order_cases SET task = 'mine' WHERE item = 7")
    file = "package:tercet.recipes/fact_order.tsv"
    recipe = {
        "corpora": [{"name": "plain", "source": "package:tercet.recipes/plain_english.txt"}],
        "evaluate": {"fact_order": {"ours": file, "mine": "mine.tsv"}},
    }
    for seed in (1, 2, 3):
        connection.execute("UPDATE evaluations SET seed = ?", [seed])
        lines = first_look(connection, seed, recipe)
        queries = shown(lines)
        assert set(queries[:2]) == {"3", "6"}
        assert queries[2] in {"1", "2", "4", "5", "7"}
        assert [line.split()[-1] for line in lines[-3:]] == ["a7", "r7", "c7"]
        # What is counted stays whole.
        assert any("7 of 30" in line for line in lines)


def test_which_question_is_trained_on(connection) -> None:
    def sentence(*overrides: str) -> str:
        return " ".join(trained_on(connection, recipe_file.load("quickstart", overrides)))

    triplets = "train.phases=[{rows: triplets}]"
    trained, _, other = sentence().partition(". ")
    assert "document pairs" in trained
    assert "method to class, name to summary" in other
    assert "%" not in sentence(triplets)
    connection.execute("INSERT INTO triplets VALUES ('neighbour_paragraph'), ('cutoff')")
    assert "document pairs (50%" in sentence(triplets)
    connection.execute(
        "INSERT INTO evaluations VALUES ('encoder', 'new', 1, 'retrieval', 'halves')"
    )
    connection.execute("UPDATE triplets SET positive_method = 'rest_of_paragraph'")
    assert "halves (100%" in sentence(triplets)
    for rows in ("relation: alters", "positive: anchor"):
        assert "%" not in sentence(f"train.phases=[{{rows: {{from: triplets, {rows}}}}}]")
    connection.execute("DELETE FROM evaluations")
    assert sentence() == ""


def asked(tables: dict[str, pa.Table], base: str = "old") -> duckdb.DuckDBPyConnection:
    db = known_tables()
    for name, table in tables.items():
        db.register(name, table)
    rows = [
        {"phase": "base", "model_version": base, "seed": 42},
        {"phase": "encoder", "model_version": "new", "seed": 42},
        {"phase": "encoder", "model_version": "other", "seed": 43},
    ]
    db.register("evaluations", pa.Table.from_pylist(rows, known_schemas()["evaluations"]))
    return db


def test_they_are_ordered_by_what_they_gained() -> None:
    rows = read_questions(asked(question_tables()), 42)
    assert [row["query"] for row in rows] == list(MOVES)
    assert [row["gain"] for row in rows] == pytest.approx([100, 20, 0, -20, -90])
    most = rows[0]
    assert (most["before"], most["after"], most["bm25"], most["both"]) == (None, 1, 7, 1)
    assert most["first_before"] == "wrong.md: wrong words"
    assert most["first_after"] == "right.md: right words"
    assert read_questions(asked(question_tables()), 43) == []


def test_questions_of_dev_stand_back() -> None:
    dev, test = question_tables(task="mine dev"), question_rows()
    assert len(read_questions(asked(dev), 42)) == len(MOVES)
    for name in ("question_ranks", "evaluation_items"):
        both = [dev[name], pa.Table.from_pylist(test[name], dev[name].schema)]
        dev[name] = pa.concat_tables(both)
    assert {row["task"] for row in read_questions(asked(dev), 42)} == {"mine"}
