import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands_store import SENTENCES, make_artifact, make_run, names, small_store
from failures import fails

from tercet.errors import ErrorKind
from tercet.flows.commands.export import export, export_model
from tercet.flows.results.queries import find_artifact
from tercet.storage.runs import set_tag
from tercet.storage.store import FullDisk, open_store


@pytest.fixture
def store(tmp_path: Path) -> str:
    return small_store(tmp_path / "store")[0].location


def test_the_directory_is_plain_and_three_lines_load_it(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "birds"
    export("train", str(target), store, None)
    assert names(target) == ["1_Pooling/config.json", "README.md", "modules.json"]
    assert f"SentenceTransformer({str(target)!r})" in capsys.readouterr().out
    assert [p.name for p in target.parent.iterdir()] == ["birds"]
    (tmp_path / "empty").mkdir()
    export_model("train@bbbb", str(tmp_path / "empty"), store, "birds")
    assert (tmp_path / "empty" / "modules.json").is_file()
    set_tag(open_store(store), "herons", "train@bbbb")
    export("tag:herons", str(tmp_path / "tagged"), store, None)
    assert names(tmp_path / "tagged") == names(target)


def test_only_what_the_record_names_is_copied(store: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("root")
    folder = find_artifact(open_store(store), "train", None).model_dir()
    assert folder is not None
    (folder / "extra.json").symlink_to(secret)
    (folder / "losses").symlink_to(tmp_path)
    export("train", str(tmp_path / "birds"), store, None)
    assert names(tmp_path / "birds") == ["1_Pooling/config.json", "README.md", "modules.json"]
    (folder / "modules.json").unlink()
    (folder / "modules.json").symlink_to(secret)
    with fails("damaged"):
        export("train", str(tmp_path / "again"), store, None)
    assert not (tmp_path / "again").exists()


def test_what_was_never_made_is_said_to_be_missing(store: str, tmp_path: Path) -> None:
    untrained = open_store(str(tmp_path / "untrained")).location
    with fails("not_reached"):
        export("train", str(tmp_path / "new"), untrained, None)
    for run in (None, "birds"):
        with fails("not_reached", "--until"):
            export("graph", str(tmp_path / "new.graphml"), store, run)
    with fails("unknown_name", "nowhere"):
        export("graph", str(tmp_path / "new.graphml"), store, "nowhere")
    assert not (tmp_path / "new.graphml").exists()


def test_a_destination_that_is_taken_stays_as_it_is(store: str, tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()
    (target / "mine").write_text("x")
    for ref in ("train", "sentences"):
        with fails("exists"):
            export(ref, str(target), store, None)
        with fails("exists"):
            export(ref, str(target / "mine"), store, None)
        with fails("unreachable"):
            export(ref, str(target / "mine" / "below"), store, None)
    assert names(target) == ["mine"]


@pytest.mark.parametrize(
    ("ref", "options", "kind", "name"),
    [
        ("ingest", {}, "unfit_model", "ingest"),
        ("entry_matrix", {}, "unfit_model", "entry_matrix"),
        ("train@9999", {}, "not_reached", "train@9999"),
        ("no_such", {}, "unknown_name", "'no_such'"),
        ("sentences", {"int8": True}, "no_effect", "sentences"),
        ("train", {"public": True}, "missing_key", "--push REPO"),
        ("sentences@1234", {}, "unknown_name", "'sentences@1234'"),
        ("triplets", {}, "not_reached", "triplets"),
        ("sentense", {}, "unknown_name", "'sentences'"),
        ("train", {"push": "no good name"}, "bad_value", "OWNER/NAME"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(
    store: str, tmp_path: Path, ref: str, options: dict[str, Any], kind: ErrorKind, name: str
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "weights.bin").write_text("x")
    make_artifact(open_store(store), "entry_matrix", "abcd", {}, model=bare)
    make_artifact(open_store(store), "train", "9999", {}, model=bare, finished=False)
    with fails(kind, name):
        export(ref, str(tmp_path / "out"), store, None, **options)
    assert not (tmp_path / "out").exists()


def test_the_name_of_a_file_is_refused_where_a_directory_is_written(
    store: str, tmp_path: Path
) -> None:
    for ref, name in (("sentences", "s.parquet"), ("train", "encoder.ONNX")):
        with fails("bad_value"):
            export(ref, str(tmp_path / name), store, None)
        assert not (tmp_path / name).exists()
    export("sentences", str(tmp_path / "v1.2"), store, None)
    make_artifact(open_store(store), "graph", "9999", {})
    with fails("bad_value"):
        export("graph", str(tmp_path / "g.json"), store, None)


def test_onnx_without_its_packages_says_what_to_install(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with fails("missing_package", "'tercet[onnx]'"):
        export("train", str(tmp_path / "out"), store, None, onnx=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ref", ["train", "sentences"])
def test_a_full_disk_leaves_nothing(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ref: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    monkeypatch.setattr(pa, "OSFile", full)
    with pytest.raises(FullDisk):
        export(ref, str(tmp_path / "out" / "new"), store, None)
    assert list((tmp_path / "out").iterdir()) == []


_ALONE = """
import json, sys
sys.modules["tercet"] = None
from sentence_transformers import SentenceTransformer
model = SentenceTransformer(sys.argv[1], device="cpu")
print(json.dumps(model.encode(json.loads(sys.argv[2])).tolist()))
"""


@pytest.mark.slow
def test_a_process_that_cannot_import_tercet_gets_the_same_embeddings(
    tmp_path: Path, tiny_backbone: Path
) -> None:
    import numpy as np

    from tercet.models.encoders.encoder import load_encoder

    store = _trained_store(tmp_path, tiny_backbone)
    export("train", str(tmp_path / "out"), store, None)
    texts = ["the old file is open", "read a row of the array", "green"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", _ALONE, str(tmp_path / "out"), json.dumps(texts)],
        capture_output=True,
        text=True,
        timeout=1200,
        check=True,
    )
    vectors = np.array(json.loads(done.stdout.splitlines()[-1]))
    expected = load_encoder(tiny_backbone).encode(texts)
    assert np.abs(vectors - expected).max() <= 1e-6


@pytest.mark.slow
@pytest.mark.usefixtures("onnx")
def test_onnx_files_agree_with_the_encoder_and_the_card_says_how_far(
    tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    store = _trained_store(tmp_path, tiny_backbone, tiny_texts)
    export("train", str(tmp_path / "out"), store, None, onnx=True, int8=True)
    files = [name for name in names(tmp_path / "out") if name.endswith(".onnx")]
    assert len(files) == 2
    assert "onnx/model.onnx" in files
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| `onnx/model.onnx` | 1.00000 | 1.00000 | 100.000 |" in card
    assert "| `onnx/model.onnx` | recall@1 |" in card
    block = card.partition("tokenizers alone:\n\n```python\n")[2].partition("```")[0]
    given: dict[str, Any] = {}
    exec(block.replace("DIRECTORY", str(tmp_path / "out")), given)
    assert given["vectors"].shape == (1, 32)


def _trained_store(tmp_path: Path, backbone: Path, texts: list[str] | None = None) -> str:
    """A store whose encoder is a real one, with dev sentences and pairs of test."""
    from tercet.models.encoders.encoder import load_encoder

    load_encoder(backbone).save_pretrained(str(tmp_path / "encoder"))
    store = open_store(str(tmp_path / "trained"))
    tables = {"sentences": SENTENCES}
    if texts is not None:
        ids = pa.array(range(len(texts)), pa.uint64())
        split = pa.array(["dev"] * len(texts))
        tables["sentences"] = pa.table({"sentence_id": ids, "text": texts, "split": split})
        half = len(texts) // 2
        tables["document_pairs"] = pa.table(
            {
                "pair_id": ids[:half],
                "query": texts[:half],
                "answer": texts[half : 2 * half],
                "split": pa.array(["test"] * half),
            }
        )
    make_artifact(store, "ingest", "aaaa", tables)
    make_artifact(store, "train", "bbbb", {}, model=tmp_path / "encoder")
    steps: dict[str, Any] = {"ingest": ("aaaa", "made", {}), "train": ("bbbb", "made", {})}
    make_run(store, "birds", steps)
    return store.location


def test_the_first_of_several_seeds_is_the_one_called_train(tmp_path: Path) -> None:
    store, _ = small_store(tmp_path / "store")
    versions = {"train": "aaaa0001", "train.seed43": "aaaa0002"}
    for step, version in versions.items():
        make_artifact(store, step, version, {"training_log": pa.table({"step": [1]})})
    steps = {step: (version, "made", {"training_log": 1}) for step, version in versions.items()}
    run_id = make_run(store, "sown", steps, {"name": "sown", "seed": 42})
    for run_ref in (None, run_id):
        for step, version in versions.items():
            assert find_artifact(store, step, run_ref).version == version


def test_an_empty_directory_is_filled_where_one_stands_and_behind_a_link(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "meant"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    export("train", ".", store, None)
    (tmp_path / "link").symlink_to(tmp_path / "meant")
    export("train", str(tmp_path / "link"), store, None)
    assert (tmp_path / "here" / "modules.json").is_file()
    assert (tmp_path / "meant" / "modules.json").is_file()
