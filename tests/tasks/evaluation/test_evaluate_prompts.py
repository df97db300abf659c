"""An encoder with prompts answers queries as one without them answers the texts behind these."""

from pathlib import Path

import pyarrow as pa
import pytest
from beir_folder import write_beir
from evaluation_stage import compare, pairs_table, run_stage, values

from tercet.models.encoders.settings import Prompts
from tercet.tasks.evaluation.evaluation_rows import Pairs

PROMPTS = Prompts(query="the old file ", document="red ")
Rows = list[tuple[str, str, str]]


@pytest.fixture
def pairs(tiny_texts: list[str]) -> Rows:
    """Of some texts both a query and an answer: each is answered by its last words."""
    return [
        *((text, " ".join(text.split()[1:]), "test") for text in tiny_texts[:40]),
        *((text, tiny_texts[place], "test") for place, text in enumerate(tiny_texts[40:60])),
    ]


def prompted(pairs: Rows) -> Rows:
    return [(f"{PROMPTS.query}{q}", f"{PROMPTS.document}{a}", split) for q, a, split in pairs]


def test_document_pairs_and_questions_are_searched_with_the_prompts(
    tmp_path: Path, tiny_backbone: Path, pairs: Rows
) -> None:
    def measured(name: str, rows: Rows, **config: object) -> tuple[dict[str, float], pa.Table]:
        table = pairs_table(rows)
        asked = table.append_column("question", pa.array(["other"] * len(rows)))
        out = run_stage(tmp_path / name, tiny_backbone, rows, questions=asked, **config)
        figures = {
            f"{task} {metric}": value
            for task in ("document_pairs", "other")
            for metric, value in values(out["evaluations"], task=task).items()
        }
        return figures, out["retrieval_ranks"]

    found, ranks = measured("sided", pairs, prompts=PROMPTS)
    expected, other_ranks = measured("written", prompted(pairs))
    assert {"document_pairs mrr", "other mrr", "other alignment", "other uniformity"} <= set(found)
    assert found == pytest.approx(expected, abs=1e-4)
    shares = ("rank", "nearest_similarity")
    for column in shares:
        mine, theirs = (sorted(table[column].to_pylist()) for table in (ranks, other_ranks))
        assert mine == pytest.approx(theirs, abs=1e-6)
    assert found != pytest.approx(measured("plain", pairs)[0], abs=1e-2)


def test_halves_of_a_text_have_no_sides() -> None:
    assert Pairs("test", [], [], [], "halves").sides == (None, None)  # type: ignore[arg-type]
    assert Pairs("test", [], [], [], "name to summary").sides == ("query", "document")  # type: ignore[arg-type]


def retrieval_set(folder: Path, pairs: Rows) -> Path:
    """The pairs as queries with one relevant document each."""
    queries = {str(n): query for n, (query, _, _) in enumerate(pairs)}
    answers = {answer: str(n) for n, (_, answer, _) in enumerate(pairs)}
    judged = [(str(n), answers[answer], 1) for n, (_, answer, _) in enumerate(pairs)]
    documents = {key: answer for answer, key in answers.items()}
    return write_beir(folder, documents, queries, {"test": judged})


def test_sets_of_queries_are_searched_with_the_prompts(
    tmp_path: Path, tiny_backbone: Path, pairs: Rows
) -> None:
    def measured(name: str, rows: Rows, **config: object) -> dict[str, float]:
        folder = retrieval_set(tmp_path / name, rows)
        out = compare({"": tiny_backbone}, retrieval_sets={"own": str(folder)}, **config)
        return values(out, task="own")

    found = measured("sided", pairs, prompts=PROMPTS)
    assert "ndcg@10" in found
    assert found == pytest.approx(measured("written", prompted(pairs)), abs=1e-4)
    assert found != pytest.approx(measured("plain", pairs), abs=1e-2)
