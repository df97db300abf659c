"""The words in which GenSE's T5 is taught, asked and judges. No torch here.

The paper has a template for each of three tasks (table 1; ours are in our own words): to write what
follows from a sentence, to write what contradicts it, and to tell whether the second of two
sentences follows from the first. The pieces of a template are tokenised apart from the sentences,
so that a sentence has the same tokens wherever it stands, and only sentences are ever cut.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tercet.models.generators import layout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FILE = "judge.json"
DATA_FILES = ("prompts/entailment.jinja", "prompts/contradiction.jinja")
_SENTENCE = "{{ sentence }}"


class Words(BaseModel):
    """The words of a judgement: `before FIRST between SECOND after`, answered by one of two."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    before: str = Field(default="Known: ", description="Text before the first sentence.")
    between: str = Field(default=" Claimed: ", description="Text between the two.")
    after: str = Field(default=" True or false?", description="Text after the second.")
    # Not `true` and `false`, which as keys of YAML are no text.
    if_true: str = Field(default="true", min_length=1, description="The answer if it follows.")
    if_false: str = Field(default="false", min_length=1, description="The answer if not.")


class Question(Words):
    """How a pair is judged by a certain model.

    if_true, if_false: `true` and `false` in the file. max_length: tokens of the whole. asked: the
        templates of the two methods, as it learnt them.
    slope, shift: P(true) is 1 / (1 + e^-(slope · logit + shift)), where the logit is the difference
        of the two words' (Platt's calibration); 1 and 0 make it the plain softmax.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)

    if_true: str = Field(default="true", min_length=1, alias="true")
    if_false: str = Field(default="false", min_length=1, alias="false")
    max_length: int = Field(ge=8)
    asked: Mapping[str, str]
    slope: float = 1.0
    shift: float = 0.0


class Answers(NamedTuple):
    """The tokens of the two answers, each with the end of text, and where they differ.

    place: of the first token in which they differ, nearly always 0.
    """

    true: list[int]
    false: list[int]
    place: int


def prompt_path(method: str) -> Path:
    """The template of this method: `entailment` or `contradiction`."""
    return Path(__file__).parent / "prompts" / f"{method}.jinja"


def asked() -> dict[str, str]:
    """Our templates as they are rendered, by method."""
    names = (Path(name).stem for name in DATA_FILES)
    return {name: template_in(prompt_path(name)) for name in names}


def template_in(path: Path) -> str:
    """The template in a prompt file.

    Raises ValueError where it is more than words around one sentence: what is fitted to it must
    be asked in the very same tokens.
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
    text = question.model_dump_json(indent=2, by_alias=True)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def read(folder: Path) -> Question:
    """The question of the model in this directory.

    Raises ValueError with one sentence if there is none, or if it is not valid.
    """
    path = folder / FILE
    try:
        return Question.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(
            f"the model in {folder} judges nothing, since it has no {FILE}: name one that "
            "fit_generator has made with form: gense, or give the words in which this one judges "
            "as score.gense.question"
        ) from None
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"])) or "the file"
        raise ValueError(f"{path}: {key}: {fault['msg']}") from None


def question_of(folder: Path, words: Words | None) -> Question:
    """The question of the model in this directory, or these words for one that has none.

    Such a model comes from elsewhere, and its probability is not calibrated. Raises ValueError
    where there are no words, or words for a model that has its own.
    """
    if words is None:
        return read(folder)
    if (folder / FILE).is_file():
        raise ValueError(
            f"the model in {folder} judges in the words of its {FILE}: leave score.gense.question "
            "out"
        )
    return Question(max_length=layout.T5_LENGTH, asked={}, **words.model_dump())


def fault(folder: Path, method: str, prompt: Path | None) -> str | None:
    """Why the generator in this directory cannot be asked this method so; None where it can.

    prompt: the file of the words that it would be asked in. Of a model that is not GenSE's others
    judge what it can be asked.
    """
    if not (folder / FILE).is_file():
        foreign = not (folder / layout.FILE).is_file() and method in asked()
        if foreign and prompt == prompt_path(method):
            return f"only you know in what words: write them into a file, as {method}.prompt"
        return None
    try:
        prompts = read(folder).asked
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
    """What the encoder reads for each pair, closed by the end of text.

    Where both sentences do not fit, the longer is cut first. Raises ValueError where the words of
    the question leave no room for them.
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
    """The tokens of the two answers. Raises ValueError where the tokenizer has no words for them.

    The public code compares the first token alone. With a tokenizer that begins both words with
    the same token, the first is meant in which they differ.
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
