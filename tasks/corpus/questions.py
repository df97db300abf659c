"""Evaluation pairs from held-out documents, on which no recipe trains.

A reader offers them with a document. A pair is used if all sentences behind its texts are kept and
lie in the document's split, so that training has seen none of them, and if it is the first with its
query and with its answer, so that there is one right answer. Other pairs are dropped.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tercet.models import seeding
from tercet.models.seeding import Ids
from tercet.tasks.corpus import splits

QUESTIONS = pa.schema(
    [
        ("pair_id", pa.uint64()),
        ("doc_id", pa.uint64()),
        ("question", pa.string()),
        ("query", pa.string()),
        ("answer", pa.string()),
        ("split", pa.string()),
    ]
)
"""Table `questions`. Pairs on which no recipe trains, to see whether training helps with other
questions than its own: `pydocs` makes them from its dev and test docstrings. A pair is made if all
sentences of its summaries are rows of `sentences` in the document's split, and if it is the first
with its query and with its answer. Retrieval is measured for each question, in splits with at least
30 of its pairs.

With `evaluate.halves` the stage `halves` adds a question for any corpus: each paragraph of dev
and test, of corpora with the role `domain` if there are any, is cut in two at the sentence end
nearest its middle. A single sentence of 20 words or more is cut after a comma or the like in its
middle third, or else between two words. Texts that share a half with another text of their split
are left out. The halves match mostly by topic, as do the rows of `rest_of_paragraph`: a recipe that
trains on those rows has trained this question.

Key: `pair_id`.

Columns:
    pair_id: id of `question`, `query` and `answer`
    doc_id: → `documents.doc_id`
    question: `name_to_summary`: a name in the code, with a function's parameters, and its
        summary; `method_to_class`: a method's summary and that of its class; `halves`: a text's
        first half and its second
    query: the query; distinct among the pairs of the question
    answer: the text to find; distinct among the pairs of the question
    split: that of the document: `dev` or `test`
"""
# Pairs as the first pass writes them: document is a number, sentences are ids.
OFFERED = pa.schema(
    [
        ("document", pa.int64()),
        ("question", pa.string()),
        ("query", pa.string()),
        ("answer", pa.string()),
        ("sentences", pa.list_(pa.uint64())),
    ]
)


def standing(
    offered: pa.Table,
    sentence_ids: Ids,
    split_of_sentence: splits.Codes,
    split: splits.Codes,
    document_ids: Ids,
) -> pa.Table:
    """Rows of `questions` for dev and test, from the questions of the first pass.

    sentence_ids, split_of_sentence: ids and splits of the kept sentences. split, document_ids:
    splits and ids of the documents.
    """
    document = offered["document"].to_numpy()
    where = np.take(split, document)
    offered = offered.filter(pa.array(where != splits.TRAIN))
    document, where = document[where != splits.TRAIN], where[where != splits.TRAIN]
    made_of = offered["sentences"].combine_chunks()
    places = pc.index_in(made_of.flatten(), pa.array(sentence_ids)).fill_null(-1).to_numpy()
    # A sentence that is not kept has place -1, and so the appended split -1.
    found_splits = np.append(split_of_sentence, np.int8(-1))[places]
    sizes = made_of.value_lengths().to_numpy(zero_copy_only=False)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    apart = np.bincount(owner[found_splits != where[owner]], minlength=len(sizes))
    # Keep the first row of each question and query, then of these the first of each question and
    # answer.
    chosen = np.flatnonzero((apart == 0) & (sizes > 0))
    for column in ("query", "answer"):
        rows = offered.take(pa.array(chosen))
        ids = seeding.text_ids(rows["question"].to_pylist(), rows[column].to_pylist())
        chosen = chosen[np.sort(np.unique(ids, return_index=True)[1])]
    rows = offered.take(pa.array(chosen))
    texts = [rows[name].to_pylist() for name in ("question", "query", "answer")]
    columns = [
        seeding.text_ids(*texts),
        np.take(document_ids, document[chosen]),
        *texts,
        np.array(splits.SPLITS, dtype=object)[where[chosen]],
    ]
    return pa.table(columns, schema=QUESTIONS)


def offered(rows: Sequence[tuple[int, str, str, str, list[str]]], before: int) -> pa.Table:
    """Rows of `OFFERED` from document, question, query, answer and the texts of the sentences.

    before: the number of documents before the first.
    """
    with_ids = [
        (before + place, *texts, seeding.text_ids(sentences).tolist())
        for place, *texts, sentences in rows
    ]
    columns = [list(column) for column in zip(*with_ids, strict=True)] or [[] for _ in OFFERED]
    return pa.table(columns, schema=OFFERED)
