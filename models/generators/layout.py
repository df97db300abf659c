"""Layout of a generator's source and target in tokens.

A causal model (GPT-2, VAEGPT) reads `before source after <separator>` and continues with
`target <eos>`. T5's encoder reads `before source after <eos>`, and its decoder writes
`target <eos>`. Fitting and decoding use the same functions below, so a model always sees the layout
that it was fitted to. The layout is the file `generator.json` in the model's directory. A published
T5 without that file reads the bare prompt.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field, ValidationError, model_validator

from tercet.errors import InvalidSetting
from tercet.models.config import Config
from tercet.models.llm.messages import Request
from tercet.models.pretraining.forms import form_fault

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

T = TypeVar("T", bound=Config)
FILE = "generator.json"
# Length in tokens of T5's pre-training. Its positions are relative, so there is no hard limit.
T5_LENGTH = 512


class Layout(Config):
    """The template around a source, and the maximum length.

    form: kind of model; vaegpt has the layout of causal.
    before, after: the template, text around the source, tokenised separately from it.
    separator: the vocabulary's token that ends a causal prompt; None for T5.
    max_length: tokens of prompt and target together; for T5, of each of them.
    follows_prompts: whether the source may be a whole prompt with instructions.
    """

    form: Literal["causal", "vaegpt", "t5"]
    before: str = ""
    after: str = ""
    separator: str | None = None
    max_length: int = Field(128, ge=8)
    follows_prompts: bool = False

    @model_validator(mode="after")
    def _separated(self) -> "Layout":
        if (self.separator is None) != (self.form == "t5"):
            raise InvalidSetting(
                "missing_key", "`separator` belongs to a causal model, and such a model needs it"
            )
        return self


def write(folder: Path, layout: Layout) -> None:
    """Writes the layout beside the model's files."""
    text = json.dumps(layout.model_dump(), indent=2, ensure_ascii=False)
    (folder / FILE).write_text(text + "\n", encoding="utf-8")


def save(folder: Path, model: Any, tokenizer: Any, layout: Layout) -> Path:
    """A generator as a transformers directory of safetensors and JSON, with its layout."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write(folder, layout)
    return folder


def read(folder: Path) -> Layout:
    """The layout of the model in this directory; bare prompts for a T5 without a layout.

    Raises ValueError with one sentence if the layout is missing or not valid.
    """
    path = folder / FILE
    if not path.is_file() and form_fault(folder, "t5") is None:
        return Layout(form="t5", max_length=T5_LENGTH, follows_prompts=True)
    missing = (
        f"The model in {folder} cannot be a generator: it has no {FILE}, which says how its text "
        "is laid out. Fit it with fit_generator, or write that file."
    )
    return validated(Layout, path, missing)


def validated(kind: type[T], path: Path, missing: str) -> T:
    """A JSON file as a pydantic model. Raises ValueError with `missing` if there is no file, else
    with the invalid key."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(missing) from None
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"])) or "the file"
        raise ValueError(f"{path}: {key}: {fault['msg']}") from None


def prompts(
    tokenizer: "PreTrainedTokenizerBase",
    layout: Layout,
    sources: Sequence[str],
    around: Sequence[tuple[str, str]] | None = None,
) -> list[list[int]]:
    """The prompt of each source: of a causal model, or the input of T5's encoder.

    A source that is too long is cut, the template never. In a causal layout the source gets half of
    the tokens that the template leaves, so that the target may be as long. around: an instruction
    before and after each source, which is never cut. Raises ValueError if an instruction leaves no
    room, or if tokenizer and layout do not fit.
    """
    before, after = template(tokenizer, layout)
    most = room(tokenizer, layout)
    rows = tokens(tokenizer, sources)
    if around is None:
        return [[*before, *ids[:most], *after] for ids in rows]
    firsts = tokens(tokenizer, [first for first, _ in around])
    lasts = tokens(tokenizer, [last for _, last in around])
    prompt_ids = []
    for first, ids, last in zip(firsts, rows, lasts, strict=True):
        left = most - len(first) - len(last)
        if ids and left < 1:
            raise ValueError(
                f"An instruction of {len(first) + len(last)} tokens leaves no room for its "
                f"sentence: {FILE} allows {most} tokens in all."
            )
        prompt_ids.append([*before, *first, *ids[: max(left, 0)], *last, *after])
    return prompt_ids


def parted(request: Request) -> tuple[str, str, str]:
    """Splits a request's prompt into text before its source, the source, and text after it."""
    if not request.source or request.source not in request.prompt:
        return request.prompt, "", ""
    return request.prompt.partition(request.source)


def targets(
    tokenizer: "PreTrainedTokenizerBase",
    layout: Layout,
    texts: Sequence[str],
    prompt_ids: Sequence[Sequence[int]],
) -> list[list[int]]:
    """The tokens that the model should write after each prompt: the target, then <eos>.

    A target that is too long is cut and then has no <eos>.
    """
    end = end_token(tokenizer)
    used_lengths = (
        [0] * len(prompt_ids) if layout.form == "t5" else [len(prompt) for prompt in prompt_ids]
    )
    return [
        [*ids, end][: layout.max_length - used]
        for ids, used in zip(tokens(tokenizer, texts), used_lengths, strict=True)
    ]


def template(tokenizer: "PreTrainedTokenizerBase", layout: Layout) -> tuple[list[int], list[int]]:
    """The tokens before and after a source, separator or <eos> included. Raises ValueError."""
    before, after = tokens(tokenizer, [layout.before, layout.after])
    if layout.form == "t5":
        return before, [*after, end_token(tokenizer)]
    separator = tokenizer.get_vocab().get(str(layout.separator))
    if separator is None:
        raise ValueError(
            f"The tokenizer does not know the separator {layout.separator!r} of {FILE}: add it to "
            "the vocabulary, or name one of its tokens."
        )
    return before, [*after, int(separator)]


def room(tokenizer: "PreTrainedTokenizerBase", layout: Layout) -> int:
    """Most tokens of a source. Raises ValueError if the template leaves none."""
    before, after = template(tokenizer, layout)
    left = layout.max_length - len(before) - len(after)
    most = left if layout.form == "t5" else (left - 1) // 2
    if most < 1:
        raise ValueError(
            f"The template of {FILE} leaves no room for a source: raise max_length from "
            f"{layout.max_length}."
        )
    return most


def end_token(tokenizer: "PreTrainedTokenizerBase") -> int:
    """The token that ends a target. Raises ValueError if the tokenizer has none."""
    end: Any = tokenizer.eos_token_id
    if not isinstance(end, int):
        raise ValueError("The tokenizer has no end-of-text token (eos_token): a target needs one.")
    return end


def tokens(tokenizer: "PreTrainedTokenizerBase", texts: Sequence[str]) -> list[list[int]]:
    """The tokens of texts; the name of a special token in a text is ordinary text."""
    if not texts:
        return []
    encoding = tokenizer(
        list(texts), add_special_tokens=False, split_special_tokens=True, verbose=False
    )
    return [list(map(int, ids)) for ids in encoding["input_ids"]]
