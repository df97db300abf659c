import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_given import alone, generated, said, sentences

from tercet.models import seeding
from tercet.models.english.numbers import in_words, numbers_in
from tercet.models.english.plurals import singulars
from tercet.models.generation import Pool
from tercet.models.rules import quantity_change
from tercet.models.rules.entity_swap import open_graph, surface
from tercet.models.rules.quantity_change import changed


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("The box holds 3 apples.", "The box holds {} apples."),
        ("It costs 1,000 dollars.", "It costs {},000 dollars."),
        ("It takes 0.05 seconds.", "It takes 0.0{} seconds."),
        ("She bought twenty-five horses.", "She bought {} horses."),
        ("Two hundred dogs ran.", "{} hundred dogs ran."),
        ("It has 2.5 million dogs.", "It has {} million dogs."),
        ("Two of the dogs sleep.", "{} of the dogs sleep."),
        ("The sum is 1.", "The sum is {}."),
        ("It was -5 degrees.", "It was -{} degrees."),
        ("It has one input array.", "It has {} input arrays."),
        ("Two thirds of the dogs sleep.", "{} of the dogs sleep."),
    ],
)
def test_quantity_change_keeps_the_form(text: str, pattern: str) -> None:
    before, _, after = pattern.partition("{}")
    seen = set()
    for seed in range(20):
        rows = generated("quantity_change", alone([text]), seed=seed)
        assert len(rows) == 1
        raw = rows[0]["raw"]
        assert raw.startswith(before)
        assert raw.endswith(after)
        assert raw != text
        old, new = numbers_in(text)[0], numbers_in(raw)[0]
        assert new.form == old.form
        assert new.value not in (old.value, 1)
        assert rows[0]["detail"]["old"] in text
        assert rows[0]["detail"]["new"] in raw
        seen.add(raw)
    assert len(seen) > 1


@pytest.mark.parametrize(
    "text",
    [
        "One of the dogs sleeps.",
        "It needs one or more dogs.",
        "It needs at least one dog.",
        "It needs at most one dog.",
        "It is either one of the dogs.",
        "It is either ten of the dogs.",
        "It was two of the best years.",
        "It returns 0 if the list is empty.",
        "Return 1 for a dog.",
        "The shape is (n, 1).",
        "All values are between 0 and 1.",
        "The labels are 0, 1.",
        "It makes a 2-D array.",
        "It computes exp(x) - 1 of the array.",
        "It is x - 1 of the array.",
        "It is 2 * x of the array.",
        "It holds where n > 5.",
        # What "one" or "two" is not, what a verb agrees with, what stands in a pair or a list.
        "There is one dog here.",
        "One dog is asleep.",
        "It's one tough dog.",
        "Add one array to another.",
        "It gives the difference of two arrays.",
        "It lies between two walls.",
        "The two are equal.",
        "It was seen in 28 out of 36 cases.",
        "They came at 10, 20, 30 and 40 minutes.",
        "It was seen in 5 dogs, and 5 dogs died.",
        "It follows ISO 8601 here.",
        "An hour-and-a-half of noise.",
        "The risk is lower (OR 0.93, 95% CI 0.61-1.47).",
        "It turns `1` into a list.",
        # Parts of a term, labels and codes.
        "It opens a two-way channel.",
        "The nine-point circle is here.",
        "It penalizes 2-grams in dogs.",
        "Section 4.3 tells of dogs.",
        "It is used for case 2, not for dogs.",
        "If the error has a 412 status code, stop.",
        "DTA 118 and 119 format files hold dogs.",
        "It is a 3 x N array of dogs.",
        "It holds the paper (§2).",
        # What the sentence spells out, or has told before.
        "It compares two dogs, a and b.",
        "Given two polynomials a1 and a2, it adds them.",
        "Four methods are missing: initialize, update, dot and get_matrix.",
        "Two dogs sleep, the other runs.",
        "The smaller of the two churches is open.",
        "Those two dogs are asleep.",
        "It took some hours and twenty minutes.",
        "It has three dogs, Rex, Fido and Bello.",
        "It leaves two columns, 'variable' and 'value'.",
        "Half of the dogs sleep.",
        "Thirty-one of the forty wells sleep.",
        "The pair half of the conditioning.",
        "The three values are the name, a list of dogs and a list of cats.",
        "If it has fewer than two dogs, it becomes 2-D.",
        "All two dogs are asleep.",
        "Any dog whose two neighbours bark.",
        "It reads 16B-wide dogs.",
    ],
)
def test_quantity_change_leaves_what_is_no_statement(text: str) -> None:
    assert all(generated("quantity_change", alone([text]), seed=seed) == [] for seed in range(5))


