"""SentEval's protocol for a transfer task, apart from the reader: the guard needs only that."""

from collections.abc import Callable, Sequence
from typing import Any

from tercet.models.measures import probe
from tercet.tasks.evaluation.suites.transfer import Examples, LabelledTask
from tercet.tasks.stage import BadInput


def outcome(task: LabelledTask, vectors: Callable[[Sequence[str]], Any]) -> probe.Outcome:
    """The task by SentEval's protocol: the prediction for each of `task.judged`, in its order.

    vectors: the vectors of some texts, (texts, d), dense or sparse, as the model gives them;
        SentEval does not bring them to length one.
    Raises: BadInput that names the task where no classifier can be fitted.
    """

    def sample(part: Examples | None) -> probe.Sample | None:
        if part is None:
            return None
        features = vectors(part.first)
        if part.second:
            features = probe.pair_features(features, vectors(part.second))
        return probe.Sample(features, part.labels, part.order())

    train = sample(task.train)
    assert train is not None
    try:
        return probe.accuracy_items(train, sample(task.dev), sample(task.test))
    except ValueError as error:
        raise BadInput(f"{task.name} cannot be evaluated: {error}.") from None
