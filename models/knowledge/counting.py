"""What a quantity counts: "two red dogs", "5 kg of rice", "half of the people"."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tercet.models.english.words import AFTER_OF
from tercet.models.knowledge.quantities import Quantity, is_year_like
from tercet.models.knowledge.tokens import LOWER, Tokens

Ints = npt.NDArray[np.int64]

_ADJECTIVES = 2  # words that may stand between the number and the noun
_CHAIN = 4  # nouns in a row that are looked at: "two stone garden walls"


def resolve(
    found: list[Quantity], tokens: Tokens, first: Ints, last: Ints
) -> tuple[list[Quantity], Ints]:
    """The quantities that stay, and for each the entity it counts (-1 for none).

    first, last: the entities' tokens, by place. A number that counts nothing and looks like a year
    becomes one; one that is a quantity only before a noun is dropped without it.
    """
    if not found:
        return [], np.zeros(0, dtype=np.int64)
    reader = _Reader(tokens, first, last)
    kept: list[Quantity] = []
    counted: list[int] = []
    starts = np.array([max(quantity.end, quantity.unit_end) for quantity in found])
    after = np.searchsorted(tokens.starts, starts).tolist()
    units = np.searchsorted(
        tokens.starts, np.array([quantity.unit_start for quantity in found])
    ).tolist()
    for quantity, token, unit in zip(found, after, units, strict=True):
        entity = reader.counted(quantity, token, unit)
        if entity < 0:
            if quantity.needs_noun:
                continue
            if is_year_like(tokens.buffer, quantity):
                quantity = replace(quantity, form="year")
        kept.append(quantity)
        counted.append(entity)
    return kept, np.array(counted, dtype=np.int64)


class _Reader:
    """Reads on from a quantity, token by token; plain lists, since it goes one by one."""

    def __init__(self, tokens: Tokens, first: Ints, last: Ints) -> None:
        self._tokens = tokens
        self._starts, self._ends = tokens.starts.tolist(), tokens.ends.tolist()
        self._last = last
        at = np.full(len(self._starts) + 1, -1, dtype=np.int64)
        at[first] = np.arange(len(first))
        self._entity = at

    def counted(self, quantity: Quantity, token: int, unit: int) -> int:
        """The entity that the quantity counts, -1 for none."""
        if quantity.form in ("year", "money"):
            return -1
        place = max(quantity.end, quantity.unit_end)
        share = quantity.form in ("fraction", "percentage")
        has_unit = quantity.unit_end > quantity.end
        of = self._word(token) == "of" and self._gap(place, token)
        if of:
            place, token = self._ends[token], token + 1
        if (of or share) and self._word(token) in AFTER_OF and self._gap(place, token):
            place, token = self._ends[token], token + 1
        if of or not has_unit:
            noun = self._noun(place, token, quantity, any_number=share or (of and has_unit))
            if noun >= 0 or not has_unit:
                return noun
        if unit < len(self._starts) and self._starts[unit] == quantity.unit_start:
            return int(self._entity[unit])
        return -1

    def _word(self, token: int) -> str:
        return self._tokens.folded[self._tokens.code[token]] if token < len(self._starts) else ""

    def _gap(self, place: int, token: int) -> bool:
        """Whether one space or hyphen alone parts the place from the token."""
        return (
            token < len(self._starts)
            and self._starts[token] == place + 1
            and self._tokens.buffer[place] in " -"
        )

    def _noun(self, place: int, token: int, quantity: Quantity, *, any_number: bool) -> int:
        hyphen = self._tokens.buffer[place] == "-"
        for _ in range(_ADJECTIVES + 1):
            if not self._gap(place, token) or self._tokens.stop[token]:
                return -1
            if self._entity[token] >= 0:
                break
            if self._tokens.kind[token] != LOWER:
                return -1
            place, token, hyphen = self._ends[token], token + 1, False
        else:
            return -1
        chain = [int(self._entity[token])]
        while len(chain) < _CHAIN:
            end = int(self._last[chain[-1]])
            token = end + 1
            if not self._gap(self._ends[end], token) or self._entity[token] < 0:
                break
            chain.append(int(self._entity[token]))
        if hyphen:
            return chain[0]
        if any_number or quantity.value == 1:
            return chain[-1]
        for entity in chain:
            if self._tokens.plural[self._last[entity]]:
                return entity
        return -1
