"""Decoding against transformers' generate, against a literal reference, and in other batches."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from tiny_generators import tiny_causal, tiny_seq2seq
from tiny_models import WORDS
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    LogitsProcessorList,
    NoRepeatNGramLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from tercet.models.generators import draws, layout
from tercet.models.generators.decode import NotFinite, Written, candidates, decode
from tercet.models.generators.settings import Decoding

LIMIT = 24


class Tiny:
    """A model with prompts of different lengths."""

    def __init__(self, path: Path, kind: str) -> None:
        auto: Any = AutoModelForCausalLM if kind == "causal" else AutoModelForSeq2SeqLM
        self.kind, self.model = kind, auto.from_pretrained(path).eval()
        tokenizer = AutoTokenizer.from_pretrained(path)
        self.end = int(tokenizer.eos_token_id)
        draw = np.random.default_rng(4)
        texts = [" ".join(draw.choice(WORDS, draw.integers(2, 9))) for _ in range(24)]
        self.prompts = layout.prompts(tokenizer, layout.read(path), texts)
        # Tokens before the answer in what generate returns.
        self.before = [len(p) if kind == "causal" else 1 for p in self.prompts]

    def write(self, rows: Sequence[int], how: Decoding, limit: int = LIMIT) -> list[Written]:
        """What is written for these rows, whose seeds are their numbers."""
        prompts = [self.prompts[row] for row in rows]
        limits = [limit] * len(rows)
        return decode(self.model, prompts, list(rows), limits, self.end, how, lambda: None)

    def logits(self, row: int, written: list[int]) -> torch.Tensor:
        """What the model says next, computed anew from all tokens of one row."""
        with torch.inference_mode():
            if self.kind == "causal":
                ids = torch.tensor([[*self.prompts[row], *written]])
                return self.model(input_ids=ids).logits[0, -1]
            ids = torch.tensor([self.prompts[row]])
            decoded = torch.tensor([[0, *written]])
            return self.model(input_ids=ids, decoder_input_ids=decoded).logits[0, -1]


@pytest.fixture(scope="module", params=["causal", "t5"])
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp(request.param) / "model"
    make = tiny_causal if request.param == "causal" else tiny_seq2seq
    return Tiny(make(folder, WORDS), request.param)


def _banned(said: list[int], size: int) -> list[int]:
    last = said[len(said) - size + 1 :]
    places = range(len(said) - size + 1)
    return [said[place + size - 1] for place in places if said[place : place + size - 1] == last]


@pytest.mark.parametrize("no_repeat", [0, 1, 2])
@pytest.mark.parametrize("beams", [1, 3])
def test_without_draws_it_writes_what_transformers_writes(
    tiny: Tiny, beams: int, no_repeat: int
) -> None:
    how = Decoding(temperature=0, beams=beams, no_repeat=no_repeat)
    rows = range(len(tiny.prompts))
    ours = tiny.write(rows, how)
    compared = 0
    for row in rows:
        prompt, before = torch.tensor([tiny.prompts[row]]), tiny.before[row]
        told = tiny.model.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            num_beams=beams,
            max_new_tokens=LIMIT,
            eos_token_id=tiny.end,
            pad_token_id=tiny.end,
            no_repeat_ngram_size=no_repeat,
        )[0].tolist()[before:]
        ended = tiny.end in told
        theirs = Written(told[: told.index(tiny.end)] if ended else told, ended)
        if ours[row].ended and not theirs.ended:
            # Theirs may prefer a text that the limit cut off; ours never does.
            continue
        assert ours[row] == theirs
        compared += 1
    assert compared >= len(tiny.prompts) // 4


HOWS = [
    Decoding(beams=1, no_repeat=0, top_k=0),
    Decoding(beams=1, no_repeat=2, top_k=10, top_p=0.9, temperature=1.3),
    Decoding(beams=3, no_repeat=2, top_k=50),
    Decoding(beams=3, no_repeat=2, top_k=0, top_p=0.8, temperature=0.7),
    Decoding(beams=2, no_repeat=0, temperature=0),
]


def test_an_answer_repeats_no_n_gram_of_the_prompt_that_it_follows(tiny: Tiny) -> None:
    rows = range(len(tiny.prompts))
    written = tiny.write(rows, Decoding(beams=1, no_repeat=1, top_k=0, temperature=2.0))
    shared = [set(tiny.prompts[row]) & set(one.tokens) for row, one in enumerate(written)]
    # An encoder's source is no part of what the decoder says.
    assert any(shared) == (tiny.kind == "t5")


@pytest.mark.parametrize("how", HOWS, ids=range(len(HOWS)))
def test_a_rows_text_does_not_depend_on_its_batch(tiny: Tiny, how: Decoding) -> None:
    rows = list(range(len(tiny.prompts)))
    whole = tiny.write(rows, how)
    assert len({tuple(one.tokens) for one in whole}) > len(rows) // 2
    order = np.random.default_rng(0).permutation(rows).tolist()
    for size in (1, 5, len(rows)):
        for start in range(0, len(rows), size):
            batch = order[start : start + size]
            assert tiny.write(batch, how) == [whole[row] for row in batch]


def test_limits_are_each_rows_own(tiny: Tiny) -> None:
    how = HOWS[0]
    prompts, seeds = [tiny.prompts[3]] * 4, [3] * 4
    limits = [1, 2, 5, LIMIT]
    found = decode(tiny.model, prompts, seeds, limits, tiny.end, how, lambda: None)
    whole = found[-1]
    for one, limit in zip(found, limits, strict=True):
        cut = len(whole.tokens) + whole.ended > limit
        assert one == (Written(whole.tokens[:limit], False) if cut else whole)


def _gumbel(row: int, step: int, count: int) -> list[float]:
    """The noise of a row's candidates, by the definition."""
    found = draws.uniforms(torch.tensor(row), draws.TOKEN, torch.tensor(step), torch.arange(count))
    return [-math.log(-math.log(one)) for one in found.tolist()]


