"""Stages `paraphrase` and `measure_generators`: generators and controls on the same pairs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failures import fails
from fitted_generator import WORDS, pairs
from stages import emitted, stored
from tiny_generators import tiny_causal

from tercet.models.generators import generator
from tercet.models.generators.settings import Decoding
from tercet.storage.rows import rows_of
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.evaluation import measure_generators, paraphrase
from tercet.tasks.evaluation.measure_generators import MeasureGeneratorsConfig
from tercet.tasks.evaluation.paraphrase import ParaphraseConfig
from tercet.tasks.stage import Resources

DECODING = Decoding(beams=1, no_repeat=0, max_tokens=6)


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_causal(tmp_path_factory.mktemp("causal") / "tiny", WORDS)


def written(folder: Path, model: Path, name: str = "g", **settings: Any) -> pa.Table:
    blank = dict.fromkeys(LABELLED.names) | {"corpus": "trial", "kind": "scored"}
    rows = [
        {**blank, "row_id": row["row_id"], "anchor": row["source"], "positive": row["target"]}
        | {"label": n}
        for n, row in enumerate(pairs(20).to_pylist())
    ]
    given = {"corpora": ("trial",), "per_source": 2, "decoding": DECODING}
    config = ParaphraseConfig(name=name, **{**given, **settings})
    inputs = stored(folder, labelled=pa.Table.from_pylist(rows, schema=LABELLED))
    more = {"models": {"generator": model}, "resources": Resources(batch_size=7)}
    return emitted(paraphrase.STAGE, config, inputs, folder, **more)["generator_texts"]


def measured(folder: Path, models: dict[str, Path], *texts: pa.Table) -> list[dict[str, Any]]:
    names = [f"texts{number}" for number in range(len(texts))]
    stored(folder, **dict(zip(names, texts, strict=True)))
    files = [folder / f"{name}.parquet" for name in names]
    inputs = {"texts": rows_of({"generator_texts": files})}
    config = MeasureGeneratorsConfig(encoder="e", bootstrap=100)
    more = {"models": models, "resources": Resources(batch_size=7)}
    tables = emitted(measure_generators.STAGE, config, inputs, folder, **more)
    return list(tables["generator_metrics"].to_pylist())


def test_figures_of_generators_and_their_controls(
    causal: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    models = {"encoder": tiny_backbone, "judge": causal}
    texts = written(tmp_path / "a", causal, above=3.0)
    assert texts.num_rows == 16 * 2
    assert set(texts["number"].to_pylist()) == {0, 1}
    assert len(set(texts["text"].to_pylist())) > 16
    found = measured(tmp_path / "b", models, texts)
    value = {(row["arm"], row["metric"]): row["value"] for row in found}
    arms = {arm for arm, _ in value}
    assert {"generator", "human", "copy", "shuffle", "random_sentence", "replaced_20"} <= arms
    assert {"synonym_1", "synonym_2", "synonym_4"} <= arms
    assert {row["generator"] for row in found if row["arm"] == "generator"} == {"g"}
    assert {row["generator"] for row in found if row["arm"] != "generator"} == {None}
    for metric in ("average_rouge", "character_rouge", "sentence_cosine"):
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
    for row in found:
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


def test_generators_share_their_controls_and_keep_their_figures(
    causal: Path, tiny_backbone: Path, tmp_path: Path
) -> None:
    models = {"encoder": tiny_backbone}
    # Named like a control, and before and after it by name.
    one = written(tmp_path / "a", causal, "shuffle")
    other = written(tmp_path / "b", causal, "a", decoding=Decoding(beams=1, max_tokens=2))
    alone = measured(tmp_path / "c", models, one)
    both = measured(tmp_path / "d", models, one, other)
    assert not any(row["metric"] == "perplexity" for row in both)
    assert len({json.dumps(row, sort_keys=True) for row in both}) == len(both)
    added = [row for row in both if row["generator"] == "a"]
    assert len(both) - len(added) == len(alone)
    known = {(row["generator"], row["arm"], row["metric"]): row for row in both}
    for row in alone:
        again = known[row["generator"], row["arm"], row["metric"]]
        # Texts are encoded in other batches beside the second generator's.
        assert again["value"] == (
            None if row["value"] is None else pytest.approx(row["value"], abs=1e-3)
        )
    assert measured(tmp_path / "e", models, one, other) == both


def test_a_rows_texts_do_not_depend_on_the_others(causal: Path, tmp_path: Path) -> None:
    many = written(tmp_path / "a", causal).to_pylist()
    few = written(tmp_path / "b", causal, max_rows=5).to_pylist()
    assert len(few) == 10
    assert [row for row in many if row in few] == few


def test_killed_among_its_texts_it_asks_for_the_rest_alone(
    causal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = written(tmp_path / "whole", causal)
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
        written(tmp_path / "killed", causal)
    (tmp_path / "again").touch()
    assert written(tmp_path / "killed", causal) == whole
    assert len(asked) == len(set(asked)) == 40


def test_bad_input(causal: Path, tiny_backbone: Path, tmp_path: Path) -> None:
    with fails("no_rows", "two"):
        written(tmp_path / "a", causal, above=18.0)
    with fails("unfit_model", "99"):
        written(tmp_path / "z", causal, above=99.0)
    with fails("unfit_model", "paraphrase"):
        written(tmp_path / "b", tiny_backbone)
    texts = written(tmp_path / "c", causal, max_rows=3)
    with fails("unfit_model", "measure_generators.encoder"):
        measured(tmp_path / "d", {"encoder": tmp_path}, texts)
    with fails("unfit_model", "measure_generators.judge"):
        measured(tmp_path / "e", {"encoder": tiny_backbone, "judge": tiny_backbone}, texts)
