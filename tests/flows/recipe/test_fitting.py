"""A shipped recipe fitted to the shape of another corpus."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.fitting import SURROUNDINGS, fitted
from tercet.tasks.corpus.sources.discover import describe

LINES = [f"Heron number {i} stands in the shallow water and waits." for i in range(60)]


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


@pytest.fixture
def reviews(tmp_path: Path) -> str:
    """Single sentences with stars, in the order of the stars."""
    rows = [[1 + i // 20, line] for i, line in enumerate(LINES)]
    return write_csv(tmp_path / "reviews.csv", ["stars", "review"], rows)


# Makes models and nothing else.
PRETRAINS = "pretrain_cpu"


@pytest.mark.parametrize("name", [name for name in recipe_file.shipped() if name != PRETRAINS])
def test_every_shipped_recipe_takes_single_sentences(name: str, reviews: str) -> None:
    recipe, _, chosen, *_ = recipe_file.loaded(name, corpus=reviews)
    assert compile_steps(resolve(recipe))
    corpus = recipe.corpora[0]
    assert (corpus.text, corpus.labels, corpus.query) == ("review", "stars", None)
    assert not set(SURROUNDINGS) & set(recipe.synthesise)
    assert recipe.sample.min_context_sentences == 0
    assert recipe.train.choose is None or recipe.train.choose.by != "retrieval"
    assert (recipe.evaluate.retrieval, recipe.evaluate.halves) == (False, True)
    assert chosen is not None
    assert [part for part in ("'review'", "'stars' (1, 2, 3)") if part not in chosen] == []


def test_a_recipe_that_only_pretrains_takes_any_corpus_to_pretrain_on(
    reviews: str, tmp_path: Path
) -> None:
    recipe, content, *_ = recipe_file.loaded(PRETRAINS, corpus=reviews)
    assert content["corpora"] == [
        {"name": "reviews", "source": reviews, "role": "pretrain", "text": "review"}
    ]
    made = ["pretrain.masked", "pretrain.causal", "pretrain.t5"]
    assert [step.name for step in compile_steps(resolve(recipe))] == ["ingest.pretrain", *made]
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(LINES), encoding="utf-8")
    (corpus,) = recipe_file.load(PRETRAINS, corpus=str(lines)).corpora
    assert (corpus.role, corpus.prose, corpus.source) == ("pretrain", False, str(lines))


def rows_of(name: str, source: str) -> list[tuple[str, str | None, str | tuple[str, ...] | None]]:
    """Of each part of the first phase, where its rows come from."""
    parts = [part.rows for part in recipe_file.load(name, corpus=source).train.phases[0].parts]
    return [(rows.source, rows.role, rows.positive or rows.relation) for rows in parts]


STRICT = ("triplets", None, ("alters",))


def test_sentences_are_cut_in_two_or_train_with_themselves_if_they_are_short(
    reviews: str, tmp_path: Path
) -> None:
    assert rows_of("quickstart", reviews) == [("anchors", "domain", "half"), STRICT]
    assert rows_of("gcse", reviews) == [("triplets", None, ())]
    rows = [[f"Heron {i} waits in the water."] for i in range(60)]
    titles = write_csv(tmp_path / "titles.csv", ["title"], rows)
    assert rows_of("quickstart", titles) == [("anchors", "domain", ()), STRICT]


def test_paragraphs_keep_the_methods_of_the_surroundings(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    rows = [{"body": " ".join(LINES[i : i + 3])} for i in range(50)]
    path.write_text("\n".join(map(json.dumps, rows)))
    recipe = recipe_file.load("quickstart", corpus=str(path))
    assert set(SURROUNDINGS) <= set(recipe.synthesise)
    assert recipe.sample.min_context_sentences == 1
    assert rows_of("quickstart", str(path)) == [("pairs", "domain", ("topic",)), STRICT]
    assert set(SURROUNDINGS) & set(recipe_file.load("gcse_rules", corpus=str(path)).synthesise)
    assert (recipe.evaluate.retrieval, recipe.evaluate.halves) == (False, True)


def test_pairs_train_and_measure(tmp_path: Path) -> None:
    rows = [[f"Who is {i}?", line] for i, line in enumerate(LINES)]
    source = write_csv(tmp_path / "faq.csv", ["Question", "Answer"], rows)
    recipe = recipe_file.load("quickstart", corpus=source)
    assert (recipe.corpora[0].query, recipe.corpora[0].answer) == ("Question", "Answer")
    assert recipe.evaluate.retrieval
    assert rows_of("quickstart", source) == [("document_pairs", None, ()), STRICT]
    assert recipe_file.load("gcse", corpus=source).train.choose is not None


PAGE = "# Of herons {0}\n\n{1} {2}\n\n## How heron {0} waits\n\n{2} {1}\n"


def test_a_search_takes_titles_and_headings_where_there_are_any(tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / f"{i}.md").write_text(PAGE.format(i, LINES[i], LINES[i + 1]))
    assert set(recipe_file.load("search", corpus=str(tmp_path)).synthesise) == {"title", "heading"}
    assert rows_of("search", str(tmp_path)) == [("queries", None, ())]
    for file in tmp_path.iterdir():
        file.write_text("\n\n".join(LINES[i] + " " + LINES[i + 1] for i in range(20)))
    assert set(recipe_file.load("search", corpus=str(tmp_path)).synthesise) == set(SURROUNDINGS)
    assert rows_of("search", str(tmp_path)) == [("pairs", "domain", ("topic",))]


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        (["title", "body"], ["queries"]),
        (["question", "answer"], ["document_pairs"]),
        (["title", "question", "answer"], ["queries", "document_pairs"]),
    ],
)
def test_a_search_takes_the_pairs_of_columns(
    header: list[str], rows: list[str], tmp_path: Path
) -> None:
    values = {"title": "Heron {}", "question": "Who is {}?"}
    table = [[values.get(n, line).format(i) for n in header] for i, line in enumerate(LINES)]
    source = write_csv(tmp_path / "faq.csv", header, table)
    recipe = recipe_file.load("search", corpus=source)
    assert [one[0] for one in rows_of("search", source)] == rows
    assert recipe.evaluate.retrieval
    assert compile_steps(resolve(recipe))


def test_what_is_typed_has_the_last_word(reviews: str) -> None:
    # Labels are looked for in the rows that are read.
    assert recipe_file.load("quickstart", corpus=reviews, limit=15).corpora[0].labels is None
    recipe = recipe_file.load("quickstart", corpus=reviews, limit=40)
    assert (recipe.corpora[0].labels, recipe.corpora[0].limit) == ("stars", 40)
    typed = ["sample.min_context_sentences=2", "corpora.0.labels=null", "evaluate.halves=false"]
    recipe = recipe_file.load("quickstart", typed, reviews)
    assert recipe.sample.min_context_sentences == 2
    assert recipe.corpora[0].labels is None
    assert not recipe.evaluate.halves


def test_a_recipe_of_ones_own_is_not_fitted(tmp_path: Path, reviews: str) -> None:
    own = tmp_path / "own.yaml"
    text = recipe_file.find("simcse").read_text(encoding="utf-8").replace("choose", "# choose")
    own.write_text(text, encoding="utf-8")
    recipe, _, chosen, *_ = recipe_file.loaded(str(own), corpus=reviews)
    assert chosen is None
    assert [corpus.labels for corpus in recipe.corpora] == [None]


@pytest.mark.parametrize(
    ("name", "corpus"),
    [
        ("quickstart", "plain.txt"),
        ("defsent_plus_cpu", "dictionary.jsonl"),
        ("gense_cpu", "nli.jsonl"),
    ],
)
def test_a_corpus_may_be_called_as_one_that_stays(tmp_path: Path, name: str, corpus: str) -> None:
    path = tmp_path / corpus
    rows = LINES if path.suffix == ".txt" else [json.dumps({"body": line}) for line in LINES]
    path.write_text("\n".join(rows))
    before = [corpus.name for corpus in recipe_file.load(name).corpora]
    assert path.stem in before
    recipe = recipe_file.load(name, corpus=str(path))
    assert recipe.corpora[0].name == f"{path.stem}_2"


def test_a_corpus_that_is_shipped_keeps_its_measures() -> None:
    recipe = recipe_file.load("quickstart", corpus="pydocs")
    assert (recipe.evaluate.retrieval, recipe.evaluate.halves) == (True, False)


def test_general_corpora_stay_and_a_recipe_that_only_whitens_trains_nothing(reviews: str) -> None:
    general = {"name": "wiki", "source": "wiki.txt", "role": "general", "share": 3}
    own = {"name": "own", "source": "own.txt"}
    base = {"name": "plain", "backbone": "a/model", "corpora": [own, general], "whiten": {}}
    content, _ = fitted(base, describe(reviews))
    assert "train" not in content
    assert [corpus["source"] for corpus in content["corpora"]] == [reviews, "wiki.txt"]
    assert content["whiten"] == {}


def test_rules_leave_a_script_without_spaces_alone(tmp_path: Path) -> None:
    path = tmp_path / "zh.txt"
    path.write_text("".join(f"老木匠在港口修好了第{n}条旧渔船的木板。\n" for n in range(100)))
    content, chosen = recipe_file.loaded("quickstart", corpus=str(path))[1:3]
    assert {method["role"] for method in content["synthesise"].values()} == {"general"}
    assert content["evaluate"]["halves_min_words"] == 8
    assert "English" in (chosen or "")
    assert "English" in (recipe_file.loaded("gcse_rules", corpus=str(path))[2] or "")