@pytest.mark.parametrize("text", ["She has 1 grandchild.", "She has one grandchild."])
def test_quantity_change_knows_where_its_noun_ends(text: str) -> None:
    assert generated("quantity_change", alone([text])) == []


def test_quantity_change_without_a_quantity() -> None:
    assert generated("quantity_change", alone(["The dog sleeps."])) == []


def test_quantity_change_puts_the_article_right() -> None:
    texts = {generated("quantity_change", alone(["An 8 dog team."]), seed=s)[0]["raw"]
             for s in range(20)}  # fmt: skip
    assert {text.split()[0] for text in texts} == {"A"}


def test_quantity_change_keeps_years_near_and_ranges_rising() -> None:
    for seed in range(20):
        year = generated("quantity_change", alone(["He was born in 1987."]), seed=seed)[0]["raw"]
        assert 1927 <= int(year[-5:-1]) <= 2026
        raw = generated("quantity_change", alone(["They saw 10-20 dogs."]), seed=seed)[0]["raw"]
        low, high = (number.value for number in numbers_in(raw))
        assert low < high


DRAWS = st.lists(st.integers(0, 2**64 - 1), min_size=8, max_size=8)
NUMBERS = st.one_of(
    st.integers(0, 10**12).map(str),
    st.integers(0, 10**9).map("{:,}".format),
    st.tuples(st.integers(0, 9999), st.integers(0, 999)).map(lambda p: f"{p[0]}.{p[1]}"),
    st.integers(0, 10**6).map(in_words),
    st.tuples(st.integers(0, 40), st.integers(1, 40)).map(lambda p: f"{p[0]}/{p[1]}"),
)


@settings(max_examples=300)
@given(NUMBERS, DRAWS)
def test_quantity_change_always_changes_the_value(said_number: str, draws: list[int]) -> None:
    text = f"They saw {said_number} dogs."
    change = changed(text, said_number, 9, None, draws)
    if change is not None:
        raw, old, new = change
        assert raw == text.replace(old, new, 1)
        before, after = numbers_in(text), numbers_in(raw)
        assert len(after) == len(before) == 1
        assert after[0].value != before[0].value


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The large dog sleeps.", "The small dog sleeps."),
        ("It increased before noon.", "It increased after noon."),
        ("It increases the price.", "It decreases the price."),
        ("The risk was increased in dogs.", "The risk was decreased in dogs."),
        ("He left the firm.", None),
        ("He is on the left side.", None),
        ("The Open University", None),
        ("It reads the input.", "It reads the output."),
        ("It calls input_array, my_input, input.size, a/input and input2.", None),
        ("It calls input-like, `input`, input(), input=3 and x=input.", None),
        ("It is visible here.", "It is invisible here."),
        ("It is dependent on the caller.", None),
        ("The simple method.", "The complicated method."),
        ("It is valid as follows.", "It is invalid as follows."),
        ("It has at least ten.", "It has at most ten."),
        ("It needs at least ten.", None),
        ("The largest part of those given.", None),
        ("You can check the entry and raise it.", None),
        ("They sort them in send order.", None),
        ("They accept the files.", "They reject the files."),
        ("They can accept the files.", None),
        ("They can send the files to the dog.", None),
        ("These aren't caught by the loop.", None),
        ("It takes one or more names.", None),
        ("It was first published there.", None),
        ("It will never again be seen.", None),
        ("He was named after his dog.", None),
        ("The above example is here.", None),
        ("The dog of the former president.", None),
        ("Start at the beginning and stop at the end.", None),
        ("It is required to stop.", None),
        ("It will import the file.", None),
        ("They keep the peace with Austria.", None),
        ("There are two national parks.", None),
        ("They range from small boats to ships.", None),
        ("It started to rain.", None),
        ("Usually the shop is there.", None),
    ],
)
def test_antonym(text: str, wanted: str | None) -> None:
    found = {row["raw"] for s in range(12) for row in generated("antonym", alone([text]), seed=s)}
    assert (wanted in found) if wanted else not found


