import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from failures import fails
from pydantic import ValidationError
from stages import emitted
from synthesis_stage import chain, shares

from tercet.models import seeding
from tercet.models.generation import GENERATIONS, Method, Prompted
from tercet.models.prompted.prompt_requests import each_sentence
from tercet.storage.rows import Rows
from tercet.tasks.synthesis import methods, prompted, synthesise
from tercet.tasks.synthesis.methods import METHODS, SynthesiseConfig, check_params, method_of

RULES = [
    name for name, method in METHODS.items() if not method.prompted and method.each == "sentences"
]


Store = tuple[Path, dict[str, Rows]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("synthesise")
    return folder, chain(folder)


def synthesised(
    method: str, folder: Path, inputs: Mapping[str, Rows | pa.Table], seed: int = 3, **settings: Any
) -> pa.Table:
    config = SynthesiseConfig(method=method, **settings)
    return emitted(synthesise.STAGE, config, inputs, folder, seed=seed)["generations"]


@pytest.mark.parametrize("method", RULES)
def test_generations_of_each_method(method: str, store: Store) -> None:
    folder, inputs = store
    table = synthesised(method, folder, inputs)
    assert table.schema.equals(GENERATIONS)
    rows = table.to_pylist()
    assert len(rows) > 20
    sentences = inputs["sentences"].table("sentences")
    texts = dict(
        zip(sentences["sentence_id"].to_pylist(), sentences["text"].to_pylist(), strict=True)
    )
    train = set(sentences.filter(pc.equal(sentences["split"], "train"))["sentence_id"].to_pylist())
    mentions = set(inputs["mentions"].table("mentions")["mention_id"].to_pylist())
    assert {row["sentence_id"] for row in rows} <= train
    assert len({row["generation_id"] for row in rows}) == len(rows)
    for row in rows:
        detail = row["detail"]
        assert row["raw"] != texts[row["sentence_id"]]
        assert row["raw"] == row["raw"].strip()
        assert row["generation_id"] == seeding.text_id(
            method, str(row["sentence_id"]), "0", row["raw"]
        )
        assert row["n_tokens"] == len(row["raw"].split())
        assert (row["method"], row["finish_reason"], row["model"]) == (method, "stop", None)
        assert row["purpose"] == method_of(method).purpose
        assert detail["operation"]
        assert detail["mention_id"] is None or detail["mention_id"] in mentions
        for old in (detail["old"] or "").split("; "):
            assert old in texts[row["sentence_id"]]


@pytest.mark.parametrize("method", RULES)
def test_rows_are_the_same_under_any_partition(method: str, store: Store) -> None:
    folder, inputs = store
    whole = synthesised(method, folder, inputs)
    sentences = inputs["sentences"].table("sentences")
    mentions = inputs["mentions"].table("mentions")
    docs = sentences["doc_id"].to_numpy()
    pieces = []
    for chosen in (docs >= 117, docs < 103, (docs >= 103) & (docs < 117)):
        part = sentences.filter(pa.array(chosen))
        own = mentions.filter(pc.is_in(mentions["sentence_id"], part["sentence_id"]))
        own = own.take(np.random.default_rng(0).permutation(len(own)))
        cut = {"sentences": part, "mentions": own}
        pieces.append(synthesised(method, folder, {**inputs, **cut}))
    again = pa.concat_tables(pieces)
    assert again.sort_by("generation_id").equals(whole.sort_by("generation_id"))


def test_the_seed_decides(store: Store) -> None:
    folder, inputs = store
    first = synthesised("word_shuffle", folder, inputs, seed=1)
    other = synthesised("word_shuffle", folder, inputs, seed=2)
    assert first.equals(synthesised("word_shuffle", folder, inputs, seed=1))
    assert not first["raw"].equals(other["raw"])


def test_weight_is_the_share_of_anchors_tried(store: Store) -> None:
    folder, inputs = store
    whole = synthesised("word_shuffle", folder, inputs)
    part = synthesised("word_shuffle", folder, inputs, weight=0.5)
    less = synthesised("word_shuffle", folder, inputs, weight=0.25)
    ids = [set(table["generation_id"].to_pylist()) for table in (less, part, whole)]
    assert ids[0] < ids[1] < ids[2]
    assert 0.3 < len(ids[1]) / len(ids[2]) < 0.7


def test_anchors_alone_are_generated_for(store: Store) -> None:
    folder, inputs = store
    half = synthesised("cutoff", folder, {**inputs, "anchors": shares(2**63)})
    whole = synthesised("cutoff", folder, inputs)
    assert 0 < len(half) < len(whole)
    other = {**inputs, "anchors": shares(2**62, ["another"])}
    assert len(synthesised("cutoff", folder, other)) == 0


def test_random_is_of_another_document_of_train(store: Store) -> None:
    folder, inputs = store
    rows = inputs["sentences"].table("sentences").to_pylist()
    by_id = {row["sentence_id"]: row for row in rows}
    by_text = {row["text"]: row for row in rows}
    table = synthesised("random", folder, inputs)
    assert len(table) == sum(row["split"] == "train" for row in rows)
    for row in table.to_pylist():
        drawn = by_text[row["raw"]]
        assert drawn["split"] == "train"
        assert drawn["doc_id"] != by_id[row["sentence_id"]]["doc_id"]


def test_params_are_checked_and_filled_in() -> None:
    config = SynthesiseConfig(method="next_sentences")
    assert config.params == {"max_words": 64}
    assert SynthesiseConfig(method="cutoff", params={"per_sentence": 2}).params["per_sentence"] == 2
    with pytest.raises(ValueError, match="per_word"):
        SynthesiseConfig(method="cutoff", params={"per_word": 2})
    with pytest.raises(ValidationError, match="nonsense"):
        SynthesiseConfig(method="nonsense")


def test_a_method_may_be_new() -> None:
    own = {"prompt": "own.jinja", "relation": "other", "checks": ["question"]}
    config = SynthesiseConfig(method="mine", params=own)
    method = config.described
    assert (method.name, method.purpose, method.relation) == ("mine", "negative", "other")
    assert (tuple(method.checks), method.variables) == (("question",), ("sentence",))
    for fault, params in (
        ("relation", {"prompt": "own.jinja"}),
        ("prompt", {}),
        ("as_anchor", {**own, "as_anchor": True}),
        ("unit", {**own, "unit": "passage"}),
        ("tone", {**own, "tone": "formal"}),
        ("checks", {**own, "checks": ["nicety"]}),
    ):
        with pytest.raises(ValidationError, match=fault):
            SynthesiseConfig(method="mine", params=params)


def test_a_passage_is_no_unit_for_what_a_sentence_mentions() -> None:
    params = {"unit": "passage", "relation": "topic"}
    assert SynthesiseConfig(method="rewrite", params=params).described.variables == ("passage",)
    with pytest.raises(ValidationError, match="from_knowledge"):
        SynthesiseConfig(method="from_knowledge", params=params)


ASK = Method(
    "ask",
    "positive",
    "topic",
    each_sentence("ask"),
    Prompted,
    variables=("tone", "passage"),
    unit="passage",
    as_anchor=True,
    module="acme",
)


def test_a_method_of_a_package_keeps_what_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "METHODS", {**methods.METHODS, "ask": ASK})
    found = method_of("ask", SynthesiseConfig())
    assert (found.unit, found.as_anchor) == ("passage", True)
    assert found.variables == ("tone", "passage")
    assert check_params("ask", SynthesiseConfig())["unit"] == "passage"
    with fails("missing_key", "ask"):
        prompted.template_of(SynthesiseConfig(method="ask"))


def test_a_prompt_of_ours_is_about_a_sentence() -> None:
    config = SynthesiseConfig(method="paraphrase", params={"unit": "passage", "relation": "topic"})
    with fails("missing_key", "paraphrase"):
        prompted.template_of(config)


def test_rules_and_checks_are_made_without_torch() -> None:
    code = "import sys; from tercet.tasks.synthesis import synthesise, parse;"
    code += "assert not {'torch', 'transformers', 'prefect', 'lemminflect'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
