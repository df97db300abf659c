import csv
import gzip
import json
from pathlib import Path

import pytest
import yaml
from commands_store import lines_of, tercet

from tercet.flows.commands.init import write_recipe
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.fitting import recipe_name
from tercet.tasks.corpus.sources import streams
from tercet.tasks.stage import BadInput

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
    shown = capsys.readouterr().out
    assert "40 lines" in shown
    assert "expect no gain" in shown
    assert lines_of(shown)[-1] == f"tercet run {output}"


def test_prose_in_a_column(tmp_path: Path) -> None:
    corpus, output = tmp_path / "my notes.jsonl", tmp_path / "recipe.yaml"
    rows = [{"id": str(i), "body": " ".join(LINES[i : i + 3])} for i in range(30)]
    corpus.write_text("\n".join(map(json.dumps, rows)))
    write_recipe(str(corpus), str(output))
    recipe = recipe_file.load(str(output))
    assert (recipe.name, recipe.corpora[0].text) == ("my_notes", "body")
    assert len(recipe.corpora) == 1
    assert all(len(line) <= 100 for line in output.read_text().splitlines() if line[:1] == "#")


def test_a_pair_of_columns_measures_the_encoder(tmp_path: Path) -> None:
    corpus, output = tmp_path / "faq.csv", tmp_path / "recipe.yaml"
    corpus.write_text(
        "Question,Answer\n" + "".join(f'"Who is {i}?","{line}"\n' for i, line in enumerate(LINES))
    )
    write_recipe(str(corpus), str(output))
    recipe = recipe_file.load(str(output))
    assert (recipe.corpora[0].query, recipe.corpora[0].answer) == ("Question", "Answer")
    assert recipe.evaluate.retrieval is True


def test_semicolons_and_line_breaks_in_fields_are_no_hindrance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, output = tmp_path / "faq.csv", tmp_path / "recipe.yaml"
    rows = "".join(f'Who is {i}?;"{line}\nIt waits."\n' for i, line in enumerate(LINES))
    corpus.write_text("title;body\n" + rows)
    write_recipe(str(corpus), str(output))
    recipe = recipe_file.load(str(output))
    assert (recipe.corpora[0].query, recipe.corpora[0].answer) == ("title", "body")
    assert "40 rows of pairs ('title' and 'body')" in capsys.readouterr().out


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


def test_sentences_that_are_too_short_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "short.txt"
    corpus.write_text("heron\n" * 30 + "\n".join(LINES[:9]))
    write_recipe(str(corpus), str(tmp_path / "short.yaml"))
    shown = capsys.readouterr().out
    assert "\n30 of the first 39 sentences have fewer than 2 words and would" in shown
    assert "lower ingest.min_words" in shown
    corpus.write_text("heron")
    write_recipe(str(corpus), str(tmp_path / "one.yaml"))
    assert "1 file, 1 line, 1 word a sentence." in capsys.readouterr().out
    corpus.write_text("\n".join(LINES))
    write_recipe(str(corpus), str(tmp_path / "long.yaml"))
    assert "min_words" not in capsys.readouterr().out


def test_files_of_another_kind_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.md").write_text("\n\n".join(LINES))
    (tmp_path / "b.txt").write_text("\n".join(LINES))
    write_recipe(str(tmp_path), str(tmp_path / "recipe.yaml"))
    assert "(.md): 1 file, 1 .txt left out, " in capsys.readouterr().out


def test_files_that_no_reader_knows_and_hidden_ones_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_reads_documents", lambda: False)
    others = ["deep/b.RST", "c.json", "Makefile", ".d.md", ".e/f.txt", ".git/g.txt", ".h/i.png"]
    for name in ("z.md", "a.rst", *others):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n\n".join(LINES))
    write_recipe(str(tmp_path), str(tmp_path / "mine.yaml"))
    shown = capsys.readouterr().out
    for said in ("2 .rst", "2 hidden", "1 .json", "1 without a suffix"):
        assert f", {said} left out, " in shown
    assert ".png" not in shown
    assert "pip install 'tercet[documents]'" in shown


GERMAN = "Am Ufer {} steht ein alter Reiher, der auf Fische wartet, und die Kinder sehen ihm zu."


