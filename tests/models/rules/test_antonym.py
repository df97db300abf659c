"""Where an antonym would contradict the rest, say the same, or make no sense, and where it does."""

import pytest
from rules_given import alone, generated


def opposites(text: str) -> set[str]:
    """All that the rule makes of a sentence."""
    rows = alone([text])
    found = (generated("antonym", rows, {"per_sentence": 9}, seed=seed) for seed in range(12))
    return {row["raw"] for each in found for row in each}


@pytest.mark.parametrize(
    ("refused", "near", "wanted"),
    [
        pytest.param(
            "The barn was sold to a neighbour.",
            "The barn was opened on a Sunday.",
            "The barn was closed on a Sunday.",
            id="converse verbs tell of one deed",
        ),
        pytest.param(
            "The cart was sent back because it came after noon.",
            "The cart was sent back after noon.",
            "The cart was sent back before noon.",
            id="a reason, even for what bears other explanations",
        ),
        pytest.param(
            "They ate the ices before they melted.",
            "They ate the ices before lunch.",
            "They ate the ices after lunch.",
            id="a deed that rests on another",
        ),
        pytest.param(
            "It is the total after weighing the bags.",
            "It is the total after the tax.",
            "It is the total before the tax.",
            id="what a deed leaves",
        ),
        pytest.param(
            "A single dry year was enough to ruin them.",
            "A single dry year followed.",
            "A single wet year followed.",
            id="enough to do what its opposite would not",
        ),
        pytest.param(
            "It starts by reading the files.",
            "It starts at noon.",
            "It stops at noon.",
            id="a beginning that is a manner",
        ),
        pytest.param(
            "They made the usual soup.",
            "They made the unusual soup.",
            "They made the usual soup.",
            id="the unusual one is not known beforehand",
        ),
        pytest.param(
            "It runs the necessary checks.",
            "It runs the valid checks.",
            "It runs the invalid checks.",
            id="unnecessary things are not done",
        ),
        pytest.param(
            "The clerks intentionally keep two lists.",
            "The clerks accidentally keep two lists.",
            "The clerks deliberately keep two lists.",
            id="a purpose that turns into an accident",
        ),
        pytest.param(
            "He never married.",
            "He never sings.",
            "He sometimes sings.",
            id="never, of a single deed",
        ),
        pytest.param(
            "The stove has never gone out.",
            "The stove is never cleaned.",
            "The stove is sometimes cleaned.",
            id="never, up to now",
        ),
        pytest.param(
            "The ditch was too narrow for the cart.",
            "The ditch was narrow.",
            "The ditch was wide.",
            id="too",
        ),
        pytest.param(
            "The cellar is so dry that nothing rots.",
            "The cellar is dry.",
            "The cellar is wet.",
            id="so dry that",
        ),
        pytest.param(
            "The spoons are kept inside of it.",
            "The spoons are kept outside the box.",
            "The spoons are kept inside the box.",
            id="inside",
        ),
        pytest.param(
            "The crate holds more than one lamp.",
            "The crate holds more than ten lamps.",
            "The crate holds less than ten lamps.",
            id="less than one",
        ),
        pytest.param(
            "It counts all simple cycles.",
            "It counts by a simple trick.",
            "It counts by a complicated trick.",
            id="simple, of a term",
        ),
        pytest.param(
            "It runs the backward pass.",
            "It runs the synchronous task.",
            "It runs the asynchronous task.",
            id="backward, of a term",
        ),
        pytest.param(
            "The drawing below is by a child.",
            "The drawing below the window is by a child.",
            "The drawing above the window is by a child.",
            id="below, in the text",
        ),
        pytest.param(
            "The rules are described above the drawing.",
            "The lamp hangs above the table.",
            "The lamp hangs below the table.",
            id="described above",
        ),
        pytest.param(
            "It samples the outside groups.",
            "It grows outside the walls.",
            "It grows inside the walls.",
            id="outside, of its noun",
        ),
        pytest.param(
            "Nobody enters without a valid pass.",
            "Everybody shows a valid pass.",
            "Everybody shows an invalid pass.",
            id="without an invalid pass",
        ),
        pytest.param(
            "Ants came for the first time in years.",
            "Ants ate the first pear.",
            "Ants ate the last pear.",
            id="the last time in years",
        ),
        pytest.param(
            "The well froze over in winter.",
            "The inn shuts in the winter.",
            "The inn shuts in the summer.",
            id="frost in summer",
        ),
        pytest.param(
            "The bell rang at two in the morning.",
            "The bell rang in the morning.",
            "The bell rang in the evening.",
            id="two in the evening",
        ),
        pytest.param(
            "She stayed there for many years.",
            "Many sailors met her there.",
            "Few sailors met her there.",
            id="for few years",
        ),
        pytest.param(
            "They rejected the plan, calling it a waste.",
            "They rejected the plan on Monday.",
            "They accepted the plan on Monday.",
            id="what the deed shows",
        ),
        pytest.param(
            "They are difficult or impossible to mend.",
            "They are difficult for beginners.",
            "They are easy for beginners.",
            id="a second word of the kind",
        ),
        pytest.param(
            "Polish it for easy access.",
            "It was an easy walk.",
            "It was a difficult walk.",
            id="what is wanted",
        ),
        pytest.param(
            "It decodes the film with a decoder.",
            "It decodes the film in parts.",
            "It encodes the film in parts.",
            id="a word of its family",
        ),
        pytest.param(
            "It encodes the film with a decoder.",
            "It encodes the film in parts.",
            "It decodes the film in parts.",
            id="a word of the opposite's family",
        ),
        pytest.param(
            "It counts the minimum heights, as argmin does.",
            "It counts up to the minimum.",
            "It counts up to the maximum.",
            id="min beside minimum",
        ),
        pytest.param(
            "A context that temporarily hides it.",
            "A switch that temporarily hides it.",
            "A switch that permanently hides it.",
            id="a context lasts a while",
        ),
        pytest.param(
            "Returns a list of the same length as the input.",
            "Returns the length of the input.",
            "Returns the length of the output.",
            id="the same as the input",
        ),
        pytest.param(
            "Check whether the set is closed.",
            "The clerk closed the shop.",
            "The clerk opened the shop.",
            id="a closed set",
        ),
        pytest.param(
            "Please read the manual of the pump.",
            "The manual was read in one week.",
            "The manual was written in one week.",
            id="read, no past",
        ),
        pytest.param(
            "Independent Component Analysis, by hand.",
            "Independent tests of it are run.",
            "Dependent tests of it are run.",
            id="a title",
        ),
        pytest.param(
            "They were patterned after the swallows.",
            "They sang after the swallows.",
            "They sang before the swallows.",
            id="patterned after",
        ),
        pytest.param(
            "Ten years after its last run, the tram became an inn.",
            "Ten years after its repair, the tram became an inn.",
            "Ten years before its repair, the tram became an inn.",
            id="before the last",
        ),
    ],
)
def test_what_a_guard_refuses_and_what_passes_beside_it(
    refused: str, near: str, wanted: str
) -> None:
    assert opposites(refused) == set()
    assert wanted in opposites(near)


