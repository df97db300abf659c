"""Plurals and forms of verbs, in both directions where there are two."""

import pytest

from tercet.models.english.inflection import (
    forms_of,
    is_plural,
    may_be_plural,
    plural,
    singulars,
    tags_of,
)
from tercet.models.knowledge.lexicon import load_lexicon


@pytest.mark.parametrize(
    ("singular", "many"),
    [
        ("dog", "dogs"),
        ("city", "cities"),
        ("box", "boxes"),
        ("woman", "women"),
        ("human", "humans"),
        ("child", "children"),
        ("grandchild", "grandchildren"),
        ("bookshelf", "bookshelves"),
        ("diagnosis", "diagnoses"),
        ("specimen", "specimens"),
        ("talisman", "talismans"),
        ("matrix", "matrices"),
        ("sheep", "sheep"),
        ("glasses", "glasses"),
        ("quiz", "quizzes"),
        ("formula", "formulas"),
        ("news", "news"),
        ("music", "music"),
        ("mapping", "mappings"),
        ("midwife", "midwives"),
        ("NumPy array", "NumPy arrays"),
        ("GPU", "GPUs"),
        ("CITY", "CITIES"),
    ],
)
def test_plural(singular: str, many: str) -> None:
    assert plural(singular) == many


def test_is_plural_goes_by_the_lemma_where_it_is_known() -> None:
    assert is_plural("Dogs", "dog")
    assert not is_plural("dog", "dog")
    assert not is_plural("glass", "glass")
    assert not is_plural("United States", "United States")
    assert is_plural("cities")
    assert not is_plural("bus")


def test_what_is_written_as_a_plural_is_read_as_one() -> None:
    lexicon = load_lexicon()
    known = [noun for noun in lexicon.nouns if noun.isalpha() and lexicon.types_of(noun)]
    nouns = [noun for noun in known if plural(noun) != noun]
    assert len(nouns) > 1000
    assert [noun for noun in nouns if plural(plural(noun)) != plural(noun)] == []
    # "Axes" are of the axis, and no axe's.
    assert [noun for noun in nouns if noun not in singulars(plural(noun))] == ["axe"]


def test_a_plural_that_is_read_is_not_always_written() -> None:
    assert singulars("formulae") == ("formula",)
    assert plural("formulae") == "formulae"
    assert singulars("indices")[0] == "index"
    assert not any(map(may_be_plural, ("dog", "city", "box", "class", "value")))
    assert not any(map(singulars, ("class", "status", "axis", "midwife", "mathematics")))


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("stop", ("stops", "stopping", "stopped", "stopped")),
        ("apply", ("applies", "applying", "applied", "applied")),
        ("write", ("writes", "writing", "wrote", "written")),
        ("go", ("goes", "going", "went", "gone")),
        ("carry out", ("carries out", "carrying out", "carried out", "carried out")),
        ("have", ("has", "having", "had", "had")),
        ("unwrap", ("unwraps", "unwrapping", "unwrapped", "unwrapped")),
        ("overfit", ("overfits", "overfitting", "overfitted", "overfitted")),
        ("mimic", ("mimics", "mimicking", "mimicked", "mimicked")),
        ("beat", ("beats", "beating", "beat", "beaten")),
        ("quit", ("quits", "quitting", "quit", "quit")),
        ("format", ("formats", "formatting", "formatted", "formatted")),
        ("undertake", ("undertakes", "undertaking", "undertook", "undertaken")),
    ],
)
def test_forms_of_verbs(verb: str, forms: tuple[str, ...]) -> None:
    found = forms_of(verb)
    assert (found.third, found.ing, found.past, found.participle) == forms


def test_the_tags_of_a_base() -> None:
    assert {"NN", "VB"} <= tags_of("table")
    assert tags_of("quickly") == {"RB"}
    assert tags_of("qwertyish") == set()
