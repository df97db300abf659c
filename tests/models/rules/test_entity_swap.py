"""An entity swapped for a neighbour in the graph."""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from rules_given import alone, generated

from tercet.models import seeding
from tercet.models.english.words import singulars
from tercet.models.rules.entity_swap import open_graph, surface

ANIMALS = ["dog", "ape", "horse", "elephant", "fox"]


def _graph(
    names: list[str], linked: bool = True, kind: str = "animal"
) -> tuple[pa.Table, list[pa.RecordBatch]]:
    """Entities of one type; each has a soft edge to a hub where they are linked."""
    texts = [*names, "hub"]
    ids = seeding.text_ids(["entity"] * len(texts), [text.casefold() for text in texts]).tolist()
    types = seeding.text_ids(["type"] * 2, [kind, "hubs"]).tolist()
    nodes = pa.table(
        {
            "node_id": pa.array([*ids, *types], pa.uint64()),
            "kind": ["entity"] * len(ids) + ["type"] * 2,
            "text": [*texts, kind, "hubs"],
            "count": pa.array([1] * (len(ids) + 2), pa.int64()),
        }
    )
    edges = [(node, types[0], "hard") for node in ids[:-1]] + [(ids[-1], types[1], "hard")]
    if linked:
        edges += [(node, ids[-1], "soft") for node in ids[:-1]]
        edges += [(ids[-1], node, "soft") for node in ids[:-1]]
    edges.sort()
    table = pa.table(
        {
            "source": pa.array([e[0] for e in edges], pa.uint64()),
            "target": pa.array([e[1] for e in edges], pa.uint64()),
            "kind": [e[2] for e in edges],
            "count": pa.array([1] * len(edges), pa.int64()),
        }
    )
    return nodes, table.to_batches()


def _mentions(rows: pa.Table, words: dict[str, str], kind: str = "animal") -> pa.Table:
    """All mentions of surface forms (to their lemma) in the sentences."""
    found = []
    for sentence_id, text in zip(
        rows["sentence_id"].to_pylist(), rows["text"].to_pylist(), strict=True
    ):
        for form, lemma in words.items():
            start = text.find(form)
            while start >= 0:
                found.append((sentence_id, lemma, form, start, start + len(form)))
                start = text.find(form, start + 1)
    count = len(found)
    places = [f"{f[0]} {f[3]} {f[4]}" for f in found]
    return pa.table(
        {
            "mention_id": pa.array(seeding.text_ids(places), pa.uint64()),
            "node_id": pa.array(
                seeding.text_ids(["entity"] * count, [f[1].casefold() for f in found]), pa.uint64()
            ),
            "sentence_id": pa.array([f[0] for f in found], pa.uint64()),
            "kind": ["entity"] * count,
            "text": [f[2] for f in found],
            "type": [kind] * count,
            "of_mention_id": pa.nulls(count, pa.uint64()),
            "start": pa.array([f[3] for f in found], pa.int32()),
            "end": pa.array([f[4] for f in found], pa.int32()),
        }
    )


def test_entity_swap_changes_the_entity_alone() -> None:
    rows = alone(["We saw an ape there.", "Dogs can bark.", "A horse ran; the horse won."])
    known = _mentions(rows, {"ape": "ape", "Dogs": "dog", "horse": "horse"})
    for linked in (True, False):
        graph = open_graph(*_graph(ANIMALS, linked))
        for seed in range(10):
            found = generated("entity_swap", rows, seed=seed, mentions=known, replacements=graph)
            first, second, third = (row["raw"] for row in found)
            assert first in {"We saw a dog there.", "We saw a horse there."} | {
                "We saw an elephant there.",
                "We saw a fox there.",
            }
            assert second in {f"{n} can bark." for n in ("Apes", "Horses", "Elephants", "Foxes")}
            assert third in {
                "A dog ran; the dog won.",
                "An ape ran; the ape won.",
                "An elephant ran; the elephant won.",
                "A fox ran; the fox won.",
            }
            ids = dict(zip(known["mention_id"].to_pylist(), known["text"].to_pylist(), strict=True))
            for row in found:
                detail = row["detail"]
                assert detail["operation"] == "swap_entity"
                assert detail["pool"] == ("T_p" if linked else "T_r")
                assert ids[detail["mention_id"]] == detail["old"]
                assert detail["old"] in row["source"]
                assert detail["new"] in row["raw"]
                lemma = detail["new"].lower().removesuffix("es" if "Fox" in detail["new"] else "")
                lemma = lemma if lemma in ANIMALS else lemma[:-1]
                assert detail["node_id"] == seeding.text_id("entity", lemma)


