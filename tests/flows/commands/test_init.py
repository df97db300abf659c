"""`tercet init`: sentences, tables, documents, and tables of questions to them."""

import csv
import gzip
import json
import re
from pathlib import Path

import pytest
import yaml
from commands_store import tercet
from failures import fails

from tercet.errors import ErrorKind
from tercet.flows.commands.init import write_recipe
from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.fitting import recipe_name

LINES = [f"Heron number {i} stands in the shallow water and waits." for i in range(40)]


def test_lines_of_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, output = tmp_path / "herons.txt.gz", tmp_path / "herons.yaml"
    with gzip.open(corpus, "wt") as file:
        file.write("\n".join(LINES) + "\n")
    write_recipe(str(corpus), str(output))
    recipe = recipe_file.load(str(output))
    assert (recipe.name, recipe.corpora[0].source) == ("herons", str(corpus))
    assert recipe.corpora[0].prose is False
    # Nobody asked for facts, so none of Tercet's own sentences are trained on.
    assert len(recipe.corpora) == 1
    assert not recipe.synthesise
    assert recipe.choose is not None
    assert recipe.evaluate.retrieval is False
    assert capsys.readouterr().out.rstrip().endswith(f"tercet run {output}")


PAIR = "Question,Answer\n" + "".join(f'"Who is {i}?","{line}"\n' for i, line in enumerate(LINES))


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        (
            "my notes.jsonl",
            "".join(f'{{"body": "{a} {a}"}}\n' for a in LINES),
            ("body", None, None),
        ),
        ("faq.csv", PAIR, (None, "Question", "Answer")),
        (
            "faq.csv",
            "title;body\n" + "".join(f'Who is {i}?;"{x}\nIt."\n' for i, x in enumerate(LINES)),
            (None, "title", "body"),
        ),
        (
            "late.csv",
            "id,body\n" + "".join(f"{i},{i if i < 100 else LINES[0]}\n" for i in range(300)),
            ("body", None, None),
        ),
        (
            "large.jsonl",
            "".join(f'{{"id": 1{"0" * 400}, "body": "{line}"}}\n' for line in LINES),
            ("body", None, None),
        ),
        (
            "tickets.csv",
            "Subject,Body\n" + "".join(f'Ticket {i // 2},"{x}"\n' for i, x in enumerate(LINES)),
            ("Body", None, None),
        ),
    ],
    ids=["prose", "pair", "semicolons", "late", "large", "repeated queries"],
)
def test_columns_are_taken_for_what_they_hold(
    tmp_path: Path, name: str, content: str, columns: tuple[str | None, ...]
) -> None:
    (tmp_path / name).write_text(content)
    write_recipe(str(tmp_path / name), str(tmp_path / "recipe.yaml"))
    recipe = recipe_file.load(str(tmp_path / "recipe.yaml"))
    (corpus,) = recipe.corpora
    assert (corpus.text, corpus.query, corpus.answer) == columns
    assert recipe.evaluate.retrieval == (corpus.query is not None)


@pytest.mark.parametrize(
    ("content", "pair", "kind", "name"),
    [
        (
            "id,n\n" + "".join(f"{i},{i / 7}\n" for i in range(40)),
            (None, None),
            "missing_column",
            "'id', 'n'",
        ),
        (PAIR, ("Question", None), "missing_key", "both"),
        (PAIR, ("Question", "Question"), "missing_key", "both"),
        (PAIR, ("Questions", "Answer"), "missing_column", "'Questions'"),
    ],
)
def test_columns_that_are_none_or_not_there_are_told(
    tmp_path: Path, content: str, pair: tuple[str | None, str | None], kind: ErrorKind, name: str
) -> None:
    (tmp_path / "table.csv").write_text(content)
    with fails(kind, name):
        write_recipe(str(tmp_path / "table.csv"), str(tmp_path / "recipe.yaml"), *pair)
    assert not (tmp_path / "recipe.yaml").exists()


def test_every_line_that_is_commented_out_can_be_used(tmp_path: Path) -> None:
    corpus, output = tmp_path / "herons.tsv", tmp_path / "recipe.yaml"
    corpus.write_text("text\tmore\n" + "".join(f"{line}\tx\n" for line in LINES))
    write_recipe(str(corpus), str(output))
    text = output.read_text()
    for hint in ("query: COLUMN", "answer: COLUMN", "limit: 10000", "suite: DIR"):
        assert f"# {hint}" in text
        text = text.replace(f"# {hint}", hint)
    changed = yaml.safe_load(text)
    assert changed["corpora"][0]["limit"] == 10000
    assert changed["corpora"][0]["query"] == "COLUMN"
    assert changed["evaluate"]["suite"] == "DIR"