@pytest.mark.parametrize(
    "text",
    [
        "Lisbon's oldest café opened in 1782 and still serves coffee.",
        "If the pressure falls below two bars, the pump shuts itself off.",
        "He returned from Siberia after nine years.",
        "It fell for the third month in a row.",
        "It takes a large dog instead of a cat.",
        "It takes the minimum, i.e. the least of all.",
        "They adapt it in order to be visible.",
        "It must be found successfully.",
        "Her letters reached his wife.",
        "A maximal dog maximally barks.",
        "Is it a large house?",
        "Decide whether the house is large.",
        "Never sleep here, always sleep there.",
        "The upper house passed the bill and the senate did not.",
    ],
)
def test_antonym_leaves_what_the_rest_would_contradict(text: str) -> None:
    assert all(generated("antonym", alone([text]), seed=seed) == [] for seed in range(12))


def test_antonym_changes_one_word() -> None:
    rows = generated("antonym", alone(["The first large door was open."]), {"per_sentence": 5})
    assert len(rows) > 1
    for row in rows:
        old, new = row["source"].split(), row["raw"].split()
        assert len(old) == len(new)
        assert sum(a != b for a, b in zip(old, new, strict=True)) == 1
        assert row["detail"]["operation"] == "exchange_antonym"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Returns the array.", "Does not return the array."),
        ("Return the array.", "Do not return the array."),
        ("It does not return the array.", "It returns the array."),
        ("They do not use it.", "They use it."),
        ("Do not use it.", "Use it."),
        ("He did not go home.", "He went home."),
        ("It cannot fail.", "It can fail."),
        ("It isn't empty.", "It is empty."),
        ("It won’t fail.", "It will fail."),
        ("He never slept.", "He slept."),
        ("A house without walls.", "A house with walls."),
        ("It works without using memory.", None),
        ("A man with a dog.", None),
        ("It may rain.", None),
        ("It may not rain.", None),
        ("It tells whether the file is open.", None),
        ("It checks if the file is open.", None),
        ("If the file is open, it fails.", "If the file is not open, it fails."),
        ("Before matches were invented, fire was kept.", None),
        ("Little is known of it.", None),
        ("It is not known except here.", None),
        ("It is open or not.", None),
        ("Not a house was sold.", None),
        ("He never used a nail, only glue.", None),
        ("The wheat is sown, sleeps in snow.", None),
        ("Checks whether the file is not open.", None),
        ("It tests if the list is not empty.", None),
        ("It mightn't rain.", None),
        ("It may never be used.", None),
        ("It may be not used.", None),
        ("The bell is rung several times.", None),
        ("There are a number of ways.", None),
        (
            "The road is longer when the bridge was closed.",
            "The road is not longer when the bridge was closed.",
        ),
        ("When he was king, the city stood.", None),
        ("The flag was set and is here.", None),
        ("It was here and later it burned.", None),
        ("The wall has sunk so far that it leans.", None),
        ("Boar were back, where they dig.", None),
        ("It is next used here.", None),
        ("It has a dog.", "It does not have a dog."),
        ("He became king.", "He did not become king."),
        ("The function returns a list.", "The function does not return a list."),
        ("The dog.", None),
        ("See the guide.", None),
        ("Refer to the guide.", None),
        ("Log of the input.", None),
        ("List of tensors.", None),
        ("Lists of tensors.", None),
        ("List the tensors.", "Do not list the tensors."),
        ("Will May come?", None),
        ("Is the dog here and is it asleep?", None),
        ("Mean pressure and loss.", None),
        ("Log scale and plot size.", None),
        ("It does n't aim for our sympathy.", None),
        ("A beautifully made nature film.", None),
        ("It does not have any dogs.", None),
        ("It speaks not a word of English.", None),
        ("A house without any walls.", None),
        ("Nobody is here.", None),
        ("It is also here.", None),
        ("As can be seen there.", None),
        ("It complies with the rule.", None),
        ("There can be no other reason.", None),
        ("The men who received the drug.", "The men who did not receive the drug."),
        ("So late was the train that we walked.", None),
        ("So far the train was late.", "So far the train wasn't late."),
        ("The train was so late that we walked.", None),
        ("The train was late, so we walked.", None),
        ("The train was late because of the snow.", None),
        ("The bread is cut and sold.", None),
        ("The bread is cut and butter is near.", "The bread is not cut and butter is near."),
        ("It was not late, but we walked.", None),
        ("Any of the dogs can swim.", None),
        ("Many of the dogs can swim.", None),
        ("The dogs can swim with all of them.", "The dogs cannot swim with all of them."),
        ("Fewer boats were lost than in May.", None),
        ("More boats were lost than in May.", "More boats were not lost than in May."),
        ("It is a ratio, and so has no unit.", None),
        ("It will read the rows and will sort them.", None),
        ("It will read the rows and the columns.", "It will not read the rows and the columns."),
        # A sentence that denies already is denied no second time.
        ("He did not have any money.", None),
        ("She didn't know anybody.", None),
        ("The ship had not yet left the port.", None),
        # "Has" before its verb, at a distance, and "has" that is the verb.
        ("She has always loved music.", None),
        ("They have all left.", None),
        ("The price has more than doubled.", None),
        ("You had better go home.", None),
        ("He has beaten them.", "He has not beaten them."),
        ("It has more dogs than cats.", "It does not have more dogs than cats."),
        ("It has about 300 dogs.", "It does not have about 300 dogs."),
        # "Did" that is the verb, and "did" that stresses another.
        ("They did well.", "They did not do well."),
        ("They did their homework.", "They did not do their homework."),
        ("He did like the film.", "He did not like the film."),
        ("It does return a list.", "It does not return a list."),
        ("He did not like the film.", "He liked the film."),
        ("It has up to six dogs.", "It does not have up to six dogs."),
        ("It has very long legs.", "It does not have very long legs."),
        ("It has daily flights.", "It does not have daily flights."),
        ("The film has a crew and cast.", "The film does not have a crew and cast."),
        ("She does yoga.", None),
        # What stands behind "did not" is no verb.
        ("She did not often visit her aunt.", None),
        ("I did not either.", None),
        ("The dog did not bite.", "The dog bit."),
        ("It does not apply to us.", "It applies to us."),
        ("Never had she seen it.", None),
        ("Never sleep here.", "Sleep here."),
        ("The trash can is full.", "The trash can is not full."),
        ("The king's will was read.", "The king's will was not read."),
    ],
)
def test_negation(text: str, wanted: str | None) -> None:
    assert said("negation", text) == ([] if wanted is None else [wanted])


