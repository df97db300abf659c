"""Templates of GenSE's T5 for writing and judging. This module must not import torch.

The paper has templates for three tasks (table 1; the wording here is Tercet's): write an entailment
of a sentence, write a contradiction, and judge whether the second of two sentences follows from the
first. Templates are tokenised separately from the sentences, so a sentence has the same tokens in
every template, and only sentences are cut.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from tercet.models.config import Config
from tercet.models.generators import layout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FILE = "judge.json"
DATA_FILES = ("prompts/entailment.jinja", "prompts/contradiction.jinja")
_SENTENCE = "{{ sentence }}"


class Words(Config):
    """Wording of a judgement: `before FIRST between SECOND after`, with one of two answers."""

    before: str = Field(default="Known: ", description="Text before the first sentence.")
    between: str = Field(default=" Claimed: ", description="Text between the two.")
    after: str = Field(default=" True or false?", description="Text after the second.")
    # Not `true` and `false`, which YAML reads as booleans.
    if_true: str = Field(default="true", min_length=1, description="The answer if it follows.")
    if_false: str = Field(default="false", min_length=1, description="The answer if not.")


class Question(Words):
    """The question by which a model judges a pair.

    max_length: tokens of the whole question. templates: the templates of the two methods to which
        the model was fitted.
    slope, shift: P(true) is 1 / (1 + e^-(slope · logit + shift)), where the logit is the difference
        of the two answers' logits (Platt's calibration); 1 and 0 give the plain softmax.
    """

    max_length: int = Field(ge=8)
    templates: Mapping[str, str]
    slope: float = 1.0
    shift: float = 0.0


class Answers(NamedTuple):
    """The tokens of the two answers, each with the end-of-text token.

    place: index of the first token in which they differ, nearly always 0.
    """

    true: list[int]
    false: list[int]
    place: int


def prompt_path(method: str) -> Path:
    """The built-in template file of a method: `entailment` or `contradiction`."""
    return Path(__file__).parent / "prompts" / f"{method}.jinja"


def builtin_templates() -> dict[str, str]:
    """The built-in templates, by method."""
    names = (Path(name).stem for name in DATA_FILES)
    return {name: template_in(prompt_path(name)) for name in names}


def template_in(path: Path) -> str:
    """The template in a prompt file.

    Raises ValueError if it is not plain text around one sentence: a fitted model must be prompted
    with the same tokens.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig").rstrip()
    except OSError as error:
        raise ValueError(f"the prompt file {path} cannot be read: {error.strerror}") from None
    rest = text.replace(_SENTENCE, "", 1)
    if rest == text or any(mark in rest for mark in ("{{", "{%", "{#")):
        raise ValueError(
            f"the prompt file {path} must be words around {_SENTENCE}, written so and only once, "
            "without other marks of a template: mend it there"
        )
    return text


def around(template: str) -> tuple[str, str]:
    """The text before and after a sentence in this template."""
    before, _, after = template.partition(_SENTENCE)
    return before, after


def write(folder: Path, question: Question) -> None:
    """Writes the question beside the model's files."""
    text = question.model_dump_json(indent=2)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def read(folder: Path) -> Question:
    """The question of the model in this directory.

    Raises ValueError with one sentence if there is none, or if it is not valid.
    """
    missing = (
        f"the model in {folder} judges nothing, since it has no {FILE}: name one that "
        "fit_generator has made with form: gense, or give the words in which this one judges as "
        "score.gense.question"
    )
    return layout.validated(Question, folder / FILE, missing)


def question_of(folder: Path, words: Words | None) -> Question:
    """The question of the model in this directory, or one of these words for a model without.

    A model without a question was not fitted by Tercet, and its probability is not calibrated.
    Raises ValueError if both or neither are present.
    """
    if words is None:
        return read(folder)
    if (folder / FILE).is_file():
        raise ValueError(
            f"the model in {folder} judges in the words of its {FILE}: leave score.gense.question "
            "out"
        )
    return Question(max_length=layout.T5_LENGTH, templates={}, **words.model_dump())


def fault(folder: Path, method: str, prompt: Path | None) -> str | None:
    """Why the generator in this directory cannot run this method with this prompt; None if it can.

    prompt: the prompt file. Models that are not GenSE's are checked elsewhere.
    """
    if not (folder / FILE).is_file():
        foreign = not (folder / layout.FILE).is_file() and method in builtin_templates()
        if foreign and prompt == prompt_path(method):
            return f"only you know in what words: write them into a file, as {method}.prompt"
        return None
    try:
        prompts = read(folder).templates
        if method not in prompts:
            return f"it was fitted to {' and '.join(prompts)} alone"
        if prompt is None or template_in(prompt) != prompts[method]:
            return (
                f"it was fitted to the words {prompts[method]!r}, and would be asked in others: "
                f"make these {method}.prompt"
            )
    except ValueError as error:
        return str(error)
    return None


def questions(
    tokenizer: "PreTrainedTokenizerBase",
    question: Question,
    firsts: Sequence[str],
    seconds: Sequence[str],
) -> list[list[int]]:
    """The encoder's input for each pair, with the end-of-text token.

    If both sentences do not fit, the longer one is cut first. Raises ValueError if the words of the
    question leave no room for them.
    """
    before, between, after = layout.tokens(
        tokenizer, [question.before, question.between, question.after]
    )
    after = [*after, layout.end_token(tokenizer)]
    room = question.max_length - len(before) - len(between) - len(after)
    if room < 2:
        raise ValueError(
            f"the words around the two sentences of a judgement take {question.max_length - room} "
            f"tokens and leave no room for them: raise max_length from {question.max_length}"
        )
    rows = zip(layout.tokens(tokenizer, firsts), layout.tokens(tokenizer, seconds), strict=True)
    question_ids = []
    for first, second in rows:
        most = max(room - len(second), room // 2)
        first_tokens = first[:most]
        question_ids.append(
            [*before, *first_tokens, *between, *second[: room - len(first_tokens)], *after]
        )
    return question_ids


def answers(tokenizer: "PreTrainedTokenizerBase", question: Question) -> Answers:
    """The tokens of the two answers. Raises ValueError if the tokenizer cannot distinguish them.

    The authors' code compares the first tokens. If both answers begin with the same token, the
    first token in which they differ is compared instead.
    """
    end = layout.end_token(tokenizer)
    true, false = (
        [*ids, end] for ids in layout.tokens(tokenizer, [question.if_true, question.if_false])
    )
    unknown = tokenizer.unk_token_id
    pairs = enumerate(zip(true, false, strict=False))
    place = next((number for number, (a, b) in pairs if a != b), None)
    if place is None or (unknown is not None and unknown in (true[place], false[place])):
        raise ValueError(
            f"the tokenizer cannot tell the answers {question.if_true!r} and {question.if_false!r} "
            "apart: take a model with another one"
        )
    return Answers(true, false, place)