@pytest.mark.parametrize(("line", "told"), [(GERMAN, True), (LINES[0] + " {}", False)])
def test_a_text_in_another_language_is_told(
    line: str, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "herons.txt"
    corpus.write_text("\n".join(line.format(number) for number in range(40)))
    write_recipe(str(corpus), str(tmp_path / "recipe.yaml"))
    shown = capsys.readouterr().out
    assert ("Only 0% of its words are among the most common of English." in shown) == told
    assert ("set backbone and evaluator.model to an encoder that knows" in shown) == told


def test_a_file_that_exists_is_never_touched(tmp_path: Path) -> None:
    corpus, output = tmp_path / "herons.txt", tmp_path / "recipe.yaml"
    corpus.write_text("\n".join(LINES))
    output.write_text("mine")
    with pytest.raises(BadInput, match="exists"):
        write_recipe(str(corpus), str(output))
    assert output.read_text() == "mine"
    with pytest.raises(BadInput, match="no directory"):
        write_recipe(str(corpus), str(tmp_path / "no" / "recipe.yaml"))


def test_a_corpus_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    done = tercet("init", str(tmp_path / "no.txt"), "-o", str(tmp_path / "r.yaml"))
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


def test_a_pair_with_repeated_queries_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, output = tmp_path / "tickets.csv", tmp_path / "recipe.yaml"
    rows = "".join(f'Ticket {i // 2},"{line}"\n' for i, line in enumerate(LINES))
    corpus.write_text("Subject,Body\n" + rows)
    write_recipe(str(corpus), str(output))
    assert recipe_file.load(str(output)).corpora[0].query is None
    (told,) = [line for line in capsys.readouterr().out.splitlines() if "a pair" in line]
    assert told == (
        "'Subject' and 'Body' look like a pair, but only 20 of 40 values of 'Subject' differ: the "
        "other 20 would be left out as duplicate_query. To take them: --query Subject --answer Body"
    )


def test_a_column_of_too_many_values_for_labels_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f'm{i % 21},k{i % 20},"{LINES[i % 40]} {i}"\n' for i in range(420)]
    corpus = tmp_path / "notes.csv"
    corpus.write_text("many,few,said\n" + "".join(rows))
    write_recipe(str(corpus), str(tmp_path / "recipe.yaml"))
    shown = capsys.readouterr().out
    assert "\n'many' has 21 values; labels have at most 20.\n" in shown
    assert "'few' has" not in shown
    assert "each trains with itself under dropout" in shown


def test_every_column_is_told_with_what_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, output = tmp_path / "papers.jsonl", tmp_path / "recipe.yaml"
    rows = [
        {
            "id": i,
            "asked": f"Does heron {i} wait?",
            "abstract": line,
            "of": "north" if i % 2 else "",
        }
        for i, line in enumerate(LINES)
    ]
    corpus.write_text("\n".join(map(json.dumps, rows)))
    write_recipe(str(corpus), str(output))
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["Of", "its", "40", "rows:"] in shown
    assert ["id", "40", "40", "a", "number"] in shown
    assert ["asked", "40", "40", "4", "a", "question", "query"] in shown
    assert ["abstract", "40", "40", "10", "answer"] in shown
    assert ["of", "20", "1", "1", "a", "category"] in shown
    recipe = recipe_file.load(str(output))
    assert (recipe.corpora[0].query, recipe.corpora[0].answer) == ("asked", "abstract")
    assert recipe.evaluate.retrieval


def test_columns_that_are_named_are_the_pair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, output = tmp_path / "notes.csv", tmp_path / "recipe.yaml"
    corpus.write_text("line,story\n" + "".join(f'heron {i},"{x}"\n' for i, x in enumerate(LINES)))
    write_recipe(str(corpus), str(output))
    assert recipe_file.load(str(output)).corpora[0].query is None
    shown = capsys.readouterr().out
    assert "look like a pair by their values alone (2 words, 40 differ). To take them: --q" in shown
    output.unlink()
    done = tercet("init", str(corpus), "-o", str(output), "--query", "line", "--answer", "story")
    assert done.returncode == 0
    recipe = recipe_file.load(str(output))
    assert (recipe.corpora[0].query, recipe.corpora[0].answer) == ("line", "story")
    assert recipe.evaluate.retrieval
    assert "look like a pair" not in done.stdout


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (("line", None), "give both"),
        ((None, "line"), "give both"),
        (("line", "line"), "give both"),
        (("lines", "story"), "has no column 'lines': its columns are 'line', 'story'"),
    ],
)
def test_half_a_pair_and_columns_that_are_not_there_are_told(
    pair: tuple[str | None, str | None], said: str, tmp_path: Path
) -> None:
    corpus, output = tmp_path / "notes.csv", tmp_path / "recipe.yaml"
    corpus.write_text("line,story\n" + "".join(f'heron {i},"{x}"\n' for i, x in enumerate(LINES)))
    with pytest.raises(BadInput, match=said):
        write_recipe(str(corpus), str(output), *pair)
    assert not output.exists()