def test_entity_swap_prefers_a_name_for_a_name() -> None:
    rows = alone(["We saw Kenya there."])
    known = _mentions(rows, {"Kenya": "Kenya"})
    graph = open_graph(*_graph(["Kenya", "Ghana", "Peru"]))
    assert generated("entity_swap", rows, mentions=known, replacements=graph)[0]["raw"] in (
        "We saw Ghana there.",
        "We saw Peru there.",
    )


NAMES = ["fit_all()", "np.sum()", "np.size", "n_jobs_max", "MAX_LEN", "RandomForest", "GPU"]
NAMES += ["Leeds", "predict_classes", "int8"]
NAMES += ["predict_classes", "int8"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("run_all()", "fit_all()"),
        ("np.mean()", "np.sum()"),
        ("np.shape", "np.size"),
        ("dirs_max", "n_jobs_max"),
        ("MIN_LEN", "MAX_LEN"),
        ("RandomTree", "RandomForest"),
    ],
)
def test_entity_swap_keeps_the_letters_shape(old: str, new: str) -> None:
    rows = alone([f"We saw {old} there."])
    known = _mentions(rows, {old: old}, "identifier")
    graph = open_graph(*_graph([*NAMES, old], True, "identifier"))
    for seed in range(5):
        found = generated("entity_swap", rows, seed=seed, mentions=known, replacements=graph)
        assert [row["detail"]["new"] for row in found] == [new]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Lake Erie", "Lake Como"),
        ("Oxford University", "Leeds University"),
        ("Mary Shelley", "Jane Austen"),
        ("Daft Punk", None),  # no word says what this is
    ],
)
def test_entity_swap_keeps_the_class_of_a_name(old: str, new: str | None) -> None:
    rows = alone([f"We saw {old} there."])
    known = _mentions(rows, {old: old}, "name")
    others = ["Lake Como", "Leeds University", "Jane Austen", "Old Testament", "Deep Purple"]
    graph = open_graph(*_graph([*others, old], True, "name"))
    for seed in range(5):
        found = generated("entity_swap", rows, seed=seed, mentions=known, replacements=graph)
        assert [row["detail"]["new"] for row in found] == ([new] if new else [])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Also fires a new event.", "fires"),
        ("We simplify the expression a bit.", "bit"),
        ("It facilitates the application of the drug.", "application"),
        ("It is a Linear Time Invariant system.", "Time"),
        ("Take log base n here.", "log"),
        ("We cite the blood bank records.", "bank"),
        ("It is on a log scale.", "log"),
        ("He came in time.", "time"),
        ("She plays dog.", "dog"),
        ("It is a dog-based one.", "dog"),
        ("It sees (dog) there.", "dog"),
        ("We saw the Big Dog there.", "Dog"),
        ("They returned after two years.", "years"),
        ("That dogs him.", "dogs"),
        ("To dog the man is bad.", "dog"),
    ],
)
def test_entity_swap_leaves_what_is_no_noun_of_its_own(text: str, word: str) -> None:
    kind = "time" if word in ("years", "time") else "system"
    rows = alone([text])
    known = _mentions(rows, {word: singulars(word)[0] if singulars(word) else word}, kind)
    graph = open_graph(*_graph(["owl", "cow", "dog", word], True, kind))
    for seed in range(5):
        assert generated("entity_swap", rows, seed=seed, mentions=known, replacements=graph) == []


def test_entity_swap_counts_what_can_be_counted() -> None:
    rows = alone(["It needs a tea here.", "It saw these teas here.", "It saw the tea here."])
    known = _mentions(rows, {"teas": "tea", "tea": "tea"})
    graph = open_graph(*_graph(["tea", "coffee"]))
    found = generated("entity_swap", rows, mentions=known, replacements=graph)
    assert [row["raw"] for row in found] == ["It saw the coffee here."]


@pytest.mark.parametrize(
    ("text", "old", "kind", "others"),
    [
        # Of the same type, and of another kind.
        ("It lost its coast there.", "coast", "place", ["county", "island"]),
        ("They came to the temple.", "temple", "building", ["kitchen", "station"]),
        ("She refused the prize.", "prize", "money", ["euro", "fee"]),
        ("We saw the insects there.", "insects", "animal", ["beetle", "bee"]),
        ("It holds the paths there.", "paths", "data", ["value", "list"]),
        ("They live in Kenya now.", "Kenya", "name", ["Dakar", "Jane Austen"]),
        # Identifiers of one shape from other packages.
        ("It calls fit_all() there.", "fit_all()", "identifier", ["as_unit()", "x_j()"]),
        ("It calls np.sum there.", "np.sum", "identifier", ["os.path", "nn.size"]),
        ("It makes a DataFrame here.", "DataFrame", "identifier", ["LogNormal", "FrameOwner"]),
    ],
)
def test_entity_swap_keeps_to_a_narrow_kind(
    text: str, old: str, kind: str, others: list[str]
) -> None:
    rows = alone([text])
    lemma = singulars(old)[0] if old in ("insects", "paths") else old
    known = _mentions(rows, {old: lemma}, kind)
    graph = open_graph(*_graph([*others, lemma], True, kind))
    for seed in range(5):
        assert generated("entity_swap", rows, seed=seed, mentions=known, replacements=graph) == []


