"""Tokenised texts in files, mapped into memory, so that memory does not grow with the corpus."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tercet.models.pretraining.forms import Form

Ints: TypeAlias = npt.NDArray[np.int64]

_DONE = "texts.json"


@dataclass(frozen=True)
class Texts:
    """The ids of many texts, one after the other.

    ids: of shape (tokens,). ends: of shape (texts,), where each text ends in `ids`.
    """

    ids: npt.NDArray[Any]
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ends)

    def lengths(self) -> npt.NDArray[np.int32]:
        """Tokens of each text."""
        return np.diff(self.ends, prepend=0).astype(np.int32)

    def padded(self, rows: Ints, width: int, padding: int) -> tuple[Ints, Ints]:
        """These texts' ids, of shape (rows, width), and their lengths; none is longer."""
        ends = np.asarray(self.ends[rows])
        starts = np.where(rows > 0, self.ends[rows - 1], 0)
        lengths = ends - starts
        places = starts[:, None] + np.arange(width)
        inside = np.arange(width) < lengths[:, None]
        found = self.ids[np.minimum(places, len(self.ids) - 1)].astype(np.int64)
        return np.where(inside, found, padding), lengths


def tokenised(
    folder: Path, batches: Iterable[list[str]], tokenizer: Any, form: Form, max_length: int
) -> Texts:
    """The texts in the folder, tokenised now unless they lie there whole already.

    masked: with the tokenizer's own special tokens. causal: between the tokens that begin and end a
    text. t5: bare, one token shorter. Longer texts are cut off; texts without a token are left out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / _DONE
    kind = np.uint16 if len(tokenizer) <= np.iinfo(np.uint16).max else np.uint32
    if not done.is_file():
        total = rows = 0
        with (folder / "ids.bin").open("wb") as ids, (folder / "ends.bin").open("wb") as ends:
            for texts in batches:
                found = [row for row in _encoded(texts, tokenizer, form, max_length) if row]
                lengths = np.array([len(row) for row in found], dtype=np.int64)
                ids.write(np.array([i for row in found for i in row], dtype=kind).tobytes())
                ends.write((total + np.cumsum(lengths)).astype(np.int64).tobytes())
                total, rows = total + int(lengths.sum()), rows + len(found)
        draft = done.with_suffix(".writing")
        draft.write_text(json.dumps({"texts": rows, "tokens": total}), encoding="utf-8")
        os.replace(draft, done)  # noqa: PTH105
    if json.loads(done.read_text(encoding="utf-8"))["texts"] == 0:
        return Texts(np.empty(0, kind), np.empty(0, np.int64))
    return Texts(
        np.memmap(folder / "ids.bin", dtype=kind, mode="r"),
        np.memmap(folder / "ends.bin", dtype=np.int64, mode="r"),
    )


def _encoded(texts: list[str], tokenizer: Any, form: Form, max_length: int) -> list[list[int]]:
    given = {"truncation": True, "return_attention_mask": False}
    if form == "masked":
        rows = tokenizer(texts, max_length=max_length, **given)["input_ids"]
        return [row for row in rows if len(row) > tokenizer.num_special_tokens_to_add()]
    begin = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    end = [tokenizer.eos_token_id]
    if form == "t5":
        begin, end, max_length = [], [], max_length - 1
    room = max_length - len(begin) - len(end)
    rows = tokenizer(texts, max_length=room, add_special_tokens=False, **given)["input_ids"]
    return [[*begin, *row, *end] for row in rows if row]
