"""What a run says of how often its generator's texts were drawn, and why not more often."""

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from known_tables import known_tables

from tercet.flows.recipe.model import Recipe
from tercet.flows.results import drawn
from tercet.tasks.stage import REJECTS
from tercet.tasks.synthesis.parse import CANDIDATES
from tercet.tasks.synthesis.synthesise import GENERATIONS
from tercet.tasks.training.phase_rows import DRAWN_PAIRS


def recipe(**draw: float) -> dict[str, Any]:
    phase = {"name": "drawn", "rows": {"from": "anchors", "draw": draw}, "loss": "info_nce"}
    content = {
        "name": "g",
        "backbone": "a/b",
        "corpora": [{"name": "field", "source": "f.txt"}],
        "synthesise": {"synonym": None},
        "evaluator": {"model": "a/b"},
        "train": {"phases": [phase]},
    }
    found: dict[str, Any] = Recipe.model_validate(content).model_dump(mode="json")
    return found


def connection(generated: int, of: int, *refused: tuple[str, str]) -> duckdb.DuckDBPyConnection:
    """So many of the drawn pairs are generated. refused: stage and reason of each text that is not
    accepted, beside five that are, and a negative."""

    def table(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema)

    pairs = [
        {"phase": "drawn", "part": "drawn", "sentence_id": number,
         "operation": "generated" if number < generated else "cutoff"}
        for number in range(of)
    ]  # fmt: skip
    stages = [*(stage for stage, _ in refused), *[""] * 5]
    texts = [
        {"generation_id": number, "purpose": "positive", "relation": "keeps", "sentence_id": number}
        for number in range(len(stages))
    ]
    altered = {"generation_id": 99, "purpose": "negative", "relation": "alters", "sentence_id": 0}
    candidates = [
        {"generation_id": number, "candidate_id": 1000 + number}
        for number, stage in enumerate(stages)
        if stage != "parse"
    ]
    lost = [
        {"stage": stage, "reason": reason, "row_id": number + (0 if stage == "parse" else 1000)}
        for number, (stage, reason) in enumerate(refused)
    ]
    lost.append({"stage": "parse", "reason": "empty", "row_id": 99})
    db = duckdb.connect()
    db.register("drawn_pairs", table(DRAWN_PAIRS, pairs))
    db.register("generations", table(GENERATIONS, [*texts, altered]))
    db.register("candidates", table(CANDIDATES, candidates))
    db.register("rejects", table(REJECTS, lost))
    return db


def test_few_draws_are_told_with_the_reasons() -> None:
    refused = [("parse", "same_as_source")] * 6 + [("parse", "cut_off")] * 3
    db = connection(3, 100, *refused, ("select", "below_positive_min"))
    (said,) = drawn.describe_draws(
        db, recipe(word_shuffle=1, cutoff=1, word_repetition=1, generated=1)
    )
    assert said == (
        "drawn: 3.0% of the drawn positives are generated texts, where the shares of draw mean "
        "25.0%: 3 of 100 sentences drew one. Of 15 texts that should keep the meaning 5 are "
        "accepted (same_as_source 6, cut_off 3, below_positive_min 1): SELECT reason, detail, text "
        "FROM rejects WHERE reason = 'same_as_source' shows some."
    )


@pytest.mark.parametrize(("generated", "enough"), [(44, False), (45, True), (50, True)])
def test_as_many_as_meant_need_no_reason(generated: int, enough: bool) -> None:
    (said,) = drawn.describe_draws(connection(generated, 100), recipe(cutoff=1, generated=1))
    assert said.endswith("as the shares of draw mean it.") == enough
    assert enough or said.endswith(
        "raise per_unit or per_sentence, or list more methods under synthesise."
    )


def test_without_generated_texts_nothing_is_told() -> None:
    assert not [*drawn.describe_draws(connection(0, 10), recipe(cutoff=1))]
    assert not [*drawn.describe_draws(known_tables(), recipe(generated=1))]
    assert not [*drawn.describe_draws(connection(3, 10), {})]
