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


class Question(BaseModel):
    """How a pair is judged: `before FIRST between SECOND after`, answered by one of two words.

    max_length: tokens of the whole. asked: the templates of the two methods, as it learnt them.
    slope, shift: P(true) is 1 / (1 + e^-(slope · logit + shift)), where the logit is the difference
        of the two words' (Platt's calibration); 1 and 0 make it the plain softmax.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    before: str = "Known: "
    between: str = " Claimed: "
    after: str = " True or false?"
    true: str = "true"
    false: str = "false"
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
    """The templates as they are rendered, by method."""
    found = {}
    for name in DATA_FILES:
        path = Path(__file__).parent / name
        found[path.stem] = path.read_text(encoding="utf-8").rstrip()
    return found


def around(method: str) -> tuple[str, str]:
    """The text before and after a sentence in this method's template."""
    before, _, after = asked()[method].partition(_SENTENCE)
    return before, after


def write(folder: Path, question: Question) -> None:
    """Writes the question beside the model's files."""
    text = question.model_dump_json(indent=2)
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
            "fit_generator has made with form: gense"
        ) from None
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"])) or "the file"
        raise ValueError(f"{path}: {key}: {fault['msg']}") from None


def fault(folder: Path, method: str, own_prompt: bool) -> str | None:
    """Why the generator in this directory cannot be asked this method's words; None where it can.

    own_prompt: whether the recipe has its own. A model without a question is no GenSE model, and
    what it can be asked is for others to judge.
    """
    if not (folder / FILE).is_file():
        return None
    try:
        known = read(folder).asked
    except ValueError as error:
        return str(error)
    if method not in known:
        return f"it was fitted to {' and '.join(known)} alone"
    if own_prompt or known[method] != asked().get(method):
        return f"it was fitted to the words {known[method]!r}, and would be asked in others"
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
    found = []
    for first, second in rows:
        most = max(room - len(second), room // 2)
        kept = first[:most]
        found.append([*before, *kept, *between, *second[: room - len(kept)], *after])
    return found


def answers(tokenizer: "PreTrainedTokenizerBase", question: Question) -> Answers:
    """The tokens of the two answers. Raises ValueError where the tokenizer has no words for them.

    The public code compares the first token alone. With a tokenizer that begins both words with
    the same token, the first is meant in which they differ.
    """
    end = layout.end_token(tokenizer)
    true, false = ([*ids, end] for ids in layout.tokens(tokenizer, [question.true, question.false]))
    unknown = tokenizer.unk_token_id
    pairs = enumerate(zip(true, false, strict=False))
    place = next((number for number, (a, b) in pairs if a != b), None)
    if place is None or (unknown is not None and unknown in (true[place], false[place])):
        raise ValueError(
            f"the tokenizer cannot tell the answers {question.true!r} and {question.false!r} "
            "apart: take a model with another one"
        )
    return Answers(true, false, place)
