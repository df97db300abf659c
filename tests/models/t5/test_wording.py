"""The words around sentences: what is cut, what never is, what the answers are."""

from pathlib import Path
from typing import Any

import pytest
from fitted_gense import init
from tiny_t5 import tiny_t5
from transformers import AutoTokenizer

from tercet.models.generators import layout
from tercet.models.generators.layout import parted
from tercet.models.llm.messages import Request
from tercet.models.llm.settings import Sampling
from tercet.models.prompted import templates
from tercet.models.t5 import wording
from tercet.models.t5.wording import Question, Words


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return AutoTokenizer.from_pretrained(init(tmp_path_factory.mktemp("words") / "init"))


def question(**changes: Any) -> Question:
    return Question(**{"max_length": 32, "templates": wording.builtin_templates(), **changes})


def test_a_sentence_has_the_same_tokens_wherever_it_stands(tokenizer: Any) -> None:
    # One text, tokenised as a whole, could join a piece with the sentence beside it.
    first, second = "the cat", "red"
    (ids,) = wording.questions(tokenizer, question(), [first], [second])
    parts = layout.tokens(tokenizer, ["Known: ", first, " Claimed: ", second, " True or false?"])
    assert ids == [*(token for part in parts for token in part), tokenizer.eos_token_id]


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [(20, 3, (11, 3)), (3, 20, (3, 11)), (20, 20, (7, 7)), (7, 8, (7, 7)), (14, 0, (14, 0))],
)
def test_of_two_long_sentences_the_longer_is_cut_first(
    tokenizer: Any, first: int, second: int, kept: tuple[int, int]
) -> None:
    # The words and the end take 9 tokens of 23.
    texts = " ".join(["red"] * first), " ".join(["cat"] * second)
    (ids,) = wording.questions(tokenizer, question(max_length=23), [texts[0]], [texts[1]])
    tokens = tokenizer.decode(ids).split()
    assert (tokens.count("red"), tokens.count("cat")) == kept
    assert tokens[:2] == ["Known", ":"]
    assert tokens[-5:] == ["True", "or", "false", "?", "</s>"]
    with pytest.raises(ValueError, match="max_length"):
        wording.questions(tokenizer, question(max_length=10), ["red"], ["cat"])


def test_what_it_learns_to_answer_is_what_it_will_be_asked(tokenizer: Any) -> None:
    laid = layout.Layout(form="t5", max_length=32, follows_prompts=True)
    for method in wording.builtin_templates():
        template = templates.load(wording.prompt_path(method), ("sentence",))
        sentence = "the boat is black ."
        prompt = templates.render(template, {"sentence": sentence})
        asked = parted(Request(0, prompt, Sampling(), 0, None, sentence))
        before, after = wording.around(wording.builtin_templates()[method])
        assert asked == (before, sentence, after)
        learnt = layout.prompts(tokenizer, laid, [sentence], [(before, after)])
        assert learnt == layout.prompts(tokenizer, laid, [sentence], [(asked[0], asked[2])])
        assert tokenizer.decode(learnt[0]).endswith("the boat is black . </s>")
    assert wording.builtin_templates()["entailment"] != wording.builtin_templates()["contradiction"]


def test_answers_differ_in_their_first_token(tokenizer: Any) -> None:
    true, false, place = wording.answers(tokenizer, question())
    assert (tokenizer.decode(true), tokenizer.decode(false)) == ("true </s>", "false </s>")
    assert place == 0
    # Words that begin alike are told apart where they differ.
    found = wording.answers(tokenizer, question(if_true="the cat", if_false="the car"))
    assert found.place == 1


def test_a_tokenizer_without_words_for_the_answers_is_refused(tmp_path: Path) -> None:
    other = AutoTokenizer.from_pretrained(tiny_t5(tmp_path / "other", ["red", "true"]))
    with pytest.raises(ValueError, match="false"):
        wording.answers(other, question())


def test_a_question_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = question(slope=0.5, shift=-0.25)
    wording.write(tmp_path, one)
    assert wording.read(tmp_path) == one
    (tmp_path / wording.FILE).write_text('{"max_length": 3}')
    with pytest.raises(ValueError, match=r"judge\.json: (max_length|templates)"):
        wording.read(tmp_path)
    with pytest.raises(ValueError, match=r"judge\.json"):
        wording.read(tmp_path / "nowhere")


def test_a_model_is_asked_in_its_own_words_alone(tmp_path: Path) -> None:
    ours, own = wording.prompt_path("entailment"), tmp_path / "own.jinja"
    own.write_text("So: {{ sentence }}\n")
    wording.write(tmp_path, question())
    assert wording.fault(tmp_path, "entailment", ours) is None
    assert wording.fault(tmp_path, "rewrite", None) is not None
    assert wording.fault(tmp_path, "entailment", own) is not None
    wording.write(tmp_path, question(templates={"entailment": "So: {{ sentence }}"}))
    assert "'So: {{ sentence }}'" in str(wording.fault(tmp_path, "entailment", ours))
    # The same words in a file of one's own are the same.
    assert wording.fault(tmp_path, "entailment", own) is None


def test_of_a_model_from_elsewhere_the_user_knows_the_words(tmp_path: Path) -> None:
    ours, own = wording.prompt_path("entailment"), tmp_path / "own.jinja"
    assert wording.fault(tmp_path, "rewrite", None) is None
    assert "entailment.prompt" in str(wording.fault(tmp_path, "entailment", ours))
    assert wording.fault(tmp_path, "entailment", own) is None
    # A generator.json says that it may be asked in any words.
    layout.write(tmp_path, layout.Layout(form="t5", follows_prompts=True))
    assert wording.fault(tmp_path, "entailment", ours) is None


def test_it_judges_in_the_words_that_are_given(tmp_path: Path) -> None:
    words = Words(before="If ", between=", then ", after="?")
    found = wording.question_of(tmp_path, words)
    assert (found.before, found.between, found.after) == ("If ", ", then ", "?")
    assert (found.slope, found.shift) == (1.0, 0.0)
    wording.write(tmp_path, question())
    assert wording.question_of(tmp_path, None) == question()
    with pytest.raises(ValueError, match=r"score\.gense\.question"):
        wording.question_of(tmp_path, words)


@pytest.mark.parametrize(
    "text",
    [
        "No sentence.",
        "{{ sentence }} and {{ sentence }}",
        "{% if x %}{{ sentence }}",
    ],
)
def test_a_template_is_words_around_one_sentence(tmp_path: Path, text: str) -> None:
    file = tmp_path / "own.jinja"
    file.write_text(text)
    with pytest.raises(ValueError, match="own"):
        wording.template_in(file)
