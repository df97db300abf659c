"""Stage `labels`: texts with their label in a column of few values, such as stars or a category.

They only measure: `evaluate` fits a classifier on the vectors of training texts and judges it on
held-out texts. No training reads these tables.
"""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tercet.models.seeding import sample
from tercet.storage.rows import Rows
from tercet.tasks.rejects import rejects
from tercet.tasks.stage import BadInput, Config, Stage, Work

NAME = "labels"
LABELS = pa.schema(
    [
        ("doc_id", pa.uint64()),
        ("corpus", pa.string()),
        ("name", pa.string()),
        ("label", pa.string()),
        ("text", pa.string()),
        ("split", pa.string()),
    ]
)
"""Table `labels`. Stage `labels` (`corpora[].labels`): a seeded sample of documents with their
label, at most 2,000 of train, 1,000 of dev and 2,000 of test. Only `evaluate` reads it.

Key: `doc_id`, `name`.

Columns:
    doc_id: → `documents.doc_id`
    corpus: the corpus's name in the recipe
    name: the column of its source
    label: the value
    text: the document's sentences, up to 300 words
    split: `train`: a classifier learns from it; `dev`, `test`: it is judged on it
"""
# Most texts in each split of a corpus; more hardly improve a classifier.
TEXTS = {"train": 2_000, "dev": 1_000, "test": 2_000}
MOST_VALUES = 20
# Fewest training texts of a label: one for each fold in which the classifier is tried.
LEAST_OF_A_LABEL = 10
# Words of a document that are read; encoders hardly read more.
WORDS = 300


class LabelsConfig(Config):
    """columns: a corpus's name to its column of labels."""

    columns: dict[str, str]


def run(work: Work) -> None:
    """Emits `labels`: for each corpus a seeded sample of the documents that have a label.

    Labels with too few training texts in the sample are left out, and so are corpora with fewer
    than two labels. Raises: BadInput for a column of more than 20 values.
    """
    config: LabelsConfig = work.config
    documents = work.inputs["documents"].table("documents", ["doc_id", "corpus", "split", "label"])
    documents = documents.filter(pc.is_valid(documents["label"]))
    for corpus, column in config.columns.items():
        of_corpus = documents.filter(pc.equal(documents["corpus"], corpus))
        drawn = _sample(work, of_corpus, corpus, column)
        if drawn is not None:
            drawn = drawn.append_column("name", pa.array([column] * drawn.num_rows, pa.string()))
            work.emit("labels", drawn.select(LABELS.names).cast(LABELS))


def _sample(work: Work, documents: pa.Table, corpus: str, column: str) -> pa.Table | None:
    """Drawn documents and their texts; None if fewer than two labels are frequent enough."""
    values: set[str] = set(documents["label"].to_pylist())
    if len(values) > MOST_VALUES:
        raise BadInput(
            "bad_value",
            f"The column {column!r} of corpus {corpus!r} has {len(values):,} values, and labels "
            f"have at most {MOST_VALUES}: name a column of few values, or leave `labels` out.",
        )
    title = f"column {column!r} of corpus {corpus!r}"
    labels = _frequent(work, documents, values, title)
    while len(labels) > 1:
        documents = documents.filter(pc.is_in(documents["label"], pa.array(sorted(labels))))
        parts = [
            sample(documents.filter(pc.field("split") == split), "doc_id", most, work.seed, NAME)
            for split, most in TEXTS.items()
        ]
        drawn = pa.concat_tables(parts)
        texts = _texts(work.inputs["sentences"], drawn["doc_id"])
        drawn = drawn.join(texts, "doc_id", join_type="inner").sort_by("doc_id")
        # A label that is rare among many documents may have too few drawn texts.
        before, labels = labels, _frequent(work, drawn, labels, title)
        if labels == before:
            for split in sorted({"dev", "test"} - set(drawn["split"].to_pylist())):
                detail = f"{title} has no value in split {split}: it was not measured there"
                work.emit("rejects", rejects(NAME, [None], "no_texts", detail, split))
            return drawn
    detail = f"{title} has {len(labels)} labels that are frequent enough: it was not measured"
    work.emit("rejects", rejects(NAME, [None], "one_label", detail, None))
    return None


def _frequent(work: Work, documents: pa.Table, values: set[str], title: str) -> set[str]:
    """The values that enough training documents have; rarer values become rejects."""
    train = documents.filter(pc.equal(documents["split"], "train"))
    counts = Counter(train["label"].to_pylist())
    rare = {value for value in values if counts[value] < LEAST_OF_A_LABEL}
    for label in sorted(rare):
        message = f"{title}: {counts[label]} of {train.num_rows:,} training texts have this label, "
        detail = f"fewer than {LEAST_OF_A_LABEL}"
        work.emit("rejects", rejects(NAME, [None], "rare_label", message + detail, label))
    return values - rare


def _texts(sentences: Rows, doc_ids: pa.ChunkedArray) -> pa.Table:
    """doc_id and text of these documents: sentences in order, up to `WORDS` words."""
    of_ids = pc.field("doc_id").isin(doc_ids.combine_chunks())
    columns = ["doc_id", "position", "text"]
    parts = [
        pq.read_table(file, columns=columns, filters=of_ids)
        for file in sentences.files("sentences")
    ]
    table = pa.concat_tables(parts).sort_by([("doc_id", "ascending"), ("position", "ascending")])
    gathered: dict[int, list[str]] = {}
    for doc_id, text in zip(table["doc_id"].to_pylist(), table["text"].to_pylist(), strict=True):
        gathered.setdefault(doc_id, []).append(text)
    texts = [" ".join(" ".join(words).split(" ")[:WORDS]) for words in gathered.values()]
    return pa.table([pa.array(list(gathered), pa.uint64()), texts], names=["doc_id", "text"])


STAGE = Stage(name=NAME, config=LabelsConfig, tables={"labels": LABELS}, run=run)
