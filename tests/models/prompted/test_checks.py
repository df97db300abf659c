"""What a model's answer must be: wrapping that is taken off, faults, and what resembles them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models.prompted.checks import faults, mended, stands, unwrapped, without_thoughts

SOURCE = "The dog of the woman sat on the mat and slept."
PROMPT = f"""Say the sentence below in other words, and let it mean what it meant.
Nothing is left out and nothing is added to it. Answer with the new sentence alone.

Sentence: {SOURCE}"""


def fault(text: str, checks: Sequence[str] = (), **columns: Any) -> str | None:
    """The reason why an answer is refused."""
    names = ("old", "new", "pool")
    row = {"text": text, "source": SOURCE, "prompt": PROMPT, **dict.fromkeys(names), **columns}
    shots = row.pop("shots", None)
    table = pa.table({name: pa.array([value], pa.string()) for name, value in row.items()})
    for name, value in (("checks", checks), ("shots", shots)):
        table = table.append_column(name, pa.array([value], pa.list_(pa.string())))
    (found,) = faults(table, pa.chunked_array([[False]]), np.array([False]))
    assert found is None or all(found)
    return found and found[0]


def query_fault(text: str, kind: str = "question", source: str = "") -> str | None:
    """The reason why a query is refused."""
    return fault(text, ["query"], source=source or PASSAGE, prompt="", operation=kind)


def bare(raw: str | None) -> tuple[str, bool]:
    sources = pa.chunked_array([[SOURCE]])
    texts, unclosed, _ = unwrapped(pa.chunked_array([pa.array([raw], pa.string())]), sources)
    return texts.to_pylist()[0], unclosed.to_pylist()[0]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("  A cat sat. \n", "A cat sat."),
        ('"A cat sat."', "A cat sat."),
        ("“A cat sat.”", "A cat sat."),
        ("«A cat sat.»", "A cat sat."),
        ("```text\nA cat sat.\n```", "A cat sat."),
        ('```\n"A cat sat."\n```', "A cat sat."),
        ("<think>The user\n\nwants a cat.</think>\n\nA cat sat.", "A cat sat."),
        ("<think></think>", ""),
        ("[THINK]The user wants a cat.[/THINK]A cat sat.", "A cat sat."),
        ("◁think▷A cat?◁/think▷A cat sat.", "A cat sat."),
        ("<|channel|>analysis<|message|>A cat?<|channel|>final<|message|>A cat.", "A cat."),
        ("analysisThe user wants a cat.assistantfinalA cat sat.", "A cat sat."),
        ("**A cat sat.**", "A cat sat."),
        ("$$\\boxed{\\text{A cat sat.}}$$", "A cat sat."),
        ("✅ A cat sat. 😀", "A cat sat."),
        ("A **cat** sat.", "A **cat** sat."),
        ('"A" is not "B"', '"A" is not "B"'),
        ('He said "no".', 'He said "no".'),
        ('""A cat sat.""', '""A cat sat.""'),
        ("Call `f` and `g`", "Call `f` and `g`"),
        ("Use ``` for code ``` here", "Use ``` for code ``` here"),
        ("A cat sat.<|im_end|>", "A cat sat."),
        ('"A cat sat." </s><|endoftext|>\n', "A cat sat."),
        ("<b>A cat</b>", "<b>A cat</b>"),
        ("", ""),
        (None, ""),
    ],
)
def test_harmless_wrapping_is_taken_off(raw: str | None, text: str) -> None:
    assert bare(raw) == (text, False)


def test_a_thought_that_is_never_closed() -> None:
    assert bare("<think>The user wants")[1]
    assert bare("\n<thinking>The user wants")[1]
    assert bare("[THINK]The user wants")[1]
    assert not bare("The <think> tag opens a thought.")[1]
    texts, _ = without_thoughts(pa.chunked_array([['<think>x</think> "{}" ']]))
    assert texts.to_pylist() == ['"{}"']


@pytest.mark.parametrize(
    "text",
    [
        *("I'm sorry, but I can't help with that.", "Sorry, I can't assist with that request."),
        "I apologize, but I am unable to fulfil your request.",
        "Unfortunately, I cannot provide such content.",
        "As an AI language model, I don't have opinions.",
        *("As a large language model, I have no access to it.", "I cannot comply."),
        *("I won't write about that.", "I'm unable to generate a contradiction."),
        "Please provide the sentence you would like me to rewrite.",
        *("Could you please provide the original text?", "There is no sentence provided."),
        *("You haven't provided a sentence.", "I'm sorry, but I can't."),
        *("I cannot process this request.", "There are no entities in this sentence."),
        *("I don't understand the request.", "I apologize, but this sentence cannot be rewritten."),
        "No sentence was given.",
    ],
)
def test_a_refusal(text: str) -> None:
    assert fault(text) == "refusal"
    assert fault(text, source=text + " Really.") is None


@pytest.mark.parametrize(
    "text",
    [
        "Sure! Here's a rewritten version:\nA cat sat.",
        "Here is a sentence that contradicts the one above:\n\nA cat sat.",
        "Certainly! Below is what you asked for:\nA cat sat.",
        *("Of course. I will rewrite it for you. A cat sat.", "Rewritten sentence: A cat sat."),
        *("**Rewritten sentence:** A cat sat.", "The new sentence: A cat sat."),
        *("Answer: A cat sat.", "Paraphrase 1: A cat sat."),
        *("The contradicting statement: A cat sat.", "Okay, here you go:\nA cat sat."),
        *("Sure! A cat sat.", "This is the rewritten sentence: A cat sat."),
        "Here's another way to say it: A cat sat.",
        "A different way of putting it would be: A cat sat.",
        "Alternatively, one could say: A cat sat.",
        "The sentence before this one would be: A cat sat.",
        *("User: a dog sat. Assistant: A cat sat.", "Okay, so the user wants me to say it anew."),
        *("Let me rephrase this. A cat sat.", "Here you go: A cat sat."),
        "As requested, here is the new sentence: A cat sat.",
        "I'd be happy to help you rewrite it. A cat sat.",
        *("First, I need to understand the sentence.", "The rewritten sentence is: A cat sat."),
        *("Rewritten sentence - A cat sat.", "My rewrite would be: A cat sat."),
        *("A cat sat. Let me know if you need anything else!", "A cat sat. Human: And a dog?"),
        "A cat sat. (I changed the dog and kept the rest.)",
        "A cat sat. This keeps the meaning of the original.",
    ],
)
def test_a_preamble(text: str) -> None:
    assert fault(text) == "preamble"


@pytest.mark.parametrize(
    "text",
    [
        *("A cat sat.<|endoftext|>Human: next", "<answer>A cat sat.</answer>", "[INST] A cat sat."),
        *("- A cat sat.", "1. A cat sat.\n2. A cat lay.", '{"sentence": "A cat sat."}'),
    ],
)
def test_markup(text: str) -> None:
    assert fault(text) == "markup"
    assert fault(text, source=f"{text} {text}") != "markup"


@pytest.mark.parametrize(
    "text",
    [
        # No refusal:
        *("Sorry to hear that, the array is empty.", "I'm sorry that the dog has left the mat."),
        *("I can't help falling asleep on the mat.", "I cannot come tomorrow."),
        "As an AI researcher, she wrote the first paper.",
        *("Unfortunately, the dog did not sleep.", "I cannot find the file that the woman wrote."),
        "Please provide a value for each key.",
        *("The model said: I'm sorry, but I can't do that.", "There is no sentence in the file."),
        "It cannot provide more than one value.",
        "I'm afraid that I cannot open the file, she said.",
        *("I'm sorry, but I can't come, the old man said.", "I couldn't complete that marathon."),
        "There are no numbers in the file.",
        # no preamble:
        *("Sure, the array is empty.", "Here is where the dog sat."),
        *("Of course, here is where the dog sleeps.", "The answer: a dog."),
        *("The sentence was read aloud by the woman.", "Here is the dog of the woman: it sleeps."),
        *("Output: a list of the dogs.", "This is the smaller of the two: it sleeps."),
        *("Certainly the dog slept.", "Answers to the woman: none.", "Okay, I will come."),
        *("Great! The dog slept.", "This is the version that adds two options: quiet and verbose."),
        "The output text: an explanation is below.",
        "Absolutely, here is nothing that the server keeps: it stores no data.",
        *("The following versions are supported: 3.11 and 3.12.", "The user wants a dog."),
        *("Now let the dog sleep.", "The sentence cannot be longer than that."),
        *("He let me know of it, and I hope it sleeps.", "User: the person who logs in."),
        *("Sure! the old man said.", "A cat sat (the version of the woman slept)."),
        # no markup:
        *("-5 degrees it was.", "1.5 cats sat.", "A < B and B > C.", "A list<int> has cats."),
        *("{x} is the set of x.", "**A cat sat.**", "[1] tells of cats."),
    ],
)
def test_what_only_resembles_a_fault(text: str) -> None:
    assert fault(text) is None


@pytest.mark.parametrize("text", [".", "…", "-- ?", "N/A", "None", "none."])
def test_nothing(text: str) -> None:
    assert fault(text) == "empty"


@pytest.mark.parametrize(
    ("source", "text", "same"),
    [
        (SOURCE, SOURCE[:-1], True),
        (SOURCE, SOURCE.upper()[:-1] + " !", True),
        ("The dog’s “mat”, he said.", "The dog's mat he said", True),
        ("C is fast.", "C++ is fast.", False),
        ("It took 1.5 days.", "It took 15 days.", False),
        (SOURCE, "The dog of the woman sat on a mat and slept.", False),
        ("!", "?", False),
    ],
)
def test_a_text_that_differs_by_punctuation_alone(source: str, text: str, same: bool) -> None:
    assert (fault(text, source=source) == "same_as_source") == same


SHOWN = "The harbour was frozen until spring."
TWICE = "The cat of the woman sat. The cat of the woman sat."


@pytest.mark.parametrize(
    ("text", "columns", "reason"),
    [
        (f"It was late. {SOURCE}", {"checks": ["whole_source"]}, "echo"),
        (f"{SOURCE[:-1]}, le chien dort.", {"checks": ["whole_source"]}, "echo"),
        ("The dog of the woman sat on the mat.", {"checks": ["whole_source"]}, None),
        ("A dog sat down.", {"checks": ["whole_source"], "source": "A dog"}, None),
        (f"It is false that {SOURCE}", {}, None),
        # An answer that was shown.
        (SHOWN.lower()[:-1], {"shots": [SHOWN, "Yes."]}, "echo"),
        (f"So {SHOWN}", {"shots": [SHOWN, "Yes."]}, "echo"),
        (f"So {SHOWN}", {"shots": [SHOWN, "Yes."], "source": f"“{SHOWN}”"}, None),
        ("Yes, the dog sat down.", {"shots": [SHOWN, "Yes."]}, None),
        # A piece of the prompt, which the source does not have.
        ("NOTHING is left out and nothing is added to it: a cat.", {}, "echo"),
        ("Once more the dog of the woman sat on the mat and slept.", {}, None),
        ("Answer with the new one.", {}, None),
        ("Nothing is left out and nothing is added to it.", {"prompt": None}, None),
        ("Subject: animals. Entities: dogs, garden. Numbers: two", {}, "echo"),
        ("Entities: dogs and a garden.", {}, "echo"),
        # What is to be a question.
        ("The dog sat where.", {"checks": ["question"]}, "no_question"),
        ("Where did the dog sit?", {"checks": ["question"]}, None),
        ("Who said “sit”?", {"checks": ["question"]}, None),
        ("狗坐在哪里？", {"checks": ["question"], "source": "狗坐在垫子上。"}, None),
        # A piece that is said twice.
        (TWICE, {}, "repetition"),
        (f"{TWICE} Yes.", {"source": TWICE}, None),
        ("Not now. Not now. The cat of the woman sat.", {}, None),
        ("A cat sat.\n\nIt is a cat because of the rules.", {}, "several_lines"),
        ("A cat sat.\nIt slept.", {"source": "A dog.\nIt slept."}, None),
        # A label where the source has one, or speaks of such things.
        ("Answer: the rows, summed.", {"source": "Answer: the sum of the rows."}, None),
        ("Sentence: a unit with borders.", {"source": "Sentence boundaries are marked."}, None),
        ("Sentence: a unit with borders.", {}, "preamble"),
        ("Rewritten sentence: borders.", {"source": "Sentence borders are marked."}, "preamble"),
        ("None of the dogs slept.", {}, None),
        ("猫。", {"source": "狗。"}, None),
    ],
)
def test_faults_beside_the_source_the_prompt_and_the_shots(
    text: str, columns: dict[str, Any], reason: str | None
) -> None:
    assert fault(text, **columns) == reason


@pytest.mark.parametrize(
    ("source", "text", "reason"),
    [
        (SOURCE, "狗坐在垫子上睡着了。", "wrong_script"),
        (SOURCE, "The dog 狗坐在垫子上睡着了然后醒来。", "wrong_script"),
        (SOURCE, "The dog sat on the mat, or собака.", None),
        (SOURCE, "The α and β of the mat are 5.", None),
        ("狗坐在垫子上。", "The dog sat.", "wrong_script"),
        ("狗坐在垫子上。", "猫坐在垫子上。", None),
        ("1 + 1 = 2", "Две кошки.", None),
        (SOURCE, "He saw Crème brûlée, 12 + 30.", None),
        (SOURCE, "Der Hund der Frau lag auf dem Teppich und schlief.", "wrong_language"),
        ("Der Hund lag auf dem Teppich.", "The dog lay on the carpet of it.", "wrong_language"),
        (SOURCE, "She saw Los Angeles, El Paso, Las Vegas and Del Mar with the dog.", None),
        (SOURCE, "The film Der Untergang und das Ende was shown with subtitles.", None),
        (SOURCE, "Le vieux pont de la ville est fermé dans une semaine.", "wrong_language"),
        (SOURCE, "Die Katze.", None),
        ("Bridge closed.", "Die Katze ist nicht auf der Matte der alten Frau.", None),
        ("Mats, dogs, women.", "El perro de la mujer se durmió en los brazos del niño.", None),
    ],
)
def test_script_and_language(source: str, text: str, reason: str | None) -> None:
    assert fault(text, source=source) == reason


SOURCE_DAMAGE = "A plain sentence."


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("The caf\\u00e9 is open.", "The café is open."),
        ("A \\ud83d\\ude00 smile.", "A 😀 smile."),
        ("The caf\\\\u00e9 is \\\\\\\\u201copen\\\\\\\\u201d.", "The café is “open”."),
        ("Salt &amp;amp;amp;#x26; pepper &amp;amp;lt;3", "Salt & pepper <3"),
        ('She said \\"no\\" to it\\\'s name.', 'She said "no" to it\'s name.'),
        ("One line.\\nAnother.", "One line.\nAnother."),
        ("It&#39;s &quot;here&quot;&nbsp;now", 'It\'s "here" now'),
        ("A\x00 B\x1b[31mC\x07", "A B[31mC"),
        ("\ufeffA zero\u200bwidth\u2060 BOM", "A zerowidth BOM"),
        ("Cafe\u0301", "Café"),
        ("Two  spaces\u00a0and a \tmore", "Two spaces and a more"),
        ("One\r\nTwo\u2028Three", "One\nTwo Three"),
    ],
)
def test_what_is_plain_is_mended(raw: str, meant: str) -> None:
    assert mended(raw, SOURCE_DAMAGE) == (meant, False)


@pytest.mark.parametrize(
    "raw",
    ["The caf\ufffd is open.", "Half a \\ud83d smile.", "The cafÃ© is open.", "It isnâ€™t so.",
     "It isn\u00e2\u0080\u0099t so.", "Ð¿Ñ€Ð¸Ð²ÐµÑ‚ to you", "ä¸­æ–‡ is spoken.", "A ðŸ˜€ smile.",
     "The cafÃƒÂ© is open.", "Twenty Â°C outside.", "\\xc3\\xa9tude"],
)  # fmt: skip
def test_what_is_lost_or_garbled_is_found(raw: str) -> None:
    assert mended(raw, SOURCE_DAMAGE)[1]


@pytest.mark.parametrize(
    "good",
    ["The café is open.", "“Le café”…", "“CAFÉ” is open", "São Paulo, MAÇÃ", "Привет, мир", "中文",
     "Ελλάδα…", "5 °C – 7 °C", "naïve—très", "Ærø’s", "Tiếng Việt", "R&D; C&A", "AT&T costs 5£…",
     "Ångström™"],
)  # fmt: skip
def test_what_is_good_stays(good: str) -> None:
    assert mended(good, SOURCE_DAMAGE) == (good, False)


def test_what_the_sentence_has_itself_stays() -> None:
    for own in ("C:\\new\\u00e9", "&lt;b&gt; is a tag", "A \ufffd of its own", "cafÃ©"):
        assert mended(own, own) == (own, False)


@given(st.text(), st.text())
def test_whatever_is_said_is_clean_afterwards(raw: str, source: str) -> None:
    text, _ = mended(raw, source)
    assert not [c for c in text if (c < " " and c != "\n") or "\x7f" <= c <= "\x9f"]
    assert "\ufeff" not in text
    assert mended(text, text)[0] == text


PASSAGE = (
    "Lake birds > Herons\nThe heron stands in shallow water all day and waits for a fish.\n"
    "According to Smith (1990), the report of 1980 was wrong."
)


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("What does a heron wait for?", "question", None),
        ("What does a heron wait for", "question", "no_question"),
        ("heron fishing", "keyword", None),
        ("Herons catch fish by waiting.", "claim", None),
        ("heron\nfish", "keyword", "several_lines"),
        ("What is this passage about?", "question", "speaks_of_text"),
        ("What is described above?", "question", "speaks_of_text"),
        ("Why was the report of herons wrong?", "question", None),
        ("What did herons do in 1980 according to Smith?", "question", None),
        ("What is this report about?", "question", "speaks_of_text"),
        ("Which heron stands in shallow water all day and waits?", "question", "copied_words"),
        ("stands in shallow water", "keyword", "copied_words"),
        ("shallow water", "keyword", None),
        ("fish heron fish heron fish", "keyword", "repetition"),
        ("wait " * 41, "keyword", "too_long"),
        ("Lake birds herons", "keyword", None),
        ("Was frisst der Reiher, der den ganzen Tag im Wasser steht?", "question", None),
        ("Dove sono gli aironi della palude e delle rive?", "question", "wrong_language"),
        ("", "keyword", "empty"),
    ],
)
def test_queries(text: str, kind: str, reason: str | None) -> None:
    assert query_fault(text, kind) == reason


def test_a_word_of_the_passages_own_subject_is_no_fault() -> None:
    source = "The document element has a child. The text of a node is read by get_text."
    assert query_fault("How is the text of a node read?", source=source) is None
    assert query_fault("How is the text of a node read?") == "speaks_of_text"
    assert query_fault("What is in this document?", source=source) == "speaks_of_text"


REVISED = {"checks": ["new_entity"], "old": "dog", "new": "city cat"}


@pytest.mark.parametrize(
    ("text", "columns", "reason"),
    [
        ("The city cat of the woman slept.", {}, None),
        ("The dog of the woman slept.", {}, "unchanged_entity"),
        ("The animal of the woman slept.", {}, "missing_entity"),
        ("The city cattle of the woman slept.", {}, "missing_entity"),
        ("The city cat chased the dog.", {}, "unchanged_entity"),
        ("The guide dog slept.", {"new": "guide dog"}, None),
        ("The dog slept.", {"new": "guide dog"}, "unchanged_entity"),
        ("Two women slept.", {"new": "woman", "old": "men"}, None),
        ("Call np.array() first.", {"new": "np.array()", "old": "f()"}, None),
        ("猫坐在垫子上。", {"source": "狗坐在垫子上。", "old": "狗", "new": "猫"}, None),
        ("An animal slept.", {"checks": []}, None),
        ("The animal slept.", {"checks": ["new_record"], "pool": "T_p"}, "missing_entity"),
        ("A city cat and a dog.", {"checks": ["new_record"], "pool": "T_r"}, None),
        # In other words, it is judged by what was to change.
        ("Asleep on the mat, that's where the woman's city cat was.", {}, None),
        ("Asleep on the mat, that's where the woman's dog was.", {}, "unchanged_entity"),
    ],
)
def test_a_revised_entity(text: str, columns: dict[str, Any], reason: str | None) -> None:
    assert fault(text, **{**REVISED, **columns}) == reason


@pytest.mark.parametrize(
    ("text", "new", "reason"),
    [
        ("Seven dogs ate 12 mats.", "7", None),
        ("7 dogs ate 12 mats.", "seven", None),
        ("Five dogs ate all 12 mats.", "7", "missing_number"),
        ("Five dogs ate 17 mats.", "7", "missing_number"),
        ("A dog ate 1200 mats.", "1,200", None),
        ("It cost 2.5.", "2.5 million", "missing_number"),
        # Twelve was there before.
        ("Five dogs ate all 12 mats.", "12", "missing_number"),
        ("Twelve dogs ate 12 mats.", "12", None),
        ("Three and a half dogs ate 12 mats.", "3.5", None),
        ("A dozen dogs ate 12 mats.", "12", None),
        ("A dog ate 12 mats.", "1", None),
        ("No dog ate 12 mats.", "0", None),
        ("Dogs ate ½ of it.", "½", None),
        ("Dogs ate half of it.", "½", "missing_number"),
    ],
)
@pytest.mark.parametrize("checks", ["new_number", "new_record"])
def test_a_revised_number(text: str, new: str, reason: str | None, checks: str) -> None:
    source = "Five dogs ate 12 mats."
    found = fault(text, [checks], source=source, old="5", new=new)
    assert found == reason


@pytest.mark.parametrize(
    ("source", "old", "new", "text", "reason"),
    [
        ("It has 16 GB.", "16", "32", "It has 32 GB.", None),
        ("It has 16 GB.", "16", "32", "It has 16 GB or 32 GB.", "unchanged_number"),
        ("It took 3 days.", "3", "3.5", "It took three and a half days.", None),
        # In other words, it is judged by what was to change.
        ("Her dogs have 12 mats.", "12", "7", "Seven mats served as bed for her pets.", None),
        ("Her dogs have 12 mats.", "12", "7", "Of the 12 mats, 7 served.", "unchanged_number"),
        # The whole part of a mixed number is changed by itself.
        ("It took 2 and a half days.", "2", "8", "It took 8 and a half days.", None),
        ("It has 5 GB.", "5", "5.0", "It has 5 GB, or 5.0 GB.", None),
        # What is no numeral.
        ("It has a dozen eggs.", "a dozen", "forty", "It has forty eggs.", None),
        ("It has a dozen eggs.", "a dozen", "40", "It has 40, a dozen more.", "unchanged_number"),
    ],
)
def test_a_number_that_is_left(
    source: str, old: str, new: str, text: str, reason: str | None
) -> None:
    columns = {"source": source, "old": old, "new": new}
    assert fault(text, ["new_number"], **columns) == reason
    # A sentence written from a record may say what it likes besides.
    assert fault(text, ["new_record"], **columns) is None


def test_names_are_found_as_whole_words_in_either_number() -> None:
    assert stands("Both cities grew.", "city")
    assert stands("The city grew.", "cities")
    assert not stands("The category grew.", "cat")
    assert not stands("", "cat")
