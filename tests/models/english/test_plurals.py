import pytest

from tercet.models.english.plurals import is_plural, may_be_plural, plural, singulars


@pytest.mark.parametrize(
    ("singular", "many"),
    [
        ("dog", "dogs"),
        ("city", "cities"),
        ("day", "days"),
        ("box", "boxes"),
        ("church", "churches"),
        ("woman", "women"),
        ("fireman", "firemen"),
        ("human", "humans"),
        ("child", "children"),
        ("grandchild", "grandchildren"),
        ("housewife", "housewives"),
        ("bookshelf", "bookshelves"),
        ("diagnosis", "diagnoses"),
        ("epoch", "epochs"),
        ("specimen", "specimens"),
        ("bigfoot", "bigfoots"),
        ("talisman", "talismans"),
        ("matrix", "matrices"),
        ("bus stop", "bus stops"),
        ("sheep", "sheep"),
        ("glasses", "glasses"),
        ("class", "classes"),
        ("virus", "viruses"),
        ("thesis", "theses"),
        ("quiz", "quizzes"),
        ("formula", "formulas"),
        ("news", "news"),
        ("crew", "crews"),
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


@pytest.mark.parametrize(
    "noun",
    ["dog", "city", "hero", "lens", "corpus", "formula", "grandchild", "chairman", "midwife"],
)
def test_what_is_written_as_a_plural_is_read_as_one(noun: str) -> None:
    assert may_be_plural(plural(noun))
    assert noun in singulars(plural(noun))
    assert plural(plural(noun)) == plural(noun)


def test_a_plural_that_is_read_is_not_always_written() -> None:
    assert singulars("formulae") == ("formula",)
    assert plural("formulae") == "formulae"
