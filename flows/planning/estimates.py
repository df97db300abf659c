"""Estimates the requests to language models and fitted generators before any is sent.

Once the inputs of a step exist, its prompts are rendered for the rows of some parts, and a sample
of them is counted with the model's own tokenizer if its files are available. The length and speed
of answers are taken from the store's pool.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tercet.flows.recipe.model import Recipe
from tercet.flows.running import parts
from tercet.flows.running.answering import cost, digested, identity
from tercet.flows.running.one_part import PartOrder
from tercet.models.llm.messages import Request
from tercet.storage.answers import Pool
from tercet.storage.rows import rows_of
from tercet.tasks.corpus.anchors import ANCHOR_COLUMNS, anchor_mask
from tercet.tasks.stage import Work

# Parts to sample, or more until this many anchors were seen; prompts to count.
_PARTS = 8
_ANCHORS = 200
_PROMPTS = 2000
# Any number of its multiples, modulo 1, is evenly spread.
_GOLDEN = 0.6180339887498949
# For a model whose tokenizer is not available.
_CHARACTERS_A_TOKEN = 4.0


@dataclass(frozen=True)
class Estimate:
    """The estimated requests of one step.

    requests: rows to ask about, of which the pool has answered `answered`. prompt_tokens,
    answer_tokens: of the rest. Without earlier answers of the method, their maximum length counts
    (`known_length` false). sampled: prompts behind these figures.
    counted: by the model's tokenizer, not estimated from the number of characters.
    seconds, money: None if no rate or price is known.
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


def estimate(recipe: Recipe, order: PartOrder, folder: Path | None, pool: Pool) -> Estimate:
    """The estimate for the step of this order; nothing is sent, and nothing is written.

    folder: the model's files, if they are here.

    (Opening the pool, which the caller does, may seal the journals of dead runs.)
    """
    config = order.step.config
    who = identity(config, order.components)
    count, counted = token_counter(folder)
    sampled, all_rows = _sampled(order)
    keyed = list(digested(sampled, "", config, who))
    known = pool.find([request.digest for request in keyed])
    missing = [request for request in keyed if request.digest not in known]
    scale = all_rows / len(keyed) if keyed else 0.0
    lengths = count(["\n".join([*sum(r.shots, ()), r.prompt]) for r in missing])
    longest = sum(request.sampling.max_tokens for request in missing)
    rates = pool.rates(who.label)
    usual = None if rates is None else rates.mean_tokens.get(order.step.method)
    speed = None if rates is None else rates.tokens_per_second
    answers = longest if usual is None else usual * len(missing)
    prompt_tokens, answer_tokens = round(sum(lengths) * scale), round(answers * scale)
    return Estimate(
        requests=round(len(keyed) * scale),
        answered=round((len(keyed) - len(missing)) * scale),
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        sampled=len(keyed),
        counted=counted,
        known_length=usual is not None,
        seconds=answer_tokens / speed if speed else None,
        money=cost(recipe.run.llm, config, prompt_tokens, answer_tokens),
    )


def _sampled(order: PartOrder) -> tuple[list[Request], float]:
    """Some requests, spread evenly over the sampled parts, and the total number.

    The other parts are assumed to have as many per anchor as the sampled ones.
    """
    found: list[Request] = []
    count, every, seen = 0, 1, 0
    sources = spread(list(order.driving))
    for number, source in enumerate(sources):
        if number >= _PARTS and seen >= _ANCHORS:
            break
        seen += _anchors(work_of(order, source))
        for request in requests_of(order, source):
            if count % every == 0:
                found.append(request)
            count += 1
            if len(found) == 2 * _PROMPTS:
                found, every = found[::2], 2 * every
    else:
        return found, count
    return found, count * _every_anchor(order) / seen


def _every_anchor(order: PartOrder) -> int:
    """The number of anchors, or of passages, of all parts."""
    each = order.step.stage.each
    slot, table = ("passages", "passages") if each == "passages" else ("anchors", "anchor_shares")
    paths = [file.path for file in order.inputs[slot].files if file.table == table]
    rows = rows_of({table: order.store.each(order.store.local, paths)})
    if each == "passages":
        return rows.count(table)
    return int(sum(rows.table(table, ["anchors"])["anchors"].to_pylist()))


def spread(sources: Sequence[str]) -> list[str]:
    """The items in an order of which every prefix is spread evenly over all of them."""
    places = sorted(range(len(sources)), key=lambda place: place * _GOLDEN % 1)
    return [sources[place] for place in places]


def requests_of(order: PartOrder, source: str) -> Iterator[Request]:
    """The requests of the part made from this file."""
    stage = order.step.stage
    assert stage.asks is not None
    return stage.asks(work_of(order, source))


def work_of(order: PartOrder, source: str) -> Work:
    """What the stage would be given for the part made from this file; nothing is emitted."""
    reads = parts.reads(order.step, order.inputs, order.driving[source])
    return order.work(reads, {}, Path(), lambda table, rows: None, order.resources)


def _anchors(work: Work) -> int:
    """The number of anchors, or of passages, of a part."""
    if "passages" in work.inputs:
        return work.inputs["passages"].count("passages")
    sentences = work.inputs["sentences"].table("sentences", ANCHOR_COLUMNS)
    return int(anchor_mask(sentences, work.inputs["anchors"].table("anchors"), work.seed).sum())


def token_counter(
    folder: Path | None,
) -> tuple[Callable[[Sequence[str]], list[float]], bool]:
    """A function that counts tokens, and whether it is exact rather than based on characters.

    folder: the model's files, if they are here.
    """
    if folder is None or not (folder / "tokenizer.json").is_file():
        return lambda texts: [len(text) / _CHARACTERS_A_TOKEN for text in texts], False
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def count(texts: Sequence[str]) -> list[float]:
        return [float(len(found.ids)) for found in tokenizer.encode_batch(list(texts))]

    return count, True
