"""A generator's layout as text, for a server that tokenises prompts itself."""

from collections.abc import Callable
from pathlib import Path

from tercet.models.generators import layout
from tercet.models.generators.layout import Layout


def renderer(folder: Path, laid: Layout) -> tuple[Callable[[list[str]], list[str]], int]:
    """What turns causal sources into prompts, and the most tokens that an answer may have.

    A source that is too long is cut; where it is a whole prompt (`follows_prompts`) it is not, and
    the server refuses it. Raises ValueError if the tokenizer is missing or the layout does not fit.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
    except (KeyError, OSError) as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"The tokenizer in {folder} cannot be loaded: {said}.") from None
    most = layout.room(tokenizer, laid)
    around = sum(map(len, layout.template(tokenizer, laid)))

    def render(sources: list[str]) -> list[str]:
        if not laid.follows_prompts:
            found = tokenizer(
                sources, add_special_tokens=False, return_offsets_mapping=True, verbose=False
            )
            sources = [
                source[: ends[most - 1][1]] if len(ends) > most else source
                for source, ends in zip(sources, found["offset_mapping"], strict=True)
            ]
        end = laid.separator or ""
        return [f"{laid.before}{source}{laid.after}{end}" for source in sources]

    return render, laid.max_length - around - most
