"""The docs name every table, column, key and command, and their SQL runs."""

import re
import runpy
import shlex
import textwrap
import types
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import yaml

from tercet.flows.cli import app
from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe import file as recipe_file
from tercet.flows.results.queries import connect
from tercet.models.generation import DETAIL, MethodInput, Prompted
from tercet.models.losses.registry import LOSSES, loss_named
from tercet.storage.artifacts import open_artifact
from tercet.storage.catalog.read_only import checked
from tercet.storage.catalog.snapshot import METADATA
from tercet.storage.part_writer import PartWriter
from tercet.storage.runs import end_run, record_step, start_run
from tercet.storage.store import Store, open_store
from tercet.tasks.corpus import ingest
from tercet.tasks.reasons import REASONS
from tercet.tasks.stages import described, known_schemas
from tercet.tasks.synthesis.methods import METHOD_NAMES, method_of

ROOT = Path(__file__).parents[1]
TABLES = {**known_schemas(), **METADATA}
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """What stands under a heading of that title, up to the next heading."""
    match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, f"there is no heading {title!r}"
    return match[1]


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_column_of_a_table_is_described(table: str) -> None:
    # A schema's metadata names the columns that the view computes.
    computed = [name.decode() for name in TABLES[table].metadata or {}]
    assert list(described()[table].columns) == [*TABLES[table].names, *computed]


def test_no_table_is_described_that_is_not_there() -> None:
    assert sorted(described()) == sorted([*TABLES, "detail"])
    assert list(described()["detail"].columns) == [field.name for field in DETAIL]


def test_the_reference_is_as_the_code_gives_it() -> None:
    pages = runpy.run_path(str(ROOT / "docs" / "reference.py"))["PAGES"]
    stale = [page for page, write in pages.items() if read(f"docs/{page}") != write()]
    assert stale == [], "run .venv/bin/python docs/reference.py"


def test_the_reasons_of_ingest_are_described() -> None:
    listed = {one.name for one in REASONS if one.stages == "ingest"}
    assert {*ingest._REASONS} - {""} - listed == set()


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_described_with_its_parameters(name: str) -> None:
    line = re.search(rf"^\| `{name}` \| .*$", read("docs/recipes.md"), re.MULTILINE)
    assert line, f"docs/recipes.md has no line for {name}"
    fields = loss_named(name).params.model_fields
    parameters = [field.alias or own for own, field in fields.items()]
    assert [name for name in parameters if f"`{name}`" not in line[0]] == []


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_every_method_is_described_with_its_role_and_parameters(method: str) -> None:
    line = re.search(
        rf"^\| `{method}` \| (\w+) \| (\w+) .*$", read("docs/recipes.md"), re.MULTILINE
    )
    assert line, f"docs/recipes.md has no line for {method}"
    assert (line[1], line[2]) == (method_of(method).purpose, method_of(method).relation)
    chosen = method_of(method)
    parameters = chosen.params.model_fields.keys()
    if chosen.prompted:
        parameters -= Prompted.model_fields.keys()
    assert [name for name in parameters if f"`{name}`" not in line[0]] == []


def test_the_smallest_recipe_is_one(tmp_path: Path) -> None:
    block = re.search(r"```yaml\n(name: .*?)```", read("docs/recipes.md"), re.DOTALL)
    assert block
    path = tmp_path / "recipe.yaml"
    path.write_text(block[1], encoding="utf-8")
    assert recipe_file.load(str(path)).name == "mine"


def commands() -> list[Any]:
    """Each `tercet run` or `study` of a shipped recipe in the docs, and what it sets."""
    params = []
    for page in PAGES:
        text = re.sub(r"\\?\n +--", " --", read(page))
        for line in re.findall(r"tercet (?:run|study) ([a-z_]+ [^`\n…]*)(?![^`\n]*…)", text):
            name, *words = shlex.split(line, comments=True)
            pairs = list(pairwise(words))
            sets = [value for option, value in pairs if option == "--set"]
            varied = [value.partition("=") for option, value in pairs if option == "--vary"]
            sets += [f"{key}={yaml.safe_load(values)[0]}" for key, _, values in varied]
            if sets and name in recipe_file.shipped():
                params.append(pytest.param(name, sets, id=f"{page}-{line}"))
    return params


@pytest.mark.parametrize(("recipe", "overrides"), commands())
def test_a_command_of_the_docs_compiles(recipe: str, overrides: list[str]) -> None:
    assert compile_steps(recipe_file.resolve(recipe_file.load(recipe, overrides)))


def test_every_paper_has_a_page_of_two_screens() -> None:
    pages = {path.stem: path.read_text(encoding="utf-8") for path in ROOT.glob("docs/methods/*.md")}
    assert set(pages) == {"gcse", "gense", "generate_cse", "sarcse", "defsent_plus"}
    parts = ["Its way through the code", "Deviations", "The paper's tables", "Measured"]
    for name, text in pages.items():
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == parts, name
        assert len(text.splitlines()) <= 100, name
    assert len(read("docs/measurements.md").splitlines()) <= 500
    assert len(read("docs/architecture.md").splitlines()) <= 100


