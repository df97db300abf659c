"""What is told of texts that methods wrote, and of what was accepted of them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from stages import rows_in, work_of

from tercet.models.llm.settings import LlmSettings
from tercet.tasks.findings.answers import FINDINGS
from tercet.tasks.findings.finding import Look, look_for
from tercet.tasks.scoring.select import ACCEPTANCE, TRIPLETS, SelectConfig
from tercet.tasks.stage import REJECTS
from tercet.tasks.synthesis.methods import SynthesiseConfig
from tercet.tasks.synthesis.parse import CANDIDATES, ParseConfig

LLM = LlmSettings(name="mirror")
Told = list[tuple[str, str | None, int, int]]


def blank(schema: pa.Schema, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema)


def told(stage: str, config: Any, inputs: Any, made: Any, configs: Any, folder: Path) -> Told:
    work = work_of(config, inputs, folder, stage=stage)
    warnings = look_for(FINDINGS[stage], Look(work, made, configs))
    return [(one.kind, one.key, one.count, one.total) for one in warnings]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (["No."] * 5 + [f"Answer {n}." for n in range(95)], [("one_answer", "rewrite", 5, 100)]),
        (["No."] * 4 + [f"Answer {n}." for n in range(96)], []),
        (["No."] * 5 + [f"Answer {n}." for n in range(495)], []),
    ],
)
def test_one_answer_to_many_prompts_is_told(
    tmp_path: Path, answers: list[str], expected: Told
) -> None:
    made = rows_in(tmp_path, generations=pa.table({"raw": answers}))
    config = SynthesiseConfig(method="rewrite", llm=LLM)
    assert told("synthesise", config, {}, made, [], tmp_path) == expected


@pytest.mark.parametrize(
    ("reasons", "kept", "expected"),
    [
        ({"same_as_source": 2, "empty": 1}, 7, [("copied", "rewrite", 2, 10)]),
        ({"same_as_source": 1, "empty": 9}, 0, [("refused", "rewrite", 10, 10)]),
        ({"same_as_source": 2, "empty": 8}, 0, [("copied", "rewrite", 2, 10)]),
        ({"cut_off": 96}, 4, [("refused", "rewrite", 96, 100)]),
        ({"cut_off": 95}, 5, []),
        ({"cut_off": 9}, 0, []),
    ],
)
def test_texts_that_parse_refuses_are_told(
    tmp_path: Path, reasons: dict[str, int], kept: int, expected: Told
) -> None:
    lost = [reason for reason, count in reasons.items() for _ in range(count)]
    ids = pa.array(range(len(lost) + kept), pa.uint64())
    generations = pa.table({"generation_id": ids, "method": ["rewrite"] * len(ids)})
    rejects = [{"stage": "parse", "row_id": n, "reason": one} for n, one in enumerate(lost)]
    candidates = [{"generation_id": len(lost) + n} for n in range(kept)]
    made = rows_in(
        tmp_path, rejects=blank(REJECTS, rejects), candidates=blank(CANDIDATES, candidates)
    )
    inputs = {"generations": rows_in(tmp_path, generations=generations)}
    assert told("parse", ParseConfig(), inputs, made, [], tmp_path) == expected


@pytest.mark.parametrize(
    ("reason", "accepted", "kinds"),
    [("below_positive_min", 0, ["refused"]), ("no_weight", 0, []), ("below_positive_min", 1, [])],
)
def test_methods_that_select_refuses_are_told_with_the_threshold(
    tmp_path: Path, reason: str, accepted: int, kinds: list[str]
) -> None:
    counts = [{"method": "rewrite", "candidates": 10, "accepted": accepted}]
    candidates = [{"candidate_id": n, "method": "rewrite", "text": "Text."} for n in range(10)]
    rejects = [{"row_id": n, "reason": reason, "text": "Text."} for n in range(10 - accepted)]
    made = rows_in(
        tmp_path,
        acceptance=blank(ACCEPTANCE, counts),
        rejects=blank(REJECTS, rejects),
        triplets=blank(TRIPLETS, []),
    )
    inputs = {"candidates": rows_in(tmp_path, candidates=blank(CANDIDATES, candidates))}
    work = work_of(SelectConfig(), inputs, tmp_path, stage="select")
    warnings = list(look_for(FINDINGS["select"], Look(work, made, [])))
    assert [one.kind for one in warnings] == kinds
    assert all("select.positive_min" in one.remedy for one in warnings)


@pytest.mark.parametrize(
    ("random", "itself", "expected"),
    [
        (6, 0, [("random_negative", None, 6, 10)]),
        (0, 6, [("self_positive", None, 6, 10)]),
        (5, 5, []),
    ],
)
def test_what_stands_in_for_texts_of_methods_is_told(
    tmp_path: Path, random: int, itself: int, expected: Told
) -> None:
    rows = [
        {
            "negative_method": "random" if n < random else "negation",
            "positive_id": None if n < itself else n,
        }
        for n in range(10)
    ]
    empty = {"acceptance": blank(ACCEPTANCE, []), "rejects": blank(REJECTS, [])}
    made = rows_in(tmp_path, triplets=blank(TRIPLETS, rows), **empty)
    inputs = {"candidates": rows_in(tmp_path, candidates=blank(CANDIDATES, []))}
    configs = [SynthesiseConfig(method="rewrite", llm=LLM), SynthesiseConfig(method="negation")]
    assert told("select", SelectConfig(), inputs, made, configs, tmp_path) == expected
    assert told("select", SelectConfig(), inputs, made, [], tmp_path) == []
