"""Sentences of a paragraph."""

import pytest

from tercet.tasks.corpus.sources.corpora import split_sentences


@pytest.mark.parametrize(
    "wanted",
    [
        ["他说：“第一条船修好了！”", "然后他走了。"],
        ["『もう帰ろう。』", "と彼は言った。"],
        ["（昨天下了雨。）", "今天天晴了。"],
        ["He said “no.”", "Then he left."],
        ["It rains.", "”What” is no word."],
    ],
)
def test_a_closing_mark_belongs_to_the_sentence_that_it_closes(wanted: list[str]) -> None:
    between = "" if wanted[0][-1] not in ".”" or "他" in wanted[0] else " "
    assert split_sentences(between.join(wanted)) == wanted
