"""A negation put in or taken out, and the sentences that are left alone."""

import pytest
from rules_given import alone, generated, raws


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Returns the array.", "Does not return the array."),
        # A summary of documentation describes; an instruction forbids.
        ("Return the array.", "Does not return the array."),
        ("Use the array.", "Do not use the array."),
        ("Set the table for your guests.", "Do not set the table for your guests."),
        ("It does not return the array.", "It returns the array."),
        ("They do not use it.", "They use it."),
        ("Do not use it.", "Use it."),
        ("He did not go home.", "He went home."),
        ("It cannot fail.", "It can fail."),
        ("It isn't empty.", "It is empty."),
        ("It won’t fail.", "It will fail."),
        ("He never slept.", "He slept."),
        ("A house without walls.", "A house with walls."),
        ("If the file is open, it fails.", "If the file is not open, it fails."),
        (
            "The road is longer when the bridge was closed.",
            "The road is not longer when the bridge was closed.",
        ),
        ("It has a dog.", "It does not have a dog."),
        ("He became king.", "He did not become king."),
        ("The function returns a list.", "The function does not return a list."),
        ("List the tensors.", "Does not list the tensors."),
        ("The men who received the drug.", "The men who did not receive the drug."),
        ("So far the train was late.", "So far the train wasn't late."),
        ("The bread is cut and butter is near.", "The bread is not cut and butter is near."),
        ("The dogs can swim with all of them.", "The dogs cannot swim with all of them."),
        ("More boats were lost than in May.", "More boats were not lost than in May."),
        ("It will read the rows and the columns.", "It will not read the rows and the columns."),
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
        ("The dog did not bite.", "The dog bit."),
        ("It does not apply to us.", "It applies to us."),
        ("Never sleep here.", "Sleep here."),
        ("The trash can is full.", "The trash can is not full."),
        ("The king's will was read.", "The king's will was not read."),
    ],
)
def test_negation(text: str, wanted: str) -> None:
    assert raws("negation", text) == [wanted]


@pytest.mark.parametrize(
    "text",
    [
        *("It works without using memory.", "A man with a dog.", "It may rain."),
        *("It may not rain.", "It tells whether the file is open."),
        *("It checks if the file is open.", "Before matches were invented, fire was kept."),
        *("Little is known of it.", "It is not known except here.", "It is open or not."),
        *("Not a house was sold.", "He never used a nail, only glue."),
        *("The wheat is sown, sleeps in snow.", "Checks whether the file is not open."),
        *("It tests if the list is not empty.", "It mightn't rain.", "It may never be used."),
        *("It may be not used.", "The bell is rung several times.", "There are a number of ways."),
        *("When he was king, the city stood.", "The flag was set and is here."),
        *("It was here and later it burned.", "The wall has sunk so far that it leans."),
        *("Boar were back, where they dig.", "It is next used here.", "The dog.", "See the guide."),
        *("Refer to the guide.", "Log of the input.", "List of tensors.", "Lists of tensors."),
        *("Will May come?", "Is the dog here and is it asleep?", "Mean pressure and loss."),
        *("Log scale and plot size.", "It does n't aim for our sympathy."),
        *("A beautifully made nature film.", "It does not have any dogs."),
        *("It speaks not a word of English.", "A house without any walls.", "Nobody is here."),
        *("It is also here.", "As can be seen there.", "It complies with the rule."),
        *("There can be no other reason.", "So late was the train that we walked."),
        *("The train was so late that we walked.", "The train was late, so we walked."),
        *("The train was late because of the snow.", "The bread is cut and sold."),
        *("It was not late, but we walked.", "Any of the dogs can swim."),
        *("Many of the dogs can swim.", "Fewer boats were lost than in May."),
        *("It is a ratio, and so has no unit.", "It will read the rows and will sort them."),
        *("He did not have any money.", "She didn't know anybody."),
        *("The ship had not yet left the port.", "She has always loved music."),
        *("They have all left.", "The price has more than doubled.", "You had better go home."),
        *("She does yoga.", "She did not often visit her aunt.", "I did not either."),
        "Never had she seen it.",
    ],
)
def test_negation_leaves_what_it_would_break(text: str) -> None:
    assert raws("negation", text) == []


def test_negation_behind_an_auxiliary() -> None:
    def found(text: str) -> set[str]:
        return {generated("negation", alone([text]), seed=s)[0]["raw"] for s in range(40)}

    assert found("The dog is here.") == {"The dog is not here.", "The dog isn't here."}
    assert found("It can be zero.") == {"It cannot be zero.", "It can't be zero."}
    assert found("It must stop.") == {"It must not stop."}


def test_negation_says_what_it_did() -> None:
    rows = generated("negation", alone(["It is not here.", "It is here."]))
    assert [row["detail"]["operation"] for row in rows] == ["remove_negation", "insert_negation"]
    assert (rows[0]["detail"]["old"], rows[0]["detail"]["new"]) == ("not", "")
    two = raws("negation", "It is here if it was there.", per_sentence=3)
    assert len(set(two)) == len(two) == 2