def test_negation_behind_an_auxiliary() -> None:
    def found(text: str) -> set[str]:
        return {generated("negation", alone([text]), seed=s)[0]["raw"] for s in range(40)}

    assert found("The dog is here.") == {"The dog is not here.", "The dog isn't here."}
    assert found("It can be zero.") == {"It cannot be zero.", "It can't be zero."}
    assert found("It must stop.") == {"It must not stop."}


def test_negation_says_what_it_did() -> None:
    rows = generated("negation", alone(["It is not here.", "It is here."]))
    assert [row["detail"]["operation"] for row in rows] == ["remove_negation", "insert_negation"]
    assert rows[0]["detail"] | {"operation": ""} == {
        **dict.fromkeys(("mention_id", "node_id", "pool")),
        "operation": "",
        "old": "not",
        "new": "",
    }
    two = said("negation", "It is here if it was there.", per_sentence=3)
    assert len(set(two)) == len(two) == 2


def _pool(rows: pa.Table) -> Pool:
    ids = rows["sentence_id"].to_numpy()
    texts = dict(zip(ids.tolist(), rows["text"].to_pylist(), strict=True))
    order = np.argsort(seeding.mix(ids))
    return Pool(
        seeding.mix(ids)[order],
        ids[order],
        rows["doc_id"].to_numpy()[order],
        lambda wanted: [texts[i] for i in wanted.tolist()],
    )


