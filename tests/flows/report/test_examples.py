"""Whose texts a report shows as examples."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from report_sections import flat, of
from report_store import made as made_rows
from report_store import write_run

from tercet.flows.pages.blocks import Items, Tabs
from tercet.flows.report import examples
from tercet.flows.results.subject import Subject, open_runs
from tercet.storage.store import open_store

OWN = {f"Sentence {number} of the corpus." for number in (6, 7, 12, 13)}


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[tuple[Subject, ...]]:
    """A run whose 30 sentences come with Tercet but for four of the user's, and a parse reject."""
    tables = made_rows()
    for row in tables["sentences"]:
        row["corpus"] = "docs" if row["text"] in OWN else "plain"
    last = {"stage": "parse", "reason": "empty"}
    tables["rejects"] += [
        {**last, "row_id": row["generation_id"]}
        for row in tables["generations"]
        if row["method"] != "random"
    ]
    tables["documents"] += [{"doc_id": 2, "corpus": "plain", "split": "train"}] * 2
    tables["documents"][0]["corpus"] = "docs"
    shipped = {"name": "plain", "source": "package:tercet.recipes/plain_english.txt"}
    recipe = {"corpora": [{"name": "docs", "source": "docs"}, shipped]}
    run = write_run(tmp_path / "store", tables, recipe=recipe)
    with open_runs(open_store(str(tmp_path / "store"), create=False), [run]) as subjects:
        yield subjects


def test_examples_begin_with_the_users_own(mixed: tuple[Subject, ...]) -> None:
    (tabs,) = of(examples.examples(mixed), Tabs)
    for panel in tabs.panels:
        taken, refused = (block for block in flat(panel.blocks) if isinstance(block, Items))
        # Of the user's, the sixth and the twelfth are in triplets.
        assert {item.above for item in taken.items[:2]} == OWN - {
            "Sentence 7 of the corpus.",
            "Sentence 13 of the corpus.",
        }
        assert len(taken.items) == 4
        # Two a reason, of those refused by `select` and of those that `parse` could not use.
        above = [item.above for item in refused.items]
        assert len(above) == 4
        assert set(above) <= OWN
