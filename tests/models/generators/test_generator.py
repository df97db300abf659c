"""A server reads the tokens that the model was fitted to."""

from pathlib import Path

import pytest
from tiny_generators import END, SEPARATOR, tiny_causal
from tiny_models import WORDS
from transformers import AutoTokenizer

from tercet.models.generators import layout
from tercet.models.generators.generator import renderer
from tercet.models.generators.layout import Layout
from tercet.models.llm.messages import Request
from tercet.models.llm.settings import Sampling

# A template whose letters would join a source's, and a special token by name.
SOURCES = ["the old file", f"a {END} row {SEPARATOR}", "the old file " * 50]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_causal(tmp_path_factory.mktemp("causal") / "model", WORDS)


def laid(follows_prompts: bool = False) -> Layout:
    return Layout(
        form="causal",
        separator=SEPARATOR,
        before="th",
        after="e",
        max_length=64,
        follows_prompts=follows_prompts,
    )


def test_what_is_sent_is_what_was_fitted(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    render, most = renderer(folder, laid())
    sent = render([Request(0, text, Sampling(), 1) for text in SOURCES])
    assert sent == layout.prompts(tokenizer, laid(), SOURCES)
    special = tokenizer.convert_tokens_to_ids([END, SEPARATOR])
    # The separator that ends the prompt is the only one.
    assert [[ids.count(one) for one in special] for ids in sent] == [[0, 1]] * 3
    assert tokenizer.decode(sent[1]) == f"tha {END} row {SEPARATOR}e{SEPARATOR}"
    assert max(map(len, sent)) + most == 64


def test_a_whole_prompt_is_not_cut(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    render, _ = renderer(folder, laid(follows_prompts=True))
    sent = render([Request(0, text, Sampling(), 1) for text in SOURCES])
    assert len(sent[2]) > 64
    assert tokenizer.decode(sent[2]) == f"th{SOURCES[2]}e{SEPARATOR}"


def test_a_folder_without_a_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tokenizer"):
        renderer(tmp_path, laid())
