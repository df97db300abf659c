"""Warnings of `passages`: an encoder reads less than a passage."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.connections import ask
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.stage import Work
from tercet.tasks.training.train import TrainConfig
from tercet.tasks.warning import StageWarning


def find(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning for each lower `max_length`, of trainings and of evaluations."""
    lengths: dict[str, int] = {}
    for config in configs:
        if isinstance(config, TrainConfig):
            key, longest = "train", config.phase.max_length
        elif isinstance(config, EvaluateConfig) and config.max_length is not None:
            key, longest = "evaluate", config.max_length
        else:
            continue
        lengths[key] = min(longest, lengths.get(key, longest))
    for key, longest in lengths.items():
        if longest >= work.config.tokens:
            continue
        ((count, total, example),) = ask(
            work,
            f"""SELECT count(*) FILTER (n_tokens > {longest}), count(*),
                min(text) FILTER (n_tokens > {longest}) FROM {made.sql("passages")}""",
        )
        said = f"{key}.max_length is {longest}, and a passage has up to {work.config.tokens} "
        said += f"tokens ({count:,} of {total:,} have more)"
        remedy = f"raise {key}.max_length, or lower ingest.passages.tokens"
        yield StageWarning("cut", key, count, total, said, remedy, example)
