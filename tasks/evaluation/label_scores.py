"""An encoder on a corpus's own labels: by a classifier on its vectors, and by neighbours."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.measures import neighbours, probe
from tercet.tasks.evaluation.encoding import Encoded
from tercet.tasks.evaluation.evaluation_rows import Data
from tercet.tasks.evaluation.items import Part, Scores
from tercet.tasks.evaluation.suites.layout import Split, content_digest, text_form
from tercet.tasks.stage import BadInput

SUITE = "labels"
PROBE, NEAREST = "probe", "nearest"


@dataclass(frozen=True)
class Labelled:
    """Texts with their labels, as numbers from 0."""

    texts: tuple[str, ...]
    labels: npt.NDArray[np.int64]

    def rows(self) -> Iterator[tuple[str, int]]:
        """Each text with its label."""
        return zip(self.texts, self.labels.tolist(), strict=True)


@dataclass(frozen=True)
class LabelTask:
    """A corpus's column of labels: what a classifier learns from, and what it is judged on."""

    name: str
    classes: tuple[str, ...]
    train: Labelled
    judged: Mapping[Split, Labelled]

    def texts(self) -> list[str]:
        """All texts, those of training first."""
        return [text for part in (self.train, *self.judged.values()) for text in part.texts]

    def data(self, way: str, split: Split) -> Data:
        """Form and digest of the texts, those that the classifier learns from included."""
        both = (self.train, self.judged[split])
        rows = [(t, self.classes[c]) for part in both for t, c in part.rows()]
        name = f"{self.name} {way}" + (" dev" if split == "dev" else "")
        return Data(SUITE, name, text_form([text for text, _ in rows]), content_digest(rows))


def label_tasks(table: pa.Table, splits: Sequence[Split]) -> list[LabelTask]:
    """The tasks of the table `labels`, called CORPUS.COLUMN; splits without texts are left out."""
    rows = table.to_pylist()
    tasks = []
    for corpus, column in dict.fromkeys((row["corpus"], row["name"]) for row in rows):
        own = [row for row in rows if (row["corpus"], row["name"]) == (corpus, column)]
        classes = tuple(sorted({row["label"] for row in own}))
        numbers = {label: number for number, label in enumerate(classes)}
        parts = {}
        for split in ("train", *splits):
            some = [row for row in own if row["split"] == split]
            labels = np.array([numbers[row["label"]] for row in some], dtype=np.int64)
            parts[split] = Labelled(tuple(row["text"] for row in some), labels)
        judged = {split: parts[split] for split in splits if parts[split].texts}
        tasks.append(LabelTask(f"{corpus}.{column}", classes, parts["train"], judged))
    return tasks


def label_scores(task: LabelTask, encoded: Encoded) -> list[Scores]:
    """Right or wrong on each judged text, by either way. Raises BadInput that names the column."""
    if not task.judged:
        return []
    splits = list(task.judged)
    texts = [text for split in splits for text in task.judged[split].texts]
    labels = np.concatenate([task.judged[split].labels for split in splits])
    ends = np.cumsum([len(task.judged[split].texts) for split in splits])[:-1]
    try:
        fitted = probe.folds_then_test(
            probe.Sample(encoded.own(task.train.texts), task.train.labels),
            probe.Sample(encoded.own(texts), labels),
        )
    except ValueError as error:
        raise BadInput(f"{task.name} cannot be evaluated: {error}.") from None
    nearest = neighbours.predicted(
        encoded.of(task.train.texts), task.train.labels, encoded.of(texts)
    )
    made = []
    for way, predictions in ((PROBE, fitted.predictions), (NEAREST, nearest)):
        right = np.split((predictions == labels).astype(np.float64), ends)
        for split, values in zip(splits, right, strict=True):
            made.append(Scores(task.data(way, split), "accuracy", (Part("all", values),)))
    return made