@pytest.mark.parametrize(
    ("columns", "words", "searched"),
    [("title,body", 60, True), ("title,body", 20, True), ("id,body", 60, False)],
)
def test_a_table_of_texts_with_titles_is_searched(
    columns: str, words: int, searched: bool, tmp_path: Path
) -> None:
    corpus, output = tmp_path / "notes.csv", tmp_path / "recipe.yaml"
    rows = "".join(f'Heron {i},"{(line + " ") * (words // 10)}"\n' for i, line in enumerate(LINES))
    corpus.write_text(f"{columns}\n{rows}")
    write_recipe(str(corpus), str(output))
    assert (recipe_file.load(str(output)).ingest.passages is not None) == searched


@pytest.mark.parametrize(("questions", "told"), [(0, True), (29, True), (30, False)])
def test_fewer_than_thirty_questions_cannot_tell(
    questions: int, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    for number, line in enumerate(LINES):
        (tmp_path / "docs" / f"{number}.md").write_text(f"# Heron {number}\n\n{line}\n")
    table = tmp_path / "mine.csv"
    rows = "".join(f"where is heron {number}?,{number}.md\n" for number in range(questions))
    table.write_text("question,file\n" + rows)
    asked = str(table) if questions else None
    write_recipe(str(tmp_path / "docs"), str(tmp_path / "recipe.yaml"), questions=asked)
    assert ("Bring 30 questions" in capsys.readouterr().out) == told


def test_numbers_are_no_text(tmp_path: Path) -> None:
    corpus, output = tmp_path / "numbers.csv", tmp_path / "recipe.yaml"
    corpus.write_text("id,n\n" + "".join(f"{i},{i / 7}\n" for i in range(40)))
    with pytest.raises(BadInput, match="no column holds text; its columns, 'id', 'n', hold numb"):
        write_recipe(str(corpus), str(output))
    rows = "".join(f'{10**60 + i},"{line}"\n' for i, line in enumerate(LINES))
    corpus.write_text("id,said\n" + rows)
    write_recipe(str(corpus), str(output))
    assert recipe_file.load(str(output)).corpora[0].text == "said"


def test_text_behind_a_hundred_numbers_is_text(tmp_path: Path) -> None:
    corpus, output = tmp_path / "late.csv", tmp_path / "recipe.yaml"
    late = [f"Sentence {i} says something about herons and grebes." for i in range(200)]
    rows = [*map(str, range(100)), *late]
    corpus.write_text("id,body\n" + "".join(f"{i},{row}\n" for i, row in enumerate(rows)))
    write_recipe(str(corpus), str(output))
    assert recipe_file.load(str(output)).corpora[0].text == "body"


def test_a_number_beyond_all_floats_is_a_number(tmp_path: Path) -> None:
    corpus, output = tmp_path / "large.jsonl", tmp_path / "recipe.yaml"
    rows = [f'{{"id": 1{"0" * 400}, "body": "Sentence {i} is about grebes."}}' for i in range(50)]
    corpus.write_text("\n".join(rows))
    write_recipe(str(corpus), str(output))
    assert recipe_file.load(str(output)).corpora[0].text == "body"


@pytest.mark.parametrize(
    "heading",
    [
        *("Customer\ncomment", "a\n\n  - b", 'a "quoted" one', "colon: here", "# hash", "a #b"),
        *(" lead", "trail ", "- dash", "📦 text", "null", "1.5", "2024-01-01", "{a: [b]}", "&d *e"),
        *("\u2028", "\x85x", "\x07bell", "\uffff", "x" * 200, "two words " * 30),
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
    assert "fields separated by '|'" in capsys.readouterr().out
    text = output.read_text()
    assert "# dialect: " in text
    output.write_text(text.replace("# dialect: ", "dialect: "))
    assert recipe_file.load(str(output)).corpora[0].dialect is not None
