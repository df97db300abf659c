"""An entity swapped for a neighbour in the graph."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from prompted_given import graph, marked, mention, node

from tercet.models.english.inflection import singulars
from tercet.models.rules.entity_swap import Entities, open_graph, stands_in, surface
from tercet.tasks.synthesis.methods import method_of

ANIMALS = ["dog", "ape", "horse", "elephant", "fox"]


def of_type(kind: str, *names: str, linked: bool = True) -> Entities:
    """Entities of one type, each beside a hub where they are linked."""
    return graph(*({name: kind} | ({"hub": "hubs"} if linked else {}) for name in names))


def swapped(
    text: str, entities: Entities, seed: int = 7, language: str | None = None, **params: Any
) -> list[dict[str, Any]]:
    """What the method makes of a marked sentence."""
    method = method_of("entity_swap")
    given = replace(marked([text]), replacements=entities, language=language)
    return method.generate(given, method.params(**params), seed).to_pylist()


def news(text: str, entities: Entities) -> Iterator[Sequence[str]]:
    """What each of some seeds puts in the place of an entity."""
    for seed in range(5):
        yield [row["detail"]["new"] for row in swapped(text, entities, seed)]


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("We saw an [ape=ape:animal] there.", "a dog|a horse|an elephant|a fox"),
        ("[Dogs=dog:animal] can bark.", "Apes|Horses|Elephants|Foxes"),
        (
            "A [horse=horse:animal] ran; the [horse=horse:animal] won.",
            "A dog ran; the dog|An ape ran; the ape|An elephant ran; the elephant"
            "|A fox ran; the fox",
        ),
    ],
)
def test_entity_swap_changes_the_entity_alone(text: str, results: str, linked: bool) -> None:
    source = marked([text]).texts()[0]
    texts = {
        source.replace(old, new)
        for old in ("an ape", "Dogs", "A horse ran; the horse")
        for new in results.split("|")
        if old in source
    }
    for seed in range(10):
        (row,) = swapped(text, of_type("animal", *ANIMALS, linked=linked), seed)
        detail = row["detail"]
        assert row["raw"] in texts
        assert (detail["operation"], detail["pool"]) == ("swap_entity", "T_p" if linked else "T_r")
        starts = [at for at in range(len(source)) if source.startswith(detail["old"], at)]
        assert detail["mention_id"] in [mention(source, at) for at in starts]
        assert detail["new"] in row["raw"]
        assert detail["node_id"] in [
            node(lemma) for lemma in (detail["new"], *singulars(detail["new"].lower()))
        ]


def test_entity_swap_prefers_a_name_for_a_name() -> None:
    (row,) = swapped("We saw [Kenya=Kenya:animal] there.", of_type("animal", "Kenya", "Ghana"))
    assert row["raw"] == "We saw Ghana there."


NAMES = ["fit_all()", "np.sum()", "np.size", "n_jobs_max", "MAX_LEN", "RandomForest", "GPU"]
NAMES += ["Leeds", "predict_classes", "int8"]
CLASSES = ["Lake Como", "Leeds University", "Jane Austen", "Old Testament", "Deep Purple"]


@pytest.mark.parametrize(
    ("kind", "others", "old", "new"),
    [
        # Its letters keep their shape.
        ("identifier", NAMES, "run_all()", "fit_all()"),
        ("identifier", NAMES, "np.mean()", "np.sum()"),
        ("identifier", NAMES, "np.shape", "np.size"),
        ("identifier", NAMES, "dirs_max", "n_jobs_max"),
        ("identifier", NAMES, "MIN_LEN", "MAX_LEN"),
        ("identifier", NAMES, "RandomTree", "RandomForest"),
        # A name stays of its class.
        ("name", CLASSES, "Lake Erie", "Lake Como"),
        ("name", CLASSES, "Oxford University", "Leeds University"),
        ("name", CLASSES, "Mary Shelley", "Jane Austen"),
        ("name", CLASSES, "Daft Punk", None),  # no word says what this is
        ("name", ["n_jobs"], "CPU", None),
    ],
)
def test_entity_swap_keeps_the_shape_and_class_of_a_name(
    kind: str, others: list[str], old: str, new: str | None
) -> None:
    text = f"We saw [{old}={old}:{kind}] there."
    for found in news(text, of_type(kind, *others, old)):
        assert found == ([new] if new else [])


@pytest.mark.parametrize(
    "text",
    [
        "Also [fires=fire:system] a new event.",
        "We simplify the expression a [bit=bit:system].",
        "It facilitates the [application=application:system] of the drug.",
        "It is a Linear [Time=Time:system] Invariant system.",
        *("Take [log=log:system] base n here.", "He came in [time=time:time]."),
        *("She plays [dog=dog:system].", "It is a [dog=dog:system]-based one."),
        *("We saw the Big [Dog=Dog:system] there.", "They returned after two [years=year:time]."),
        *("That [dogs=dog:system] him.", "We cite the blood [bank=bank:system] records."),
        "To [dog=dog:system] the man is bad.",
    ],
)
def test_entity_swap_leaves_what_is_no_noun_of_its_own(text: str) -> None:
    _, _, rest = text.partition("=")
    lemma, _, rest = rest.partition(":")
    kind = rest[: rest.index("]")]
    assert [*news(text, of_type(kind, "owl", "cow", "dog", lemma))] == [[]] * 5


def test_entity_swap_counts_what_can_be_counted() -> None:
    drinks = of_type("animal", "tea", "coffee")
    assert swapped("It needs a [tea=tea:animal] here.", drinks) == []
    assert swapped("It saw these [teas=tea:animal] here.", drinks) == []
    (row,) = swapped("It saw the [tea=tea:animal] here.", drinks)
    assert row["raw"] == "It saw the coffee here."


@pytest.mark.parametrize(
    ("text", "others"),
    [
        # Of the same type, and of another kind.
        ("It lost its [coast=coast:place] there.", ["county", "island"]),
        ("She refused the [prize=prize:money].", ["euro", "fee"]),
        ("We saw the [insects=insect:animal] there.", ["beetle", "bee"]),
        ("It holds the [paths=path:data] there.", ["value", "list"]),
        ("They live in [Kenya=Kenya:name] now.", ["Dakar", "Jane Austen"]),
        # Identifiers of one shape from other packages.
        ("It calls [np.sum=np.sum:identifier] there.", ["os.path", "nn.size"]),
        ("It makes a [DataFrame=DataFrame:identifier] here.", ["LogNormal", "FrameOwner"]),
    ],
)
def test_entity_swap_keeps_to_a_narrow_kind(text: str, others: list[str]) -> None:
    lemma, kind = text[text.index("=") + 1 : text.index("]")].split(":")
    assert [*news(text, of_type(kind, *others, lemma))] == [[]] * 5


def test_entity_swap_takes_another_entity_where_no_name_has_the_shape() -> None:
    known = graph({"CPU": "name"}, {"n_jobs": "name"}, {"dog": "animal"}, {"ape": "animal"})
    text = "The [dog=dog:animal] saw [CPU=CPU:name] there."
    assert [*news(text, known)] == [["ape"]] * 5


def test_entity_swap_several() -> None:
    text = "The [dog=dog:animal] met the [ape=ape:animal]."
    four = swapped(text, of_type("animal", *ANIMALS), per_sentence=4)
    assert len({row["raw"] for row in four}) == len(four) == 4
    assert {row["detail"]["old"] for row in four} == {"dog", "ape"}
    # What the sentence says already is no replacement.
    assert swapped(text, of_type("animal", "dog", "ape")) == []
    assert swapped("No entity.", of_type("animal", *ANIMALS)) == []


def test_surface_of_a_replacement() -> None:
    assert surface("Dogs can bark.", 0, 4, "dog", "city") == "Cities"
    assert surface("the dog", 4, 7, "dog", "np.array") == "np.array"


@pytest.mark.parametrize("kind", ["tool", "name", "a type of one's own"])
def test_an_even_choice_takes_any_entity_of_the_type(kind: str) -> None:
    text = f"We saw an [ape=ape:{kind}] there."
    tools = of_type(kind, "ape", "axe", "milk", "np.sum()", "Big Ben", linked=False)
    # The nearest is taken only where it would surely fit.
    nearest = swapped(text, tools, one_kind=False)
    assert {row["detail"]["new"] for row in nearest} <= {"axe"}
    params = {"choice": "uniform", "one_kind": False, "same_case": False}
    seen = Counter(swapped(text, tools, seed, **params)[0]["detail"]["new"] for seed in range(400))
    assert seen.keys() == {"axe", "milk", "np.sum()", "Big Ben"}
    assert min(seen.values()) > 65


PLACES = ["Lyon", "Nantes", "Amiens", "Épinal", "Hyères", "UE", "le Caire"]
FRENCH = graph(*({name: "LOC"} for name in PLACES), {"Anne": "PER"}, {"Marc": "PER"})


@pytest.mark.parametrize(
    ("text", "news"),
    [
        ("Il vit à [Lyon=lyon:LOC].", {"Nantes"}),
        ("Le maire d'[Amiens=amiens:LOC] a souri.", {"Épinal"}),
        ("Le lac que l'[UE=ue:LOC] protège.", set()),  # capitals for capitals
        ("Il a [Lyon=lyon:LOC] pour horizon.", {"Nantes"}),  # "a" is no article
        ("Selon [Anne=anne:PER], il ment.", set()),  # the only other of its type has a consonant
        ("[Lyon=lyon:LOC] dort ; qui aime [Lyon=lyon:LOC] ?", {"Nantes"}),
        ("Le train [Lyon=lyon:LOC]-Brest part.", set()),
    ],
)
def test_a_name_of_a_pipeline_gives_way_to_one_of_its_type_and_letters(
    text: str, news: set[str]
) -> None:
    rows = [row for seed in range(5) for row in swapped(text, FRENCH, seed, "fr")]
    assert {row["detail"]["new"] for row in rows} == news
    old = marked([text]).texts()[0]
    for row in rows:
        assert row["raw"] == old.replace(row["detail"]["old"], row["detail"]["new"])


def test_only_where_words_are_elided_the_first_letter_counts() -> None:
    (row,) = swapped("Mit [Anne=anne:PER] kam er.", FRENCH, language="de")
    assert row["raw"] == "Mit Marc kam er."


@pytest.mark.parametrize(
    ("new", "old", "language", "fits"),
    [
        ("Club", "The League", "en", False),
        ("The Club", "The League", "en", True),
        ("Le Caire", "Lyon", "fr", False),
        ("La Haye", "Le Caire", "fr", True),
        ("Die", "Lyon", "fr", True),
    ],
)
def test_an_article_gives_way_to_an_article(new: str, old: str, language: str, fits: bool) -> None:
    assert stands_in(new, old, language) == fits


def test_a_node_is_of_the_type_that_most_of_its_mentions_have() -> None:
    nodes = [("entity", "Lyon"), ("entity", "Anne"), ("type", "LOC"), ("type", "PER")]
    lyon, anne, place, person = (node(text, kind) for kind, text in nodes)
    edges = {(lyon, place): 3, (lyon, person): 1, (anne, person): 2, (lyon, anne): 9}
    known = open_graph(
        pa.table(
            {
                "node_id": pa.array([lyon, anne, place, person], pa.uint64()),
                "kind": [kind for kind, _ in nodes],
                "text": [text for _, text in nodes],
                "count": pa.array([1] * 4, pa.int64()),
            }
        ),
        pa.table(
            {
                "source": pa.array([source for source, _ in edges], pa.uint64()),
                "target": pa.array([target for _, target in edges], pa.uint64()),
                "kind": ["hard", "hard", "hard", "soft"],
                "count": pa.array(list(edges.values()), pa.int64()),
            }
        ).to_batches(),
    )
    assert known.types == {lyon: "LOC", anne: "PER"}
    assert swapped("Mit [Anne=anne:PER] kam er.", known, language="de") == []
