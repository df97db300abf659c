"""The stage `extract_generate`: what is asked about which sentences, and what is kept of it."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
from failures import fails
from stages import emitted, rows_in, work_of

from tercet.models import seeding
from tercet.models.llm.messages import Answer, Request
from tercet.models.llm.settings import LlmSettings
from tercet.storage.rows import Rows
from tercet.tasks.knowledge import extract_generate
from tercet.tasks.knowledge.extract_generate import STAGE, ExtractGenerateConfig
from tercet.tasks.stage import Resources

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


def inputs(folder: Path) -> dict[str, Rows]:
    sentences = {
        "sentence_id": pa.array(seeding.text_ids(TEXTS), pa.uint64()),
        "text": TEXTS,
        "corpus": ["c"] * 4,
        "doc_id": pa.array([1, 1, 2, 2], pa.uint64()),
        "n_words": pa.array([len(text.split()) for text in TEXTS], pa.int32()),
        "split": ["train", "train", "train", "test"],
    }
    anchors = {"corpus": ["c"], "threshold": pa.array([2**64 - 1], pa.uint64())}
    for name, value in (("min_words", 3), ("max_words", 100), ("company", 0)):
        anchors[name] = pa.array([value], pa.int32())
    return {
        "sentences": rows_in(folder, sentences=pa.table(sentences)),
        "anchors": rows_in(folder, anchors=pa.table(anchors)),
    }


def generated(
    folder: Path, model: PretendedModel, **config: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of generations and of rejects."""
    settings = ExtractGenerateConfig(llm=LLM, **config)
    made = emitted(STAGE, settings, inputs(folder), folder, resources=Resources(ask=model))
    return made["generations"].to_pylist(), made["rejects"].to_pylist()


def test_anchors_alone_are_asked_about(tmp_path: Path) -> None:
    model = PretendedModel()
    rows, rejects = generated(tmp_path, model, types=["thing", "being"], categories=["home"])
    ids = seeding.text_ids(TEXTS).tolist()
    assert [row["sentence_id"] for row in rows] == [ids[0], ids[2]]
    assert [row["raw"] for row in rows] == ["{0}", "{1}"]
    assert [row["prompt"] for row in rows] == [request.prompt for request in model.asked]
    for row, text in zip(rows, (TEXTS[0], TEXTS[2]), strict=True):
        assert row["prompt"].rstrip().endswith(f"Sentence: {text}")
        assert [one for one in ("thing", "being", "home") if one not in row["prompt"]] == []
        assert (row["purpose"], row["method"], row["model"]) == ("extraction", "extract", "m@1")
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
    refused = [(row["stage"], row["row_id"], row["reason"]) for row in rejects]
    assert refused == [("extract_generate", ids[0], "failed")]


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
    work = work_of(
        ExtractGenerateConfig(llm=LLM), inputs(tmp_path), tmp_path, resources=Resources(ask=nobody)
    )
    assert STAGE.asks is not None
    assert list(STAGE.asks(work)) == model.asked
    assert not nobody.asked
