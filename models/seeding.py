"""Content-derived ids and seeded draws, the same under any partition, order or worker count.

An id is the lower 64 bits of the text's MD5, as DuckDB's ``md5_number_lower`` computes it, so
Python and SQL give the same id. MD5 is only a stable hash here, not a protection. Draws are
counter-based (SplitMix64): a draw about a row is a function of (recipe seed, purpose, row id,
counter) alone.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ids: TypeAlias = npt.NDArray[np.uint64]

_SEPARATOR = "\x1f"


def text_id(*parts: str) -> int:
    """Id of the parts, joined by a unit separator; the id of the text if there is one part."""
    data = _SEPARATOR.join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.md5(data, usedforsecurity=False).digest()[8:], "little")


def text_ids(*columns: Iterable[str]) -> Ids:
    """Row-wise `text_id` over columns of equal length, as uint64 of shape (rows,)."""
    md5 = hashlib.md5
    rows = columns[0] if len(columns) == 1 else map(_SEPARATOR.join, zip(*columns, strict=True))
    digests = b"".join(
        md5(row.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()[8:]
        for row in rows
    )
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def mix(values: Ids) -> Ids:
    """SplitMix64's finaliser, elementwise: a bijection of uint64 with evenly spread output bits."""
    with np.errstate(over="ignore"):
        x = values + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(x ^ (x >> np.uint64(31)), dtype=np.uint64)


def draws(seed: int, purpose: str, ids: Ids, counter: int | Ids = 0) -> Ids:
    """One 64-bit draw per row, a function of (seed, purpose, row id, counter) alone.

    counter: distinguishes several draws about one row; a number, or an array shaped like `ids`.
    """
    key = np.uint64(text_id(str(seed), purpose))
    count = np.asarray(counter, dtype=np.uint64)
    return mix(mix(np.asarray(ids, dtype=np.uint64) ^ key) ^ mix(count))


def uniforms(seed: int, purpose: str, ids: Ids, counter: int | Ids = 0) -> npt.NDArray[np.float64]:
    """Draws in [0, 1), one per row (53 bits)."""
    bits = draws(seed, purpose, ids, counter) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def below(
    seed: int, purpose: str, ids: Ids, limit: int | npt.NDArray[np.int64], counter: int | Ids = 0
) -> npt.NDArray[np.int64]:
    """Integer draws in [0, limit), one per row. limit: at least 1; one number, or one per row."""
    scaled = uniforms(seed, purpose, ids, counter) * np.asarray(limit, dtype=np.float64)
    return np.asarray(scaled, dtype=np.int64)


def choice(options: Sequence[str], seed: int, purpose: str, row_id: int) -> str:
    """One of the options for one row."""
    picked = below(seed, purpose, np.array([row_id], dtype=np.uint64), len(options))
    return options[int(picked[0])]


def ring_start(ring: Ids, seed: int, purpose: str, ids: Ids) -> npt.NDArray[np.int64]:
    """The index of the first ring member at or after each row's draw.

    ring: the members' positions (`mix` of their ids), sorted. Each row walks the ring from its
    index on, wrapping around. A member that joins or leaves changes only the draws that hit it.
    """
    starts = np.searchsorted(ring, draws(seed, purpose, ids))
    return np.asarray(starts % max(len(ring), 1), dtype=np.int64)


def sample(rows: pa.Table, key: str, most: int | None, seed: int, purpose: str) -> pa.Table:
    """At most `most` of the rows (None: all) in their order, drawn by the ids in column `key`."""
    if most is None or rows.num_rows <= most:
        return rows
    drawn = draws(seed, purpose, rows[key].to_numpy())
    return rows.take(pa.array(np.sort(np.argsort(drawn, kind="stable")[:most])))