def test_random_comes_from_another_document() -> None:
    rows = sentences([[[f"d{d} s{s}" for s in range(5)]] for d in range(6)])
    found = generated("random", rows, pool=_pool(rows))
    assert len(found) == 30
    assert all(row["raw"].split()[0] != row["source"].split()[0] for row in found)
    assert len({row["raw"] for row in found}) > 10


def test_random_where_one_document_is_nearly_all() -> None:
    rows = sentences([[[f"big {s}" for s in range(50)]], [["other"]]])
    found = {row["source"]: row["raw"] for row in generated("random", rows, pool=_pool(rows))}
    assert {found[f"big {s}"] for s in range(50)} == {"other"}
    assert found["other"].startswith("big")
    lonely = sentences([[["a", "b"]]])
    assert generated("random", lonely, pool=_pool(lonely)) == []


def test_random_moves_little_when_the_pool_grows() -> None:
    rows = sentences([[[f"d{d}"]] for d in range(300)])
    before = {row["source"]: row["raw"] for row in generated("random", rows, pool=_pool(rows))}
    more = sentences([[[f"d{d}"]] for d in range(303)])
    after = {row["source"]: row["raw"] for row in generated("random", rows, pool=_pool(more))}
    moved = [source for source in before if before[source] != after[source]]
    assert all(after[source] in ("d300", "d301", "d302") for source in moved)
    assert len(moved) < 20


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


NAMES = [
    "fit_all()",
    "np.sum()",
    "np.size",
    "n_jobs_max",
    "MAX_LEN",
    "RandomForest",
    "GPU",
    "Leeds",
    "predict_classes",
    "int8",
]


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


def test_entity_swap_never_says_what_the_sentence_has() -> None:
    rows = alone(["The dog met the ape."])
    known = _mentions(rows, {"dog": "dog", "ape": "ape"})
    graph = open_graph(*_graph(["dog", "ape"]))
    assert generated("entity_swap", rows, mentions=known, replacements=graph) == []


def test_entity_swap_several() -> None:
    rows = alone(["The dog met the ape."])
    known = _mentions(rows, {"dog": "dog", "ape": "ape"})
    graph = open_graph(*_graph(ANIMALS))
    both = generated("entity_swap", rows, {"n_swaps": 2}, mentions=known, replacements=graph)
    old, new = (both[0]["detail"][key].split("; ") for key in ("old", "new"))
    assert old == ["dog", "ape"]
    assert both[0]["raw"] == f"The {new[0]} met the {new[1]}."
    four = generated("entity_swap", rows, {"per_sentence": 4}, mentions=known, replacements=graph)
    assert len({row["raw"] for row in four}) == len(four) == 4
    assert {row["detail"]["old"] for row in four} == {"dog", "ape"}


def test_entity_swap_without_a_graph_neighbour() -> None:
    rows = alone(["The dog sat.", "No entity."])
    known = _mentions(rows, {"dog": "dog"})
    graph = open_graph(*_graph(["dog"]))
    assert generated("entity_swap", rows, mentions=known, replacements=graph) == []
    nobody = known.slice(0, 0)
    assert generated("entity_swap", rows, mentions=nobody, replacements=graph) == []


def test_surface_of_a_replacement() -> None:
    assert surface("Dogs can bark.", 0, 4, "dog", "city") == "Cities"
    assert surface("the dog", 4, 7, "dog", "np.array") == "np.array"
    assert surface("DataFrame here", 0, 9, "DataFrame", "read_csv") == "read_csv"


def test_numbers_in_words_of_any_make_end_in_another_or_in_none() -> None:
    words = ["a", "one", "seven", "twelve", "twenty", "forty", "hundred", "thousand", "million"]
    for parts in itertools.product(words, repeat=3):
        for between in (" ", "-", " and ", "-and-"):
            for number in numbers_in(between.join(parts)):
                new = quantity_change._other_words(number, 5)
                assert new is None or numbers_in(new)
