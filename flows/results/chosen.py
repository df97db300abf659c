"""Which encoder the step `choose` ships, and what its gains mean, in words."""

from dataclasses import dataclass
from typing import Literal

import duckdb

from tercet.flows.results.few import FEW


@dataclass(frozen=True)
class Choice:
    """What a run ships. mix: share of the training in it. questions: how many there are."""

    mix: float
    by: Literal["questions", "default"]
    questions: int

    def __str__(self) -> str:
        encoder = f"a mix of the untouched encoder and {100 * self.mix:.0f} % of the trained one"
        if self.mix in (0, 1):
            encoder = "the trained encoder, whole" if self.mix else "the untouched encoder"
        if self.by == "questions":
            return (
                f"{self.questions:,} questions chose {encoder}. Gain on them: of the procedure, "
                "each question judged by what the others chose."
            )
        few = "no questions to choose by"
        if self.questions:
            few = f"{self.questions:,} questions choose nothing"
        return (
            f"The run ends with {encoder}, which is the default (choose.mix): {few}. "
            f"{FEW} of your own in one set of evaluate.retrieval_sets, answered by several files, "
            "would."
        )


def read_choice(connection: duckdb.DuckDBPyConnection, seed: int | None) -> Choice | None:
    """What the connection's run ships of this seed's training; None without the step `choose`."""
    row = connection.execute(
        """SELECT DISTINCT choices.mix, choices.chosen_by, c.n FROM choices
        JOIN candidate_encoders c ON c.seed = choices.seed AND c.chosen
        WHERE choices.seed = $seed""",
        {"seed": seed},
    ).fetchone()
    return None if row is None else Choice(*row)
