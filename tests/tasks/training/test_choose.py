"""Stage `choose`: candidates measured by questions, the one that is shipped, and its gains."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from beir_folder import write_beir
from safetensors.torch import load_file
from searched_store import other_encoder, passages
from stages import ran, stored

from tercet.models import seeding
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.measures.cautious_choice import choose_candidate, cross_fitted
from tercet.models.text.passages import passage_text
from tercet.storage.rows import Rows
from tercet.tasks.encoders import MIXES, mix_weights
from tercet.tasks.evaluation.judgements import JUDGEMENTS
from tercet.tasks.evaluation.suites.own import RetrievalSource
from tercet.tasks.retrieval.passage_vectors import PASSAGE_VECTORS
from tercet.tasks.training import choose
from tercet.tasks.training.choose import ChooseConfig, slot_of

PASSAGES, QUESTIONS = 60, 36
Tables = dict[str, list[dict[str, Any]]]


@pytest.fixture
def models(tiny_backbone: Path, tmp_path: Path) -> dict[str, Path]:
    return {
        "untouched": tiny_backbone,
        "model": other_encoder(tiny_backbone, tmp_path / "trained"),
    }


@pytest.fixture
def inputs(models: dict[str, Path], tiny_texts: list[str], tmp_path: Path) -> dict[str, Rows]:
    """Passages in files of two, and questions that each name one file of them by its words."""
    table = passages(tiny_texts[:PASSAGES])
    sources = pa.array([f"{place // 2}.md" for place in range(PASSAGES)])
    table = table.set_column(table.schema.get_field_index("source"), "source", sources)
    ids = table["passage_id"].to_pylist()
    rows = [
        {"task": "mine", "query": query, "split": "test", "unit": "passage"}
        | {"query_id": seeding.text_id(query), "passage_id": ids[place]}
        for place, query in enumerate(queries(tiny_texts))
    ]
    # Questions of dev choose nothing here.
    rows.append({**rows[0], "query": "of dev", "query_id": 1, "split": "dev"})
    tables = {"passages": table, "judgements": pa.Table.from_pylist(rows, JUDGEMENTS)}
    texts = [passage_text(row["context"], row["text"]) for row in table.to_pylist()]
    vectors = {}
    for mix in MIXES:
        columns = [table["passage_id"], list(encode(mixed(models, mix), texts, side="document"))]
        of_mix = stored(
            tmp_path / f"{mix}", passage_vectors=pa.table(columns, schema=PASSAGE_VECTORS)
        )
        vectors[slot_of(mix)] = of_mix["passage_vectors"]
    return stored(tmp_path, **tables) | vectors


def queries(texts: list[str]) -> list[str]:
    return [f"which {' '.join(text.split()[:3])} {i}?" for i, text in enumerate(texts[:QUESTIONS])]


def mixed(models: dict[str, Path], mix: float) -> Any:
    return mix_weights(load_encoder(models["untouched"]), load_encoder(models["model"]), mix)


def chosen(
    inputs: dict[str, Rows], models: dict[str, Path], scratch: Path, **settings: Any
) -> tuple[Path, Tables]:
    """The directory of the encoder, and the rows of the tables."""
    config = ChooseConfig(bootstrap=200, **settings)
    path, tables = ran(choose.STAGE, config, inputs, scratch, models)
    return path, {name: table.to_pylist() for name, table in tables.items()}


def test_the_questions_choose_and_are_counted_by_others(
    inputs: dict[str, Rows], models: dict[str, Path], tiny_texts: list[str], tmp_path: Path
) -> None:
    path, tables = chosen(inputs, models, tmp_path / "work")
    asked = queries(tiny_texts)
    ndcg = np.empty((QUESTIONS, len(MIXES)))
    for place, mix in enumerate(MIXES):
        documents = np.stack(
            inputs[slot_of(mix)].table("passage_vectors")["vector"].to_numpy(zero_copy_only=False)
        )
        cosines = encode(mixed(models, mix), asked, side="query") @ documents.T
        ranks = 1 + (cosines > np.diag(cosines)[:, None]).sum(axis=1)
        ndcg[:, place] = np.where(ranks <= 10, 100 / np.log2(1 + ranks), 0)
    of = {(row["query"], row["mix"]): row["ndcg"] for row in tables["candidate_gains"]}
    assert len(of) == QUESTIONS * len(MIXES)
    found = [[of[query, mix] for mix in MIXES] for query in asked]
    assert np.allclose(found, ndcg, atol=1e-4)

    gains = ndcg - ndcg[:, :1]
    best = choose_candidate(gains)
    assert [row["chosen"] for row in tables["candidate_encoders"]] == [
        place == best for place in range(len(MIXES))
    ]
    assert [row["gain"] for row in tables["candidate_encoders"]] == pytest.approx(
        gains.mean(axis=0)
    )
    assert {row["n"] for row in tables["candidate_encoders"]} == {QUESTIONS}
    # Two passages are of one file, so questions to them are never apart.
    seed = seeding.text_id("3", "choose")
    crossed = cross_fitted(gains, np.arange(QUESTIONS) // 2, seed)
    choices = {(row["task"], row["metric"]): row for row in tables["choices"]}
    assert choices["mine", "ndcg@10"]["gain"] == pytest.approx(crossed.values(gains).mean())
    assert {name for name, _ in choices} == {"mine", "mine hybrid"}
    assert {(row["chosen_by"], row["mix"], row["n"]) for row in tables["choices"]} == {
        ("questions", MIXES[best], QUESTIONS)
    }
    vectors = inputs[slot_of(MIXES[best])].table("passage_vectors").to_pylist()
    assert tables["passage_vectors"] == vectors
    assert_weights(path, models, MIXES[best])


def assert_weights(path: Path, models: dict[str, Path], mix: float) -> None:
    """The encoder has these weights, bit for bit."""
    found, wanted = load_encoder(path).state_dict(), mixed(models, mix).state_dict()
    assert all(bool((found[name] == weight).all()) for name, weight in wanted.items())


@pytest.mark.parametrize("mix", [0.0, 0.25, 1.0])
def test_without_questions_the_default_is_shipped(
    models: dict[str, Path], tmp_path: Path, mix: float
) -> None:
    path, tables = chosen({}, models, tmp_path / "work", mix=mix)
    (choice,) = tables["choices"]
    assert (choice["chosen_by"], choice["mix"], choice["gain"]) == ("default", mix, None)
    assert [row["mix"] for row in tables["candidate_encoders"] if row["chosen"]] == [mix]
    assert tables["passage_vectors"] == []
    assert_weights(path, models, mix)
    if mix in (0, 1):
        source = models["model" if mix else "untouched"]
        before = load_file(next(source.rglob("model.safetensors")))
        after = load_file(next(path.rglob("model.safetensors")))
        assert before.keys() == after.keys()
        assert all(bool((after[name] == weight).all()) for name, weight in before.items())


def test_29_questions_and_those_of_one_document_choose_nothing(
    inputs: dict[str, Rows], models: dict[str, Path], tmp_path: Path
) -> None:
    table = inputs["judgements"].table("judgements")
    place = table.schema.get_field_index("passage_id")
    one = pa.array([table["passage_id"][0].as_py()] * table.num_rows, pa.uint64())
    own = table.set_column(place, "passage_id", one)
    for name, rows in {"few": table.slice(0, 29), "one document": own}.items():
        given = {**inputs, **stored(tmp_path / f"{name} given", judgements=rows)}
        _, tables = chosen(given, models, tmp_path / name, mix=0.75)
        assert [(row["chosen_by"], row["mix"]) for row in tables["choices"]] == [("default", 0.75)]
        # What the questions say is there all the same.
        assert all(row["gain"] is not None for row in tables["candidate_encoders"])
        assert tables["passage_vectors"]


def test_a_folder_of_queries_is_encoded_by_each_candidate(
    models: dict[str, Path], tiny_texts: list[str], tmp_path: Path
) -> None:
    folder = write_beir(
        tmp_path / "beir",
        {f"d{i}": text for i, text in enumerate(tiny_texts[:PASSAGES])},
        {f"q{i}": query for i, query in enumerate(queries(tiny_texts))},
        {"test": [(f"q{i}", f"d{i}", 1) for i in range(QUESTIONS)]},
    )
    sets = {"sets": RetrievalSource(source=str(folder))}
    _, tables = chosen({}, models, tmp_path / "work", retrieval_sets=sets)
    assert {row["n"] for row in tables["choices"]} == {QUESTIONS}
    assert {row["chosen_by"] for row in tables["choices"]} == {"questions"}
    _, again = chosen({}, models, tmp_path / "again", retrieval_sets=sets)
    assert again == tables
