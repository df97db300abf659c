"""The stage `extract_generate`: what is asked about which sentences, and what is kept of it."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
from failures import fails

from tercet.models import seeding
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.settings import LlmSettings
from tercet.storage.rows import rows_of
from tercet.tasks.knowledge import extract_generate
from tercet.tasks.knowledge.extract_generate import STAGE, ExtractGenerateConfig
from tercet.tasks.stage import REJECTS, Resources, Work

LLM = LlmSettings(name="m", temperature=0.9, top_p=0.5, max_tokens=7)
TEXTS = ["Two dogs sat.", "Too short.", "A cat {{ sat }} there.", "A test sentence is here."]


class PretendedModel:
    """Answers each request with its own place; fails where a text asks for it."""

    def __init__(self, bad: str = "") -> None:
        self.asked: list[Request] = []
        self._bad = bad

    def __call__(self, method: str, requests: Iterable[Request]) -> Iterator[Answer]:
        assert method == "extract"
        self.asked = list(requests)
        for request in reversed(self.asked):
            failed = bool(self._bad) and self._bad in request.prompt
            yield Answer(
                place=request.place,
                digest=f"d{request.place}",
                model="m@1",
                raw="" if failed else f"{{{request.place}}}",
                finish_reason="failed" if failed else "stop",
                prompt_tokens=9,
                n_tokens=3,
                attempts=1,
                seconds=0.1,
                endpoint="http://127.0.0.1/v1",
                error="HTTP 500 after 5 tries" if failed else None,
            )


def work(folder: Path, model: PretendedModel, tables: dict[str, list[pa.Table]], **config: Any):
    splits = ["train", "train", "train", "test"]
    sentences = pa.table(
        {
            "sentence_id": pa.array(seeding.text_ids(TEXTS), pa.uint64()),
            "text": TEXTS,
            "corpus": ["c"] * 4,
            "doc_id": pa.array([1, 1, 2, 2], pa.uint64()),
            "n_words": pa.array([len(text.split()) for text in TEXTS], pa.int32()),
            "split": splits,
        }
    )
    anchors = pa.table(
        {
            "corpus": ["c"],
            "threshold": pa.array([2**64 - 1], pa.uint64()),
            "min_words": pa.array([3], pa.int32()),
            "max_words": pa.array([100], pa.int32()),
            "company": pa.array([0], pa.int32()),
        }
    )
    pq.write_table(sentences, folder / "s.parquet")
    pq.write_table(anchors, folder / "a.parquet")
    inputs = {
        "sentences": rows_of({"sentences": [folder / "s.parquet"]}),
        "anchors": rows_of({"anchors": [folder / "a.parquet"]}),
    }
    return Work(
        ExtractGenerateConfig(llm=LLM, **config),
        3,
        inputs,
        {},
        {},
        Resources(ask=model),
        folder,
        lambda name, table: tables[name].append(table),
        stage="extract_generate",
    )


def generated(
    folder: Path, model: PretendedModel, **config: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of generations and of rejects."""
    tables: dict[str, list[pa.Table]] = defaultdict(list)
    STAGE.run(work(folder, model, tables, **config))
    schemas = {**STAGE.tables, "rejects": REJECTS}
    made = [pa.concat_tables([schemas[n].empty_table(), *tables[n]]) for n in schemas]
    assert not tables.keys() - schemas.keys()
    return made[0].to_pylist(), made[1].to_pylist()


def test_anchors_alone_are_asked_about(tmp_path: Path) -> None:
    model = PretendedModel()
    rows, rejects = generated(tmp_path, model, types=["thing", "being"], categories=["home"])
    ids = seeding.text_ids(TEXTS).tolist()
    assert [row["sentence_id"] for row in rows] == [ids[0], ids[2]]
    assert [row["raw"] for row in rows] == ["{0}", "{1}"]
    assert [row["prompt"] for row in rows] == [request.prompt for request in model.asked]
    for row, text in zip(rows, (TEXTS[0], TEXTS[2]), strict=True):
        assert row["prompt"].rstrip().endswith(f"Sentence: {text}")
        assert "thing" in row["prompt"]
        assert "being" in row["prompt"]
        assert "home" in row["prompt"]
    assert {(row["purpose"], row["method"], row["model"]) for row in rows} == {
        ("extraction", "extract", "m@1")
    }
    assert len({row["generation_id"] for row in rows}) == 2
    assert not rejects
    # All that varies stands at the end, so that what the model reads first is read once.
    assert rows[0]["prompt"].split("Sentence: ")[0] == rows[1]["prompt"].split("Sentence: ")[0]


def test_sampling_is_its_own(tmp_path: Path) -> None:
    model = PretendedModel()
    rows, _ = generated(tmp_path, model)
    sampling = {"temperature": 0.0, "top_p": 1.0, "max_tokens": 512}
    assert [json.loads(row["sampling"]) for row in rows] == [sampling] * 2
    assert [request.sampling.model_dump() for request in model.asked] == [sampling] * 2
    generated(tmp_path, model, max_tokens=64)
    assert {(r.sampling.temperature, r.sampling.max_tokens) for r in model.asked} == {(0, 64)}


def test_the_schema_holds_the_closed_lists(tmp_path: Path) -> None:
    model = PretendedModel()
    generated(tmp_path, model, types=["thing", "being"], categories=["home"])
    schema = model.asked[0].schema
    assert schema is not None
    check = jsonschema.Draft202012Validator(schema)
    content = {"category": "home", "entities": [{"text": "a", "type": "being"}], "quantities": []}
    assert check.is_valid(content)
    assert not check.is_valid(content | {"category": "house"})
    assert not check.is_valid(content | {"entities": [{"text": "a", "type": "animal"}]})


def test_a_row_that_fails_is_a_reject(tmp_path: Path) -> None:
    rows, rejects = generated(tmp_path, PretendedModel(bad="Two dogs"))
    ids = seeding.text_ids(TEXTS).tolist()
    assert [row["sentence_id"] for row in rows] == [ids[2]]
    assert [(r["stage"], r["row_id"], r["reason"]) for r in rejects] == [
        ("extract_generate", ids[0], "failed")
    ]


def test_a_prompt_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.jinja"
    path.write_text("{{ types | length }} kinds: {{ sentence }}")
    model = PretendedModel()
    rows, _ = generated(tmp_path, model, prompt=str(path), types=["thing", "being"])
    assert [row["prompt"] for row in rows] == [f"2 kinds: {TEXTS[0]}", f"2 kinds: {TEXTS[2]}"]
    config = ExtractGenerateConfig(llm=LLM, prompt=str(path))
    assert extract_generate.externals(config) == {"prompt": path}
    own = extract_generate.externals(ExtractGenerateConfig(llm=LLM))["prompt"]
    assert (own.name, own.is_file()) == ("extract.jinja", True)
    path.write_text("{{ sentence }} {{ entities }}")
    with fails("unknown_name", "entities"):
        generated(tmp_path, model, prompt=str(path))


def test_what_would_be_asked_is_what_is_asked(tmp_path: Path) -> None:
    model = PretendedModel()
    generated(tmp_path, model)
    nobody = PretendedModel()
    assert STAGE.asks is not None
    assert list(STAGE.asks(work(tmp_path, nobody, {}))) == model.asked
    assert not nobody.asked
