"""`tercet init` for documents, and tables of questions to them, in their folder or named."""

import re
from pathlib import Path

import pytest
from commands_store import tercet
from failures import fails

from tercet.flows.commands.init import write_recipe
from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve

LINES = [f"Heron number {i} stands in the shallow water and waits." for i in range(40)]


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
    text = output.read_text()
    assert "The quickstart" not in text


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
    output = tmp_path / "recipe.yaml"
    own = notes / "my questions.csv"
    own.write_text("Question,File\nWho waits?,3.md\nWho waits?,4\nWho stands?,5.md\n")
    (notes / "others.csv").write_text("question,file\nWho waits?,elsewhere.md\n")
    (notes / "faq.csv").write_text("question,answer\nWho waits?,A heron.\n")
    write_recipe(str(notes), str(output))
    sets = recipe_file.load(str(output)).evaluate.retrieval_sets
    assert {name: one.source for name, one in sets.items()} == {"my_questions": str(own)}
    (notes / "bare.csv").write_text("Question,Where\nWho waits?,3.md\n")
    write_recipe(str(notes), str(tmp_path / "second.yaml"))
    shown = capsys.readouterr().out
    said = "my questions.csv: 2 questions (Question, File), asked before and after, beside BM25."
    assert said in shown
    faq = "faq.csv: 1 question (question, answer). Not asked, since they name no file of "
    assert faq in shown
    assert f"to ask them: --questions {notes / 'faq.csv'}\n" in shown
    assert f"Not asked: {notes / 'bare.csv'} needs a column `question`, and `file`" in shown


def test_tables_of_questions_of_one_name_are_all_measured(notes: Path, tmp_path: Path) -> None:
    (notes / "old").mkdir()
    tables = {"asked": notes / "asked.csv", "asked_2": notes / "old" / "asked.csv"}
    for table in tables.values():
        table.write_text("question,file\nWho waits?,3.md\n")
    write_recipe(str(notes), str(tmp_path / "recipe.yaml"))
    sets = recipe_file.load(str(tmp_path / "recipe.yaml")).evaluate.retrieval_sets
    assert {name: Path(one.source) for name, one in sets.items()} == tables


def test_questions_that_cannot_be_read_are_told(
    notes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "asked.csv"
    own.write_bytes(
        "question,file\nWho waits?,3.md\nWer wärtet?,4.md\n".encode() + b"W\xe4r?,4.md\n"
    )
    write_recipe(str(notes), str(tmp_path / "recipe.yaml"), questions=str(own))
    assert (
        "asked.csv: 2 questions (question, file), without 1 row (row 4: the line is not UTF-8), "
        "asked before"
    ) in capsys.readouterr().out


def test_questions_that_are_named_are_measured(notes: Path, tmp_path: Path) -> None:
    output, own = tmp_path / "recipe.yaml", tmp_path / "asked.jsonl"
    own.write_text('{"query": "Who waits?", "passage": "Heron number 3 stands"}\n')
    done = tercet("init", str(notes), "-o", str(output), "--questions", str(own))
    assert done.returncode == 0
    assert list(recipe_file.load(str(output)).evaluate.retrieval_sets) == ["asked"]
    own.write_text('{"query": "Who waits?"}\n')
    with fails("missing_column"):
        write_recipe(str(notes), str(tmp_path / "other.yaml"), questions=str(own))