def _scores(tiny: Tiny, row: int, said: list[int], how: Decoding) -> dict[int, float]:
    """The tokens that may come next, and their scores, one filter after the other."""
    log = torch.log_softmax(tiny.logits(row, said), -1).tolist()
    kept = dict(enumerate(log))
    if how.no_repeat:
        before = tiny.prompts[row] if tiny.kind == "causal" else [0]
        banned = _banned([*before, *said], how.no_repeat)
        kept = {t: s for t, s in kept.items() if t not in banned}
    kept = {token: score / how.temperature for token, score in kept.items()}
    best = sorted(kept, key=lambda token: -kept[token])
    best = best[: how.top_k or None]
    total = sum(math.exp(kept[token]) for token in best)
    found: dict[int, float] = {}
    mass = 0.0
    for token in best:
        if mass >= how.top_p and len(found) >= (1 if how.beams == 1 else 2):
            break
        found[token] = kept[token]
        mass += math.exp(kept[token]) / total
    return found


def _beams_by_hand(tiny: Tiny, row: int, how: Decoding) -> Written:
    """Sampled beams of one row: no cache, no tensors, each step from all tokens anew."""
    size = tiny.model.config.vocab_size
    beams: list[tuple[list[int], float]] = [([], 0.0)]
    done: list[tuple[float, list[int]]] = []
    for step in range(LIMIT):
        options = [
            (score + total, slot, token)
            for slot, (said, total) in enumerate(beams)
            for token, score in _scores(tiny, row, said, how).items()
        ]
        noise = _gumbel(row, step, how.beams * size)
        options.sort(key=lambda one, noise=noise: -(one[0] + noise[one[1] * size + one[2]]))
        drawn = options[: 2 * how.beams]
        for place, (score, slot, token) in enumerate(drawn):
            if token == tiny.end and place < how.beams:
                done.append((score / (step + 1), beams[slot][0]))
        done = sorted(done, key=lambda one: -one[0])[: how.beams]
        going = sorted((o for o in drawn if o[2] != tiny.end), key=lambda option: -option[0])
        beams = [([*beams[slot][0], token], score) for score, slot, token in going[: how.beams]]
        if len(done) == how.beams and beams[0][1] / (step + 1) <= done[-1][0]:
            break
    return Written(done[0][1], True) if done else Written(beams[0][0], False)


@pytest.mark.parametrize("how", HOWS[2:4], ids=["top_k", "top_p"])
def test_sampled_beams_are_those_of_a_literal_reference(tiny: Tiny, how: Decoding) -> None:
    rows = range(0, len(tiny.prompts), 6)
    expected = [_beams_by_hand(tiny, row, how) for row in rows]
    # The T5's tokenizer differs from process to process, and with it whether a text ends.
    assert tiny.kind == "t5" or any(one.ended for one in expected)
    assert tiny.write(rows, how) == expected


def test_plain_sampling_follows_the_models_distribution(tiny: Tiny) -> None:
    how = Decoding(beams=1, no_repeat=0, top_k=8, temperature=1.5)
    count, row = 4000, 2
    found = decode(
        tiny.model, [tiny.prompts[row]] * count, range(count), [1] * count, tiny.end, how, _go
    )
    drawn = [tiny.end if one.ended else one.tokens[0] for one in found]
    scores = _scores(tiny, row, [], how)
    shares = np.exp(list(scores.values()))
    counts = [drawn.count(token) for token in scores]
    assert sum(counts) == count
    assert chisquare(counts, shares / shares.sum() * count).pvalue > 0.001


def _go() -> None:
    pass


def test_a_spoilt_model_is_noticed(tiny: Tiny) -> None:
    weight = tiny.model.get_input_embeddings().weight
    before = weight.data.clone()
    try:
        weight.data[:] = math.nan
        with pytest.raises(NotFinite):
            tiny.write([0], HOWS[0])
    finally:
        weight.data.copy_(before)


