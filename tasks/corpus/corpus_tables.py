"""The tables that `ingest` makes of a corpus."""

import pyarrow as pa

DOCUMENTS = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("source", pa.string()),
        ("path", pa.string()),
        ("corpus", pa.string()),
        ("split", pa.string()),
        ("label", pa.string()),
    ]
)
"""Table `documents`. One row per document that gave at least one sentence or pair: a line of a
`.txt` file, a row of a table, a file of prose or Markdown (or 20 paragraphs of it), a docstring.

Columns:
    doc_id: id of the document's whole text, pairs included; among documents with the same text,
        only the first is kept
    source: the file, relative to the folder before the first wild card; for `pydocs` the package
    path: where in the source: `file:line` or `file:row`, counted from 1; of a page in HTML
        `file#id`, the last id before it, or `file`; for `pydocs` `module:qualified name`
    corpus: the corpus's name in the recipe
    split: `train`, `dev` or `test`; a document is never divided between them
    label: its value in the column `corpora[].labels`; NULL without one. Nothing that trains reads
        it
"""
SENTENCES = pa.schema(
    [
        ("sentence_id", pa.uint64()),
        ("text", pa.string()),
        ("corpus", pa.string()),
        ("source", pa.string()),
        ("doc_id", pa.uint64()),
        ("paragraph", pa.int32()),
        ("position", pa.int32()),
        ("n_words", pa.int32()),
        ("split", pa.string()),
    ]
)
"""Table `sentences`, `pretrain_sentences`. One row per distinct sentence; among equal ones the
first, in the order of the corpora, is kept.

`pretrain_sentences`: The sentences of corpora with role `pretrain`, from the step
`ingest.pretrain`. They are in no other table, so nothing but `pretrain` reads them; the same text
may occur in `sentences` too.

No two sentences in different splits share a run of eight words (ignoring case and punctuation)
but for set phrases, which more than 1 % of the documents have (`ingest.common`), and no shorter
sentence occurs in two splits. Nor do any two, as sets of words (letters and digits, ignoring
case), have a Jaccard index of 0.8 or more, the words of set phrases left out of those that have
eight others. `rejects` lists what this cost (`shared_with_test`, `shared_with_dev`, `like_test`,
`like_dev`).

Columns:
    sentence_id: id of `text`: `md5_number_lower(text)`
    text: the sentence: Unicode NFC, without control characters, white space as single blanks
    corpus: the corpus's name in the recipe
    source: as in `documents`
    doc_id: → `documents.doc_id`
    paragraph: number of the paragraph in its document, from 0
    position: number of the sentence in its document, from 0; those rejected for their length are
        counted, so there are gaps
    n_words: words, from `ingest.min_words` to `ingest.max_words`
    split: that of the document
"""
DOCUMENT_PAIRS = pa.schema(
    [
        ("pair_id", pa.uint64()),
        ("doc_id", pa.uint64()),
        ("query", pa.string()),
        ("answer", pa.string()),
        ("split", pa.string()),
    ]
)
"""Table `document_pairs`. Two texts that naturally belong together: the columns `query` and
`answer` of the corpus, or for `pydocs` a docstring's summary paragraph and the paragraph after
it. Retrieval is measured on them.

Columns:
    pair_id: id of `query` and `answer`
    doc_id: → `documents.doc_id`
    query: the query; distinct among the pairs
    answer: the text to find; distinct among the pairs
    split: that of the document
"""
