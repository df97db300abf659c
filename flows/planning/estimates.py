"""What asking a language model will take, before anybody is asked.

Prompts are rendered for the rows of some parts and a sample of them is counted with the model's own
tokenizer where its files are here; how long answers are, and how fast they come, is taken from the
store's pool.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tercet.flows.recipe.model import Recipe
from tercet.flows.running import parts
from tercet.flows.running.asker import cost, digested, identity
from tercet.flows.running.one_part import PartOrder
from tercet.models import weights
from tercet.models.llm.messages import Request
from tercet.models.llm.settings import LlmSettings
from tercet.storage.answers.pool import Pool
from tercet.tasks.corpus.sample import ANCHOR_COLUMNS, anchor_mask
from tercet.tasks.stage import Work

# Parts that are looked into, or more until so many anchors were seen; prompts that are counted.
_PARTS = 8
_ANCHORS = 200
_PROMPTS = 2000
# Multiples of it, modulo 1, lie evenly however many there are.
_GOLDEN = 0.6180339887498949
# Of a model whose tokenizer is not here.
_CHARACTERS_A_TOKEN = 4.0


@dataclass(frozen=True)
class Estimate:
    """What one step will ask.

    requests: rows to ask about, of which the pool has answered `answered`. prompt_tokens,
    answer_tokens: of the rest; answers of a method nobody has asked yet are taken to be as long
    as they may (`known_length` false). sampled: prompts behind these figures. counted: by the
    model's tokenizer, not guessed.
    seconds, money: None where no rate or price is known.
    """

    requests: int
    answered: int
    prompt_tokens: int
    answer_tokens: int
    sampled: int
    counted: bool
    known_length: bool
    seconds: float | None
    money: float | None


def estimate(recipe: Recipe, order: PartOrder, pool: Pool) -> Estimate:
    """What the step of this order will ask; nothing is asked, and nothing is written.

    (Opening the pool, which the caller does, may seal what dead runs have left in it.)
    """
    assert recipe.llm is not None
    who = identity(recipe.llm, order.components)
    count, counted = token_counter(recipe.llm)
    sampled, all_rows = _sampled(order)
    keyed = list(digested(sampled, "", recipe.llm, who))
    known = pool.find([request.digest for request in keyed])
    missing = [request for request in keyed if request.digest not in known]
    scale = all_rows / len(keyed) if keyed else 0.0
    lengths = count([request.prompt for request in missing])
    longest = sum(request.sampling.max_tokens for request in missing)
    rates = pool.rates(who.label)
    method = str(getattr(order.step.config, "method", "extract"))
    usual = None if rates is None else rates.mean_tokens.get(method)
    answers = longest if usual is None else usual * len(missing)
    prompt_tokens, answer_tokens = round(sum(lengths) * scale), round(answers * scale)
    speed = None if rates is None else rates.tokens_per_second
    return Estimate(
        requests=round(len(keyed) * scale),
        answered=round((len(keyed) - len(missing)) * scale),
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        sampled=len(keyed),
        counted=counted,
        known_length=usual is not None,
        seconds=answer_tokens / speed if speed else None,
        money=cost(recipe.run.llm, prompt_tokens, answer_tokens),
    )


def _sampled(order: PartOrder) -> tuple[list[Request], float]:
    """Some requests, evenly among those of the parts looked into, and how many there are in all.

    Those of the other parts are taken to be as many an anchor as in the parts looked into.
    """
    found: list[Request] = []
    count, every, seen = 0, 1, 0
    sources = spread(list(order.driving))
    for number, source in enumerate(sources):
        if number >= _PARTS and seen >= _ANCHORS:
            break
        seen += _anchors(_work_of(order, source))
        for request in requests_of(order, source):
            if count % every == 0:
                found.append(request)
            count += 1
            if len(found) == 2 * _PROMPTS:
                found, every = found[::2], 2 * every
    else:
        return found, count
    shares = _work_of(order, sources[0]).inputs["anchors"].table("anchor_shares")
    return found, count * sum(shares["anchors"].to_pylist()) / seen


def spread(sources: Sequence[str]) -> list[str]:
    """The same in an order of which every beginning lies evenly among all."""
    places = sorted(range(len(sources)), key=lambda place: place * _GOLDEN % 1)
    return [sources[place] for place in places]


def requests_of(order: PartOrder, source: str) -> Iterator[Request]:
    """What the part that is made from this file asks."""
    stage = order.step.stage
    assert stage.asks is not None
    return stage.asks(_work_of(order, source))


def _work_of(order: PartOrder, source: str) -> Work:
    reads, _ = parts.part_inputs(order.step, order.inputs, order.driving[source])
    return order.work(reads, {}, Path(), lambda table, rows: None, order.resources)


def _anchors(work: Work) -> int:
    """How many anchors one part has."""
    sentences = work.inputs["sentences"].table("sentences", ANCHOR_COLUMNS)
    return int(anchor_mask(sentences, work.inputs["anchors"].table("anchors"), work.seed).sum())


def token_counter(llm: LlmSettings) -> tuple[Callable[[Sequence[str]], list[float]], bool]:
    """Counts tokens of texts, and whether it really does: else by the number of characters."""
    try:
        folder = None if llm.model is None else weights.cached(llm.model)
    except weights.ModelMissing:
        folder = None
    if folder is None or not (folder / "tokenizer.json").is_file():
        return lambda texts: [len(text) / _CHARACTERS_A_TOKEN for text in texts], False
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def count(texts: Sequence[str]) -> list[float]:
        return [float(len(found.ids)) for found in tokenizer.encode_batch(list(texts))]

    return count, True