class _Noisy(torch.nn.Module):
    """A causal model whose last hidden states get noise that it draws by row and position."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner, self.config, self.device = inner, inner.config, inner.device

    def row_noise(self, seeds: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return draws.normals(seeds, positions, self.config.n_embd)

    def forward(self, noise: torch.Tensor, **given: Any) -> Any:
        embedded = self.inner.get_input_embeddings()(given.pop("input_ids"))
        return self.inner(inputs_embeds=embedded + noise, **given)


def test_noise_is_drawn_by_row_and_position(tiny: Tiny) -> None:
    if tiny.kind == "t5":
        pytest.skip("noise is a causal model's")
    noisy: Any = _Noisy(tiny.model)
    rows = range(10)
    plain = tiny.write(rows, Decoding(temperature=0, beams=2))
    limits = [LIMIT] * 10
    for how in (Decoding(temperature=0, beams=2), Decoding(temperature=0, beams=1), HOWS[2]):
        whole = decode(noisy, tiny.prompts[:10], rows, limits, tiny.end, how, _go)
        assert whole != plain
        for row in rows:
            alone = decode(noisy, [tiny.prompts[row]], [row], [LIMIT], tiny.end, how, _go)
            assert alone == [whole[row]]
        # Without draws, only the noise tells two generations of a source apart.
        again = decode(noisy, [tiny.prompts[2]] * 6, range(6), [LIMIT] * 6, tiny.end, how, _go)
        assert len({tuple(one.tokens) for one in again}) > 2


ROWS, SIZE = 40, 30


def _given() -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and what was written before: few different tokens, so that n-grams come again."""
    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(ROWS, SIZE, generator=draw) * 3
    return logits, torch.randint(0, 4, (ROWS, 12), generator=draw)


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("top_p", [1.0, 0.9, 0.2])
@pytest.mark.parametrize("top_k", [0, 7])
@pytest.mark.parametrize("no_repeat", [0, 1, 2, 3])
def test_the_scores_are_those_of_transformers_filters(
    beams: int, top_p: float, top_k: int, no_repeat: int
) -> None:
    logits, written = _given()
    filters = LogitsProcessorList()
    if no_repeat:
        filters.append(NoRepeatNGramLogitsProcessor(no_repeat))
    filters.append(TemperatureLogitsWarper(0.7))
    if top_k:
        filters.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        filters.append(TopPLogitsWarper(top_p, min_tokens_to_keep=beams))
    expected = filters(written, torch.log_softmax(logits, -1))
    how = Decoding(temperature=0.7, top_p=top_p, top_k=top_k, beams=beams, no_repeat=no_repeat)
    found = candidates(logits, written, how)
    scores = torch.full_like(logits, -torch.inf).scatter(1, found.tokens, found.scores)
    assert torch.equal(scores.isinf(), expected.isinf())
    assert torch.allclose(scores, expected, atol=1e-5)


def test_a_ban_begins_with_the_first_whole_n_gram() -> None:
    logits = torch.zeros(1, 5)
    how = Decoding(no_repeat=3, beams=1, top_k=0)
    for written, banned in (([], []), ([1, 2], []), ([1, 2, 3], []), ([1, 2, 3, 1, 2], [3])):
        for padding in (0, 1, 3, 5):
            said = torch.tensor([[-1] * padding + written], dtype=torch.int64)
            found = candidates(logits, said, how)
            assert found.scores[0].isinf().nonzero().flatten().tolist() == banned


def test_draws_are_even_and_differ_by_every_argument() -> None:
    seeds, indices = torch.arange(200)[:, None], torch.arange(300)
    drawn = draws.uniforms(seeds, draws.TOKEN, torch.tensor(3), indices)
    assert drawn.min() > 0
    assert drawn.max() < 1
    counts = torch.histc(drawn.float(), bins=50, min=0, max=1)
    # 1,200 a bin, with a standard deviation of 34.
    assert (counts - 1200).abs().max() < 170
    others = [
        draws.uniforms(seeds, draws.NOISE, torch.tensor(3), indices),
        draws.uniforms(seeds, draws.TOKEN, torch.tensor(4), indices),
        draws.uniforms(seeds + 200, draws.TOKEN, torch.tensor(3), indices),
        draws.uniforms(seeds, draws.TOKEN, torch.tensor(3), indices + 300),
    ]
    for other in others:
        pair = torch.stack([drawn.flatten(), other.flatten()])
        assert abs(float(torch.corrcoef(pair)[0, 1])) < 0.02


def test_noise_is_normal_and_does_not_depend_on_the_batch() -> None:
    seeds = torch.tensor([7, 8, 9])
    positions = torch.arange(40).expand(3, 40)
    noise = draws.normals(seeds, positions, 64)
    assert noise.shape == (3, 40, 64)
    assert abs(float(noise.mean())) < 0.04
    assert abs(float(noise.std()) - 1) < 0.04
    assert torch.equal(draws.normals(seeds[1:2], positions[1:2, 17:18], 64), noise[1:2, 17:18])
