"""An encoder on a corpus's own labels: by a classifier on its vectors, and by neighbours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tercet.models.measures import probe
from tercet.tasks.evaluation.suites.layout import Split, content_digest, text_form
from tercet.tasks.evaluation.suites.task import Data, Part, Scores, Task
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from tercet.tasks.evaluation.encoding import Encoded


@dataclass(frozen=True)
class Labelled:
    """Texts with their labels, as numbers from 0."""

    texts: tuple[str, ...]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelTask(Task):
    """A corpus's column of labels: what a classifier learns from, and what it is judged on."""

    name: str
    classes: tuple[str, ...]
    train: Labelled
    judged: Mapping[Split, Labelled]
    suite = "labels"

    def texts(self) -> list[str]:
        return [text for part in (self.train, *self.judged.values()) for text in part.texts]

    def scores(self, encoded: "Encoded") -> list[Scores]:
        """Right or wrong on each judged text, by either way."""
        if not self.judged:
            return []
        texts = [text for part in self.judged.values() for text in part.texts]
        labels = np.concatenate([part.labels for part in self.judged.values()])
        ends = np.cumsum([len(part.texts) for part in self.judged.values()])[:-1]
        try:
            fitted = probe.folds_then_test(
                probe.Sample(encoded.own(self.train.texts), self.train.labels),
                probe.Sample(encoded.own(texts), labels),
            )
        except ValueError as error:
            raise BadInput(f"{self.name} cannot be evaluated: {error}.") from None
        nearest = probe.predicted(
            encoded.of(self.train.texts), self.train.labels, encoded.of(texts)
        )
        made = []
        for way, predictions in (("probe", fitted.predictions), ("nearest", nearest)):
            right = np.split((predictions == labels).astype(np.float64), ends)
            for split, values in zip(self.judged, right, strict=True):
                made.append(Scores(self._data(way, split), "accuracy", (Part("all", values),)))
        return made

    def _data(self, way: str, split: Split) -> Data:
        """Form and digest of the texts, those that the classifier learns from included."""
        both = (self.train, self.judged[split])
        rows = [
            (text, self.classes[label])
            for part in both
            for text, label in zip(part.texts, part.labels.tolist(), strict=True)
        ]
        name = f"{self.name} {way}" + (" dev" if split == "dev" else "")
        return Data(self.suite, name, text_form([text for text, _ in rows]), content_digest(rows))


def read_label_tasks(table: pa.Table, splits: Sequence[Split]) -> list[LabelTask]:
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
