"""A generator's layout for a server: the token ids that it is to read."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tercet.models.generators import layout
from tercet.models.generators.layout import Layout
from tercet.models.llm.messages import Request


def renderer(
    folder: Path, laid: Layout
) -> tuple[Callable[[Sequence[Request]], list[list[int]]], int]:
    """What turns causal sources into prompts, and the most tokens that an answer may have.

    The tokens are those that the model was fitted to: a server that tokenised text itself would
    join the template's words with the source's, and read the name of a special token as the token.
    A source that is too long is cut; where it is a whole prompt (`follows_prompts`) it is not, and
    the server refuses it. Raises ValueError if the tokenizer is missing or the layout does not fit.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
    except (KeyError, OSError, ValueError) as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"The tokenizer in {folder} cannot be loaded: {said}.") from None
    most = layout.room(tokenizer, laid)
    before, after = layout.template(tokenizer, laid)

    def render(requests: Sequence[Request]) -> list[list[int]]:
        sources = [request.prompt for request in requests]
        if laid.follows_prompts:
            return [[*before, *ids, *after] for ids in layout.tokens(tokenizer, sources)]
        return layout.prompts(tokenizer, laid, sources)

    return render, laid.max_length - len(before) - len(after) - most