@pytest.mark.parametrize("short", [30, 0])
def test_sentences_that_are_too_short_are_told(
    short: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "short.txt"
    corpus.write_text("heron\n" * short + "\n".join(LINES[:9]))
    write_recipe(str(corpus), str(tmp_path / "short.yaml"))
    assert ("ingest.min_words" in capsys.readouterr().out) == bool(short)


def test_files_that_no_reader_knows_and_hidden_ones_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = ["deep/b.RST", "c.json", "Makefile", ".d.md", ".e/f.txt", ".h/i.png"]
    for name in ("z.md", "a.rst", *others):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n\n".join(LINES))
    write_recipe(str(tmp_path), str(tmp_path / "mine.yaml"))
    shown = capsys.readouterr().out
    assert all(count in shown for count in ("2 hidden", "1 .json", "1 without a suffix"))
    assert ".png" not in shown


GERMAN = "Am Ufer {} steht ein alter Reiher, der auf Fische wartet, und die Kinder sehen ihm zu."


@pytest.mark.parametrize(("line", "foreign"), [(GERMAN, True), (LINES[0] + " {}", False)])
def test_a_text_in_another_language_is_told(
    line: str, foreign: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "herons.txt"
    corpus.write_text("\n".join(line.format(number) for number in range(40)))
    write_recipe(str(corpus), str(tmp_path / "recipe.yaml"))
    assert ("evaluator.model" in capsys.readouterr().out) == foreign


def test_a_file_that_exists_is_never_touched(tmp_path: Path) -> None:
    corpus, output = tmp_path / "herons.txt", tmp_path / "recipe.yaml"
    corpus.write_text("\n".join(LINES))
    output.write_text("mine")
    with fails("exists"):
        write_recipe(str(corpus), str(output))
    assert output.read_text() == "mine"
    with fails("missing_file"):
        write_recipe(str(corpus), str(tmp_path / "no" / "recipe.yaml"))
    output.unlink()
    corpus.unlink()
    done = tercet("init", str(corpus), "-o", str(output))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("pydocs", "pydocs"),
        ("a/b/wiki-300k.txt.gz", "wiki_300k"),
        ("a/notes/*.txt", "notes"),
        ("a/日本.txt", "corpus"),
    ],
)
def test_a_recipe_is_called_after_its_source(source: str, name: str) -> None:
    assert recipe_name(source) == name


def test_columns_that_are_named_are_the_pair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, output = tmp_path / "notes.csv", tmp_path / "recipe.yaml"
    corpus.write_text("line,story\n" + "".join(f'heron {i},"{x}"\n' for i, x in enumerate(LINES)))
    for columns in ((None, None), ("line", "story")):
        output.unlink(missing_ok=True)
        write_recipe(str(corpus), str(output), *columns)
        recipe = recipe_file.load(str(output))
        assert (recipe.corpora[0].query, recipe.corpora[0].answer) == columns
        assert ("--query" in capsys.readouterr().out) == (columns[0] is None)
    assert recipe.evaluate.retrieval


@pytest.mark.parametrize(
    ("columns", "words", "searched"),
    [("title,body", 20, True), ("id,body", 60, False)],
)
def test_a_table_of_texts_with_titles_is_searched(
    columns: str, words: int, searched: bool, tmp_path: Path
) -> None:
    corpus, output = tmp_path / "notes.csv", tmp_path / "recipe.yaml"
    rows = "".join(f'Heron {i},"{(line + " ") * (words // 10)}"\n' for i, line in enumerate(LINES))
    corpus.write_text(f"{columns}\n{rows}")
    write_recipe(str(corpus), str(output))
    assert (recipe_file.load(str(output)).ingest.passages is not None) == searched


