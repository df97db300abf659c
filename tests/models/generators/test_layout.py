"""The layout of source and target, the settings, and what a server reads of both."""

import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError
from tiny_generators import END, SEPARATOR, tiny_causal, tiny_seq2seq
from tiny_models import WORDS
from transformers import AutoTokenizer

from tercet.models.generators import layout
from tercet.models.generators.generator import renderer
from tercet.models.generators.layout import Layout
from tercet.models.generators.settings import GeneratorSettings
from tercet.models.llm.messages import Request
from tercet.models.llm.settings import Sampling


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_causal(tmp_path_factory.mktemp("causal") / "model", WORDS)


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_seq2seq(tmp_path_factory.mktemp("t5") / "model", WORDS)


def test_a_causal_row_is_source_separator_target_end(causal: Path) -> None:
    tokenizer, read = AutoTokenizer.from_pretrained(causal), layout.read(causal)
    asked = layout.prompts(tokenizer, read, ["the old file", "a red row"])
    written = layout.targets(tokenizer, read, ["the new file", "a blue row"], asked)
    rows = [tokenizer.decode(p + t) for p, t in zip(asked, written, strict=True)]
    assert rows == [
        f"the old file{SEPARATOR}the new file{END}",
        f"a red row{SEPARATOR}a blue row{END}",
    ]


def test_t5_reads_its_template_around_the_source(t5: Path) -> None:
    tokenizer, read = AutoTokenizer.from_pretrained(t5), layout.read(t5)
    asked = layout.prompts(tokenizer, read, ["the old file"])
    assert tokenizer.decode(asked[0]) == "in other words : the old file </s>"
    assert tokenizer.decode(layout.targets(tokenizer, read, ["red"], asked)[0]) == "red </s>"


@pytest.mark.parametrize(("before", "after"), [("", ""), ("say: ", " again")])
def test_a_long_source_is_cut_and_the_template_is_not(
    causal: Path, before: str, after: str
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(causal)
    narrow = Layout(form="causal", separator=SEPARATOR, before=before, after=after, max_length=40)
    long = "the old file " * 50
    prompt = layout.prompts(tokenizer, narrow, [long])[0]
    text = tokenizer.decode(prompt)
    assert text.startswith(f"{before}the old file ")
    assert text.endswith(f"{after}{SEPARATOR}")
    # The source has half of what the template leaves: a target of its length and the end fit too.
    room = layout.room(tokenizer, narrow)
    assert len(prompt) + room + 1 in (39, 40)
    target = layout.targets(tokenizer, narrow, [long], [prompt])[0]
    assert len(prompt) + len(target) == 40
    assert tokenizer.eos_token_id not in target


def test_the_separators_name_in_a_text_is_plain_text(causal: Path) -> None:
    tokenizer, read = AutoTokenizer.from_pretrained(causal), layout.read(causal)
    prompt = layout.prompts(tokenizer, read, [f"a{SEPARATOR}b{END}"])[0]
    separator = tokenizer.convert_tokens_to_ids(SEPARATOR)
    assert prompt.count(separator) == 1
    assert tokenizer.eos_token_id not in prompt
    assert tokenizer.decode(prompt) == f"a{SEPARATOR}b{END}{SEPARATOR}"


def test_a_t5_without_a_layout_is_asked_as_it_stands(t5: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    shutil.copytree(t5, plain, ignore=shutil.ignore_patterns(layout.FILE))
    laid = layout.read(plain)
    assert (laid.form, laid.before, laid.after) == ("t5", "", "")
    assert (laid.max_length, laid.follows_prompts) == (512, True)
    # Of any other model nobody knows how its answer begins.
    (plain / "config.json").write_text(
        '{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}'
    )
    with pytest.raises(ValueError, match=r"generator\.json"):
        layout.read(plain)


def test_what_does_not_fit(causal: Path, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(causal)
    with pytest.raises(ValueError, match="nowhere"):
        layout.prompts(tokenizer, Layout(form="causal", separator="<nowhere>"), ["a"])
    tight = Layout(form="causal", separator=SEPARATOR, before="the old file " * 9, max_length=16)
    with pytest.raises(ValueError, match="room"):
        layout.prompts(tokenizer, tight, ["a"])
    (tmp_path / layout.FILE).write_text('{"form": "causal"}')
    with pytest.raises(ValueError, match="separator"):
        layout.read(tmp_path)
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="end-of-text"):
        layout.targets(tokenizer, layout.read(causal), ["a"], [[1]])


# A template whose letters would join a source's, and a special token by name.
SOURCES = ["the old file", f"a {END} row {SEPARATOR}", "the old file " * 50]


def laid(follows_prompts: bool = False) -> Layout:
    return Layout(
        form="causal",
        separator=SEPARATOR,
        before="th",
        after="e",
        max_length=64,
        follows_prompts=follows_prompts,
    )


def test_what_is_sent_is_what_was_fitted(causal: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(causal)
    render, most = renderer(causal, laid())
    sent = render([Request(0, text, Sampling(), 1) for text in SOURCES])
    assert sent == layout.prompts(tokenizer, laid(), SOURCES)
    special = tokenizer.convert_tokens_to_ids([END, SEPARATOR])
    # The separator that ends the prompt is the only one.
    assert [[ids.count(one) for one in special] for ids in sent] == [[0, 1]] * 3
    assert tokenizer.decode(sent[1]) == f"tha {END} row {SEPARATOR}e{SEPARATOR}"
    assert max(map(len, sent)) + most == 64


def test_a_whole_prompt_is_not_cut(causal: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(causal)
    render, _ = renderer(causal, laid(follows_prompts=True))
    sent = render([Request(0, text, Sampling(), 1) for text in SOURCES])
    assert len(sent[2]) > 64
    assert tokenizer.decode(sent[2]) == f"th{SOURCES[2]}e{SEPARATOR}"


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="tokenizer"):
        renderer(tmp_path, laid())


def test_through_vllm_sampling_is_plain() -> None:
    how = GeneratorSettings(model="m", backend="vllm", temperature=0.7).decoding()
    assert (how.beams, how.no_repeat, how.top_k, how.max_new) == (1, 0, 0, None)
    assert (how.backend, how.temperature) == ("vllm", 0.7)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"backend": "vllm", "beams": 3}, "beams"),
        ({"backend": "vllm", "no_repeat": 4}, "no_repeat"),
        ({"beams": 8, "top_k": 10}, "top_k"),
    ],
)
def test_what_cannot_be_drawn_is_refused(given: dict[str, object], key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        GeneratorSettings.model_validate({"model": "m", **given})