def test_entity_swap_where_no_name_has_the_shape() -> None:
    rows = alone(["We saw CPU there."])
    known = _mentions(rows, {"CPU": "CPU"}, "name")

    def swapped(linked: bool) -> list[str]:
        graph = open_graph(*_graph(["CPU", "n_jobs"], linked, "name"))
        found = generated("entity_swap", rows, mentions=known, replacements=graph)
        return [row["raw"] for row in found]

    assert swapped(linked=True) == swapped(linked=False) == []


def test_entity_swap_takes_another_entity_where_no_name_has_the_shape() -> None:
    rows = alone(["The dog saw CPU there."])
    known = pa.concat_tables(
        [_mentions(rows, {"CPU": "CPU"}, "name"), _mentions(rows, {"dog": "dog"})]
    )
    names, ranks = _graph(["CPU", "n_jobs"], False, "name")
    animals, links = _graph(["dog", "ape"], False)
    nodes = pa.concat_tables([names, animals.filter(pc.field("text") != "hub")])
    nodes = nodes.filter(~(pc.field("text") == "hubs"))
    edges = pa.concat_tables([pa.Table.from_batches(ranks), pa.Table.from_batches(links)])
    known_ids = nodes["node_id"]
    edges = edges.filter(pc.is_in(edges["source"], known_ids)).filter(
        pc.is_in(pc.field("target"), known_ids.combine_chunks())
    )
    edges = edges.sort_by([("source", "ascending"), ("target", "ascending")])
    graph = open_graph(nodes, edges.to_batches())
    for seed in range(8):
        found = generated("entity_swap", rows, seed=seed, mentions=known, replacements=graph)
        assert [row["raw"] for row in found] == ["The ape saw CPU there."]


def test_entity_swap_several() -> None:
    rows = alone(["The dog met the ape."])
    known = _mentions(rows, {"dog": "dog", "ape": "ape"})
    graph = open_graph(*_graph(ANIMALS))
    four = generated("entity_swap", rows, {"per_sentence": 4}, mentions=known, replacements=graph)
    assert len({row["raw"] for row in four}) == len(four) == 4
    assert {row["detail"]["old"] for row in four} == {"dog", "ape"}


def test_entity_swap_without_a_replacement() -> None:
    # The only one of its type, and two of which each is said already.
    for text, names in (("The dog sat.", ["dog"]), ("The dog met the ape.", ["dog", "ape"])):
        rows = alone([text, "No entity."])
        known, graph = _mentions(rows, {n: n for n in names}), open_graph(*_graph(names))
        assert generated("entity_swap", rows, mentions=known, replacements=graph) == []
        nobody = known.slice(0, 0)
        assert generated("entity_swap", rows, mentions=nobody, replacements=graph) == []


def test_surface_of_a_replacement() -> None:
    assert surface("Dogs can bark.", 0, 4, "dog", "city") == "Cities"
    assert surface("the dog", 4, 7, "dog", "np.array") == "np.array"
    assert surface("DataFrame here", 0, 9, "DataFrame", "read_csv") == "read_csv"


@pytest.mark.parametrize("kind", ["tool", "name", "a type of one's own"])
def test_an_even_choice_takes_any_entity_of_the_type(kind: str) -> None:
    rows = alone(["We saw an ape there."])
    known = _mentions(rows, {"ape": "ape"}, kind)
    tools = open_graph(*_graph(["ape", "axe", "milk", "np.sum()", "Big Ben"], False, kind))
    given = {"mentions": known, "replacements": tools}
    # The nearest is taken only where it would surely fit.
    nearest = generated("entity_swap", rows, {"one_kind": False}, **given)
    assert {row["detail"]["new"] for row in nearest} <= {"axe"}
    params = {"choice": "uniform", "one_kind": False, "same_case": False}
    seen = Counter(
        generated("entity_swap", rows, params, seed, **given)[0]["detail"]["new"]
        for seed in range(400)
    )
    assert seen.keys() == {"axe", "milk", "np.sum()", "Big Ben"}
    assert min(seen.values()) > 65
