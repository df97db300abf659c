"""Stage `measure_generator`: the generator and every control, on the same pairs."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fitted_generator import WORDS, pairs
from tiny_generators import tiny_causal

from tercet.models.generators import generator
from tercet.models.generators.sampling import Decoding
from tercet.storage.rows import rows_of
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.evaluation import measure_generator
from tercet.tasks.evaluation.measure_generator import MeasureGeneratorConfig
from tercet.tasks.stage import BadInput, Resources, Work

DECODING = Decoding(beams=1, no_repeat=0, max_tokens=6)


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_causal(tmp_path_factory.mktemp("causal") / "tiny", WORDS)


def measured(folder: Path, models: dict[str, Path], **settings: Any) -> dict[str, list[Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {**row, "anchor": row["source"], "positive": row["target"], "corpus": "trial", "label": n}
        for n, row in enumerate(pairs(20).to_pylist())
    ]
    for row in rows:
        row |= {"kind": "scored", "negative": None, "entries": None}
    pq.write_table(pa.Table.from_pylist(rows, schema=LABELLED), folder / "labelled.parquet")
    given = {"corpora": ("trial",), "per_source": 2, "bootstrap": 100, "decoding": DECODING}
    tables: dict[str, pa.Table] = {}
    measure_generator.STAGE.run(
        Work(
            config=MeasureGeneratorConfig(name="g", **{**given, **settings}),
            seed=3,
            inputs={"labelled": rows_of({"labelled": [folder / "labelled.parquet"]})},
            models=models,
            spec={},
            resources=Resources(batch_size=7),
            scratch=folder,
            emit=tables.__setitem__,
        )
    )
    schemas = measure_generator.STAGE.tables
    return {name: table.cast(schemas[name]).to_pylist() for name, table in tables.items()}


def test_figures_of_the_generator_and_its_controls(
    causal: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    models = {"generator": causal, "encoder": tiny_backbone, "judge": causal}
    found = measured(tmp_path / "a", models, above=3.0)
    texts = found["generator_texts"]
    assert len(texts) == 16 * 2
    assert {row["number"] for row in texts} == {0, 1}
    assert len({row["text"] for row in texts}) > 16
    value = {(row["arm"], row["metric"]): row["value"] for row in found["generator_metrics"]}
    arms = {arm for arm, _ in value}
    assert {"generator", "human", "copy", "shuffle", "random_sentence", "replaced_20"} <= arms
    assert {"synonym_1", "synonym_2", "synonym_4"} <= arms
    for metric in ("average_rouge", "sentence_cosine"):
        assert value["human", metric] == pytest.approx(100)
    assert value["copy", "source_diversity"] == 0
    assert value["copy", "source_cosine"] == pytest.approx(100)
    three = ("average_rouge", "word_cosine", "sentence_cosine")
    others = ("source_diversity", "generation_diversity", "type_token_ratio")
    for arm in arms:
        alike, unlike = ([value[arm, name] for name in names] for names in (three, others))
        assert value[arm, "average"] == pytest.approx(np.mean([*alike, *unlike]))
        assert value[arm, "deficiency"] == pytest.approx(min(np.mean(alike), np.mean(unlike)))
        assert value[arm, "perplexity"] > 1
    for row in found["generator_metrics"]:
        assert row["n"] == 16
        assert row["per_source"] == (1 if row["arm"] in ("human", "copy") else 2)
        if row["ci_low"] is not None:
            assert row["ci_low"] <= row["value"] + 1e-9
            assert row["ci_high"] >= row["value"] - 1e-9
    gains = {metric for arm, metric in value if metric.startswith("gain_over_")}
    over = ("replaced", "deleted", "synonym", "shuffle")
    assert gains == {f"gain_over_{name}" for name in over}
    ours, shuffled = (value[arm, "sentence_cosine"] for arm in ("generator", "shuffle"))
    assert value["generator", "gain_over_shuffle"] == pytest.approx(ours - shuffled)
    again = measured(tmp_path / "b", models, above=3.0)
    assert again == found


def test_a_rows_texts_do_not_depend_on_the_others(
    causal: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    models = {"generator": causal, "encoder": tiny_backbone}
    many = measured(tmp_path / "a", models)["generator_texts"]
    few = measured(tmp_path / "b", models, max_rows=5)["generator_texts"]
    assert len(few) == 10
    assert [row for row in many if row in few] == few
    metrics = {row["metric"] for row in measured(tmp_path / "c", models)["generator_metrics"]}
    assert "perplexity" not in metrics


def test_killed_among_its_texts_it_asks_for_the_rest_alone(
    causal: Path, tiny_backbone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"generator": causal, "encoder": tiny_backbone}
    whole = measured(tmp_path / "whole", models)
    asked: list[int] = []

    def texts(opened: Any, prompts: Any, seeds: list[int], *rest: Any) -> Any:
        if len(asked) == 14 and not (tmp_path / "again").exists():
            # What a kill in the middle of a line leaves.
            with (tmp_path / "killed" / "answers.jsonl").open("a") as file:
                file.write('[3, 1, "half a')
            raise KeyboardInterrupt
        asked.extend(seeds)
        return plain(opened, prompts, seeds, *rest)

    plain = generator.texts
    monkeypatch.setattr(generator, "texts", texts)
    with pytest.raises(KeyboardInterrupt):
        measured(tmp_path / "killed", models)
    (tmp_path / "again").touch()
    assert measured(tmp_path / "killed", models) == whole
    assert len(asked) == len(set(asked)) == 40


def test_bad_input(causal: Path, tiny_backbone: Path, tmp_path: Path) -> None:
    models = {"generator": causal, "encoder": tiny_backbone}
    with pytest.raises(BadInput, match="and two are the least"):
        measured(tmp_path / "a", models, above=18.0)
    with pytest.raises(BadInput, match=r"measure_generators\.encoder"):
        measured(tmp_path / "b", {**models, "encoder": tmp_path})
    with pytest.raises(BadInput, match=r"measure_generators\.judge"):
        measured(tmp_path / "c", {**models, "judge": tiny_backbone})
    with pytest.raises(BadInput, match="cannot be loaded"):
        measured(tmp_path / "d", {**models, "generator": tiny_backbone})
