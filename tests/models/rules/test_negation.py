"""A negation put in or taken out, and the sentences that are left alone."""

import pytest
from rules_given import alone, generated, said


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