@pytest.mark.parametrize("page", PAGES)
def test_every_link_and_file_of_a_page_is_there(page: str) -> None:
    text = read(page)
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", text):
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), f"{page} links to {target}"
        if anchor:
            assert anchor in anchors(path.read_text(encoding="utf-8")), f"{page}: {target}#{anchor}"
    named = re.findall(
        r"`((?:benchmarks|models|tasks|flows|storage|tests|recipes)/[\w/]+\.\w+)`", text
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


def anchors(text: str) -> set[str]:
    """What a link to a heading may say, as GitHub makes it, and anchors that are set by hand."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)
    return {*slugs, *re.findall(r'<a id="([^"]+)">', text)}


def test_the_generator_of_the_worked_example_works() -> None:
    block = re.search(r"```python\n(.*?)```", read("CONTRIBUTING.md"), re.DOTALL)
    assert block
    module = types.ModuleType("beginning")
    exec(block[1], module.__dict__)
    method = module.METHODS["beginning"]
    rows = pa.table({"sentence_id": pa.array([7], pa.uint64()), "text": ["One two three four."]})
    generated = method.generate(MethodInput(rows, np.arange(1)), method.params(), 1).to_pylist()
    assert [(row["sentence_id"], row["raw"]) for row in generated] == [(7, "One two")]


def test_every_command_stands_in_the_operations() -> None:
    text = read("docs/operations.md")
    names = [
        command.name or (command.callback.__name__ if command.callback else "")
        for command in app.registered_commands
    ]
    assert "run" in names
    assert [name for name in names if f"| `tercet {name}" not in text] == []


def sql_blocks() -> list[Any]:
    params = []
    for name in ("README.md", "docs/sql.md", "docs/recipes.md"):
        if (ROOT / name).exists():
            blocks = re.findall(r"^( *)```sql\n(.*?)^\1```", read(name), re.MULTILINE | re.DOTALL)
            params += [
                pytest.param(textwrap.dedent(block), id=f"{name}-{number}")
                for number, (_, block) in enumerate(blocks)
            ]
    return params


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with one run, in which every table of every stage stands without a row.

    Of the step too that a query of the docs names.
    """
    store = open_store(str(tmp_path_factory.mktemp("docs") / "store"))
    run_id = start_run(store, "documented", {}, {})
    for step in ("everything", "passage_vectors.encoder"):
        artifact = open_artifact(store, step, "0123456789abcdef")
        artifact.adopt_plan([{"spec": {}}])
        with PartWriter(artifact.scratch() / "staging", known_schemas(), 1000) as writer:
            artifact.commit(0, writer.close(None), "key", {})
        artifact.finish({"components": {"stage": step}, "inputs": []})
        entry = {"stage": step, "version": artifact.version, "state": "made", "seconds": 0.1}
        record_step(store, run_id, step, {**entry, "tables": {}})
    end_run(store, run_id, "done", {})
    return store


@pytest.mark.parametrize("block", sql_blocks())
def test_every_sql_block_runs(empty_store: Store, block: str) -> None:
    with connect(empty_store, None) as connection:
        connection.execute(checked(connection, block)).fetchall()


def test_the_glossary_of_prose_leaves_the_entry_out_of_its_definition() -> None:
    definitions = {
        "A wrench is a tool that turns bolts.": ("wrench", "a tool that turns bolts."),
        "An open-end wrench is the simplest one.": ("open-end wrench", "the simplest one."),
        "Wrenches are the tools of plumbers.": ("wrenches", "the tools of plumbers."),
        "The default is the first one.": None,
        "It is a trap.": None,
        "A wrench turns bolts.": None,
    }
    (block,) = [one for param in sql_blocks() if "An?" in (one := str(param.values[0]))]
    rows = [{"text": text, "split": "train"} for text in definitions]
    rows.append({"text": "A nut is a bolt.", "split": "test"})
    with duckdb.connect() as connection:
        connection.register("sentences", pa.Table.from_pylist(rows))
        entries = connection.execute(block).fetchall()
    assert sorted(entries) == sorted(entry for entry in definitions.values() if entry)


def test_every_make_target_of_the_docs_has_a_rule() -> None:
    rules = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        named = re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(encoding="utf-8"), re.M)
        assert set(named) <= rules, page.name


@pytest.mark.parametrize("page", PAGES)
def test_every_table_has_as_many_cells_in_a_row_as_in_its_header(page: str) -> None:
    # GitHub drops what is beyond them; a table that lost its line breaks is no table at all.
    text = re.sub(r"```.*?```", "", read(page), flags=re.DOTALL)
    width = 0
    for line in text.splitlines():
        row = line.strip()
        if row.startswith("|"):
            cells = len(re.findall(r"(?<!\\)\|", row)) - 1
            width = width or cells
            assert cells == width, row
            assert row.endswith("|"), row
        else:
            width = 0
            assert "|---" not in row, row
