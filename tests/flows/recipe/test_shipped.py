"""Which corpora are the user's own, and how their documents are told from ours."""

import re

from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.shipped import count_apart, shipped_corpora


def test_a_shipped_corpus_is_known_by_its_source_whatever_its_name() -> None:
    quickstart = recipe_file.load("quickstart").model_dump(mode="json")
    assert shipped_corpora(quickstart) == ["plain"]
    corpora = [
        {"name": "plain", "source": "/home/ann/plain_english.txt"},
        {"name": "other", "source": "package:other.recipes/plain_english.txt"},
        {"name": "mine", "source": "package:tercet.recipes/plain_english.txt"},
    ]
    assert shipped_corpora({"corpora": corpora}) == ["mine"]
    assert shipped_corpora({"name": "of another version"}) == []


def test_documents_are_counted_apart_where_both_kinds_are_there() -> None:
    counted = count_apart({"docs": 500, "more": 84, "plain": 1496}, ["plain"])
    assert re.findall(r"\d[\d,]*\d", counted) == ["584", "1,496"]
    assert count_apart({"docs": 584}, ["plain"]) == ""
    assert count_apart({"plain": 1496}, ["plain"]) == ""
    assert count_apart({}, []) == ""
