"""A fitted generator answers like a language model's client: all rows, each recorded first."""

import json
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from failures import fails
from safetensors.torch import load_file, save_file
from tiny_generators import SEPARATOR, tiny_causal, tiny_seq2seq
from tiny_models import WORDS
from transformers import AutoTokenizer

from tercet.models.errors import CeilingReached, Stopped, Unusable
from tercet.models.generators import generator, layout
from tercet.models.generators.generator import Local
from tercet.models.generators.layout import Layout
from tercet.models.generators.settings import Decoding
from tercet.models.llm.messages import Answer, Request

HOW = Decoding(max_tokens=12, max_new=None)


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_causal(tmp_path_factory.mktemp("causal") / "model", WORDS)


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_seq2seq(tmp_path_factory.mktemp("t5") / "model", WORDS)


def _requests(count: int, first: int = 0, how: Decoding = HOW) -> list[Request]:
    texts = [" ".join(WORDS[i % 9 : i % 9 + 1 + i % 11]) for i in range(first, first + count)]
    return [
        Request(first + i, text, how, seed=first + i, source=text, digest=f"d{first + i}")
        for i, text in enumerate(texts)
    ]


def _local(folder: Path, record: list[tuple[Request, Answer]], batch_size: int = 8) -> Local:
    return Local(folder, "fp32", "cpu", "tiny@1", batch_size, lambda *pair: record.append(pair))


def _by_place(answers: Sequence[Answer]) -> dict[int, tuple[str, str, int]]:
    return {one.place: (one.raw, one.finish_reason, one.n_tokens) for one in answers}


@pytest.mark.parametrize("kind", ["causal", "t5"])
def test_every_request_is_answered_once_and_recorded_first(
    kind: str, request: pytest.FixtureRequest
) -> None:
    record: list[tuple[Request, Answer]] = []
    local = _local(request.getfixturevalue(kind), record)
    requests = _requests(50)
    answers = []
    for answer in local.ask(iter(requests)):
        assert answer in [recorded for _, recorded in record]
        answers.append(answer)
    assert sorted(one.place for one in answers) == list(range(50))
    assert all(asked.digest == one.digest for asked, one in record)
    assert {one.finish_reason for one in answers} <= {"stop", "length"}
    # A text may also end with its last token.
    assert all(one.n_tokens <= 12 for one in answers)
    assert all(one.n_tokens == 12 for one in answers if one.finish_reason == "length")
    assert {one.endpoint for one in answers} == {"local"}


def test_a_ceiling_loses_nothing_that_is_written(causal: Path) -> None:
    kept: list[int] = []

    def record(request: Request, answer: Answer) -> None:
        kept.append(answer.place)
        if len(kept) > 2:
            raise CeilingReached("no_space", "That was enough.")

    local = Local(causal, "fp32", "cpu", "tiny@1", 8, record)
    with pytest.raises(CeilingReached):
        list(local.ask(_requests(24)))
    assert len(set(kept)) == len(kept) == 8


def test_answers_depend_on_neither_batch_nor_thread(causal: Path) -> None:
    # Beams compare many scores: of those some differ by rounding alone.
    how = Decoding(max_tokens=12, max_new=None, beams=1)
    alone = _by_place(list(_local(causal, [], batch_size=1).ask(_requests(60, how=how))))
    assert len({raw for raw, _, _ in alone.values()}) > 30
    record: list[tuple[Request, Answer]] = []
    local = _local(causal, record, batch_size=7)
    threads = [
        threading.Thread(target=lambda first=first: list(local.ask(_requests(20, first, how))))
        for first in (0, 20, 40)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _by_place([answer for _, answer in record]) == alone


def test_the_limit_follows_the_source(causal: Path) -> None:
    loaded = generator.load(causal, "fp32", "cpu")
    requests = _requests(40, how=Decoding(max_new=2.0, max_tokens=40))
    asked = generator.prompts(loaded, requests)
    texts = generator.texts(loaded, asked, [r.seed for r in requests], requests[0].sampling, _go)
    # The layout has 96 places, the source's template one.
    limits = [min(40, 2 * (len(prompt) - 1) + 8, 96 - len(prompt)) for prompt in asked]
    cut = [text.n_tokens == limit for text, limit in zip(texts, limits, strict=True)]
    assert all(t.n_tokens <= limit for t, limit in zip(texts, limits, strict=True))
    assert any(not text.ended for text in texts)
    assert all(is_cut for text, is_cut in zip(texts, cut, strict=True) if not text.ended)


def _go() -> None:
    pass


def test_an_instruction_is_never_cut(causal: Path, tmp_path: Path) -> None:
    folder = _copy(causal, tmp_path)
    layout.write(
        folder, Layout(form="causal", separator=SEPARATOR, max_length=96, follows_prompts=True)
    )
    loaded = generator.load(folder, "fp32", "cpu")
    long = "the old file " * 60
    prompt = f"Say again: {long} And briefly."
    asked = generator.prompts(loaded, [Request(0, prompt, HOW, 0, source=long)])[0]
    text = loaded.tokenizer.decode(asked)
    assert text.startswith("Say again: the old file")
    assert text.endswith(f" And briefly.{SEPARATOR}")
    assert len(asked) <= 48
    endless = Request(0, "again " * 90 + "a", HOW, 0, source="a")
    with pytest.raises(Unusable):
        generator.prompts(loaded, [endless])


def test_a_closed_generator_stops_in_the_middle(causal: Path) -> None:
    local: Local | None = None

    def record(request: Request, answer: Answer) -> None:
        threading.Thread(target=local.close).start() if len(seen) == 0 else None
        seen.append(request)

    seen: list[Request] = []
    local = Local(causal, "fp32", "cpu", "tiny", 1, record)
    with pytest.raises(Stopped):
        # Far more than are written before the other thread has closed it.
        list(local.ask(_requests(2000)))
    assert len(seen) < 2000
    local.close()
    with pytest.raises(Stopped):
        list(local.ask(_requests(1)))


def _copy(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to / "copy"))


def test_another_directory_is_no_generator(tiny_backbone: Path) -> None:
    with fails("unreadable", "generator.json"):
        generator.load(tiny_backbone, "fp32", "cpu")


def _of_another_model(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([f"word{i}" for i in range(50)])
    tokenizer.save_pretrained(folder)


LONG = Layout(form="causal", separator=SEPARATOR, max_length=500)


@pytest.mark.parametrize(
    ("spoil", "name"),
    [
        (lambda folder: layout.write(folder, LONG), "max_length"),
        (lambda folder: layout.write(folder, Layout(form="t5")), "copy"),
        (lambda folder: (folder / "model.safetensors").unlink(), "copy"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"garbage"), "copy"),
        (_of_another_model, "copy"),
    ],
)
def test_what_cannot_be_a_generator(
    causal: Path, tmp_path: Path, spoil: Callable[[Path], object], name: str
) -> None:
    folder = _copy(causal, tmp_path)
    spoil(folder)
    with pytest.raises(Unusable, match=name):
        generator.load(folder, "fp32", "cpu")


def test_custom_code_is_not_run(causal: Path, tmp_path: Path) -> None:
    folder = _copy(causal, tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "ours"}
    config |= {"auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text("raise SystemExit('was run')")
    with pytest.raises(Unusable):
        generator.load(folder, "fp32", "cpu")


def test_a_model_with_nan_answers_nothing(causal: Path, tmp_path: Path) -> None:
    folder = _copy(causal, tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights["transformer.ln_f.weight"] = torch.full_like(
        weights["transformer.ln_f.weight"], torch.nan
    )
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(Unusable):
        list(_local(folder, []).ask(_requests(3)))
