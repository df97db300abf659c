"""The examples from which GenSE's T5 learns, half of them to write and half to judge.

A labelled pair gives one of each (GenSE, section 2.1): the sentence in the template of what the
second text is to it (an entailment or a contradiction), with that text as the target; and the
question about both, with its answer as the target.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tercet.models.generators import layout as layouts
from tercet.models.generators.layout import Layout
from tercet.models.t5 import wording
from tercet.models.t5.wording import Question
from tercet.models.training import batches as batching
from tercet.models.training.fit_generator import IGNORED, Encoded, padded
from tercet.models.training.loop import Batch


class Examples:
    """Pairs as what the encoder reads and the decoder should write.

    rows: row_id (uint64, distinct), anchor, text, true (whether the text follows). Both `written`
    and `judged` give input_ids and attention_mask, (rows, tokens), and labels, (rows, tokens of the
    decoder), where padding is ignored.
    """

    def __init__(self, tokenizer: Any, layout: Layout, question: Question, rows: pa.Table) -> None:
        self.rows = rows.combine_chunks()
        self._tokenizer, self._layout, self._question = tokenizer, layout, question
        found = wording.answers(tokenizer, question)
        self._answers = {True: found.true, False: found.false}
        self._around = {
            True: wording.around(question.asked["entailment"]),
            False: wording.around(question.asked["contradiction"]),
        }

    def written(self, rows: Sequence[int]) -> Encoded:
        """The template of each row's class around its anchor, and the text."""
        anchors, texts, true = self._columns(rows)
        around = [self._around[one] for one in true]
        asked = layouts.prompts(self._tokenizer, self._layout, anchors, around)
        return self._encoded(asked, layouts.targets(self._tokenizer, self._layout, texts, asked))

    def judged(self, rows: Sequence[int]) -> Encoded:
        """The question about each row's anchor and text, and its answer."""
        anchors, texts, true = self._columns(rows)
        asked = wording.questions(self._tokenizer, self._question, anchors, texts)
        batch = self._encoded(asked, [self._answers[one] for one in true])
        # The answers are short and of one length: more padding would only cost.
        longest = max(map(len, self._answers.values()))
        return {**batch, "labels": batch["labels"][:, :longest]}

    def _columns(self, rows: Sequence[int]) -> tuple[list[str], list[str], list[bool]]:
        some = self.rows.take(pa.array(rows, pa.int64()))
        return some["anchor"].to_pylist(), some["text"].to_pylist(), some["true"].to_pylist()

    def _encoded(self, asked: list[list[int]], targets: list[list[int]]) -> Encoded:
        ids, mask = padded(asked, int(self._tokenizer.pad_token_id))
        labels, _ = padded(targets, IGNORED)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


class Feed:
    """Batches of which one half writes and the other judges, each of rows of similar length.

    Both halves go through all rows once a round, in orders of their own. Texts are tokenised batch
    by batch, so that memory does not grow with the corpus.
    """

    def __init__(self, examples: Examples, batch_size: int, seed: int) -> None:
        self._examples = examples
        half = batch_size // 2
        self._halves = [
            batching.LengthWindows(examples.rows, ["anchor", "text"], half, seed, purpose)
            for purpose in ("written", "judged")
        ]
        self._length = -(-int(examples.rows.num_rows) // half)
        self._round: tuple[int, list[tuple[list[int], ...]]] = (-1, [])

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, step: int) -> Batch:
        number, place = divmod(step, self._length)
        if self._round[0] != number:
            # The one batch that is not full comes last, so that both halves are always alike.
            rounds = (half.round(number) for half in self._halves)
            halves = [sorted(batches, key=len, reverse=True) for batches in rounds]
            self._round = (number, list(zip(*halves, strict=True)))
        written, judged = self._round[1][place]
        inputs = {
            "written": self._examples.written(written),
            "judged": self._examples.judged(judged),
        }
        return Batch(len(written) + len(judged), inputs)