def test_a_form_that_is_its_own_past_is_no_past_at_the_opening() -> None:
    assert opposites("Read the manual of the pump.") == {"Write the manual of the pump."}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The large dog sleeps.", "The small dog sleeps."),
        ("It increased before noon.", "It increased after noon."),
        ("It increases the price.", "It decreases the price."),
        ("The risk was increased in dogs.", "The risk was decreased in dogs."),
        ("It reads the input.", "It reads the output."),
        ("It is visible here.", "It is invisible here."),
        ("The simple method.", "The complicated method."),
        ("It is valid as follows.", "It is invalid as follows."),
        ("It has at least ten.", "It has at most ten."),
        ("They accept the files.", "They reject the files."),
    ],
)
def test_antonym(text: str, wanted: str) -> None:
    assert wanted in opposites(text)


@pytest.mark.parametrize(
    "text",
    [
        "Lisbon's oldest café opened in 1782 and still serves coffee.",
        "If the pressure falls below two bars, the pump shuts itself off.",
        *("He returned from Siberia after nine years.", "It fell for the third month in a row."),
        *("It takes a large dog instead of a cat.", "It takes the minimum, i.e. the least of all."),
        *("They adapt it in order to be visible.", "It must be found successfully."),
        *("Her letters reached his wife.", "A maximal dog maximally barks."),
        *("Is it a large house?", "Decide whether the house is large."),
        "Never sleep here, always sleep there.",
        *("The upper house passed the bill and the senate did not.", "He left the firm."),
        *("He is on the left side.", "The Open University"),
        "It calls input_array, my_input, input.size, a/input and input2.",
        "It calls input-like, `input`, input(), input=3 and x=input.",
        *("It is dependent on the caller.", "It needs at least ten."),
        *("The largest part of those given.", "You can check the entry and raise it."),
        *("They sort them in send order.", "They can accept the files."),
        *("They can send the files to the dog.", "These aren't caught by the loop."),
        *("It takes one or more names.", "It was first published there."),
        *("It will never again be seen.", "He was named after his dog."),
        *("The above example is here.", "The dog of the former president."),
        *("Start at the beginning and stop at the end.", "It is required to stop."),
        *("It will import the file.", "They keep the peace with Austria."),
        *("There are two national parks.", "They range from small boats to ships."),
        *("It started to rain.", "Usually the shop is there."),
    ],
)
def test_antonym_leaves_what_the_rest_would_contradict(text: str) -> None:
    assert opposites(text) == set()


def test_antonym_changes_one_word() -> None:
    rows = generated("antonym", alone(["The first large door was open."]), {"per_sentence": 5})
    assert len(rows) > 1
    for row in rows:
        old, new = row["source"].split(), row["raw"].split()
        assert len(old) == len(new)
        assert sum(a != b for a, b in zip(old, new, strict=True)) == 1
        assert row["detail"]["operation"] == "exchange_antonym"