@pytest.mark.parametrize(("questions", "few"), [(29, True), (30, False)])
def test_fewer_than_thirty_questions_cannot_tell(
    questions: int, few: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    for number, line in enumerate(LINES):
        (tmp_path / "docs" / f"{number}.md").write_text(f"# Heron {number}\n\n{line}\n")
    table = tmp_path / "mine.csv"
    rows = "".join(f"where is heron {number}?,{number}.md\n" for number in range(questions))
    table.write_text("question,file\n" + rows)
    write_recipe(str(tmp_path / "docs"), str(tmp_path / "recipe.yaml"), questions=str(table))
    assert ("Bring 30" in capsys.readouterr().out) == few


@pytest.mark.parametrize(
    "heading",
    [
        *("a\n\n  - b", 'a "quoted" one', "colon: here", "# hash", "a #b", " lead", "trail "),
        *("null", "2024-01-01", "{a: [b]}", "&d *e", "\u2028", "\x07bell", "two words " * 30),
    ],
)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_any_heading_is_written_so_that_it_can_be_read(
    heading: str, form: str, tmp_path: Path
) -> None:
    corpus, output = tmp_path / f"herons.{form}", tmp_path / "recipe.yaml"
    if form == "csv":
        with corpus.open("w", newline="") as file:
            csv.writer(file).writerows([["id", heading], *enumerate(LINES)])
    else:
        corpus.write_text("\n".join(json.dumps({"id": 1, heading: line}) for line in LINES))
    write_recipe(str(corpus), str(output))
    name = heading.strip(" ") if form == "csv" else heading
    assert recipe_file.load(str(output)).corpora[0].text == name
    assert "# limit: 10000" in output.read_text()


def test_another_dialect_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, output = tmp_path / "herons.csv", tmp_path / "recipe.yaml"
    rows = [f"{n}|{line}|x" for n, line in enumerate(LINES)]
    corpus.write_text("\n".join(["id|text|label", *rows]))
    write_recipe(str(corpus), str(output))
    assert "'|'" in capsys.readouterr().out
    text = output.read_text()
    assert "# dialect: " in text
    output.write_text(text.replace("# dialect: ", "dialect: "))
    assert recipe_file.load(str(output)).corpora[0].dialect is not None


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder of pages."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for i, line in enumerate(LINES):
        (folder / f"{i}.md").write_text(f"# Heron {i}\n\n{line} {line}\n")
    return folder


def test_documents_are_made_ready_for_a_search(notes: Path, tmp_path: Path) -> None:
    output = tmp_path / "recipe.yaml"
    write_recipe(str(notes), str(output))
    recipe = recipe_file.load(str(output))
    assert set(recipe.synthesise) == {"title", "heading"}
    assert recipe.ingest.passages is not None
    assert recipe.ingest.passages.tokens <= recipe.train.phases[0].max_length


def test_every_line_of_a_search_can_be_used(notes: Path, tmp_path: Path) -> None:
    output = tmp_path / "recipe.yaml"
    write_recipe(str(notes), str(output))
    (tmp_path / "asked.csv").write_text("question,file\nWho waits?,3.md\n")
    text = output.read_text().replace("FILE}", f"{tmp_path / 'asked.csv'}}}")
    keys = ("question", "rank_max", "retrieval_sets", "llm", "score", "negatives")
    for key in keys:
        text, changed = re.subn(rf"^( *)# ({key}: [{{\d])", r"\1\2", text, flags=re.MULTILINE)
        assert changed == 1, key
    output.write_text(text)
    recipe = recipe_file.load(str(output))
    assert recipe.select.rank_max == 3
    assert set(recipe.synthesise) == {"title", "heading", "question"}
    assert list(recipe.evaluate.retrieval_sets) == ["mine"]
    assert "score.round_trip" in [step.name for step in compile_steps(resolve(recipe))]


def test_questions_beside_the_pages_are_measured(
    notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = notes / "my questions.csv"
    asked.write_text("Question,File\nWho waits?,3.md\nWho waits?,4\nWho stands?,5.md\n")
    (notes / "others.csv").write_text("question,file\nWho waits?,elsewhere.md\n")
    (notes / "faq.csv").write_text("question,answer\nWho waits?,A heron.\n")
    (notes / "bare.csv").write_text("Question,Where\nWho waits?,3.md\n")
    write_recipe(str(notes), str(tmp_path / "recipe.yaml"))
    sets = recipe_file.load(str(tmp_path / "recipe.yaml")).evaluate.retrieval_sets
    assert {name: one.source for name, one in sets.items()} == {"my_questions": str(asked)}
    shown = capsys.readouterr().out
    assert "my questions.csv: 2 questions (Question, File)" in shown
    assert f"--questions {notes / 'faq.csv'}\n" in shown
    assert str(notes / "bare.csv") in shown


def test_tables_of_questions_of_one_name_are_all_measured(notes: Path, tmp_path: Path) -> None:
    (notes / "old").mkdir()
    tables = {"asked": notes / "asked.csv", "asked_2": notes / "old" / "asked.csv"}
    for table in tables.values():
        table.write_text("question,file\nWho waits?,3.md\n")
    write_recipe(str(notes), str(tmp_path / "recipe.yaml"))
    sets = recipe_file.load(str(tmp_path / "recipe.yaml")).evaluate.retrieval_sets
    assert {name: Path(one.source) for name, one in sets.items()} == tables


def test_questions_that_are_named_are_measured(notes: Path, tmp_path: Path) -> None:
    output, asked = tmp_path / "recipe.yaml", tmp_path / "asked.csv"
    asked.write_bytes("question,file\nWho?,3.md\nWer wärtet?,4.md\n".encode() + b"W\xe4r?,4.md\n")
    done = tercet("init", str(notes), "-o", str(output), "--questions", str(asked))
    assert done.returncode == 0
    assert all(part in done.stdout for part in ("asked.csv: 2 questions", "1 row", "row 4"))
    assert list(recipe_file.load(str(output)).evaluate.retrieval_sets) == ["asked"]
    asked.write_text("question\nWho?\n")
    with fails("missing_column"):
        write_recipe(str(notes), str(tmp_path / "other.yaml"), questions=str(asked))
