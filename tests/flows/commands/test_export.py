import errno
import hashlib
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands_store import SENTENCES, make_artifact, make_run, small_store, tercet

from tercet.flows.commands.export import export, export_model
from tercet.flows.exports.table import write_shards
from tercet.flows.results.refs import find_artifact
from tercet.storage.store import FullDisk, StoreError, open_store
from tercet.storage.tags import set_tag
from tercet.tasks.stage import BadInput

LARGE = 2**64 - 5


@pytest.fixture
def store(tmp_path: Path) -> str:
    return small_store(tmp_path / "store")[0].location


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_the_directory_is_plain_and_three_lines_load_it(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "birds"
    export("train", str(target), store, None)
    assert names(target) == ["1_Pooling/config.json", "README.md", "modules.json"]
    out = capsys.readouterr().out
    assert f"SentenceTransformer({str(target)!r})" in out
    assert len(out.splitlines()) == 4
    assert [p.name for p in target.parent.iterdir()] == ["birds"]
    (tmp_path / "empty").mkdir()
    export_model("train@bbbb", str(tmp_path / "empty"), store, "birds")
    assert (tmp_path / "empty" / "modules.json").is_file()
    set_tag(open_store(store), "herons", "train@bbbb")
    export("tag:herons", str(tmp_path / "tagged"), store, None)
    assert names(tmp_path / "tagged") == names(target)


def test_before_any_training_there_is_no_encoder(tmp_path: Path) -> None:
    untrained = open_store(str(tmp_path / "untrained")).location
    with pytest.raises(BadInput, match="No run in this store has trained yet: "):
        export("train", str(tmp_path / "new"), untrained, None)
    with pytest.raises(StoreError, match="No table, step, version or tag is called 'graph'"):
        export("graph", str(tmp_path / "new"), untrained, None)


@pytest.mark.parametrize(("run", "whose"), [(None, "This store has"), ("birds", "Run .* has")])
def test_a_graph_that_was_never_made_is_said_to_be_missing(
    store: str, tmp_path: Path, run: str | None, whose: str
) -> None:
    with pytest.raises(BadInput, match=f"{whose} no knowledge graph: .*--until graph"):
        export("graph", str(tmp_path / "new.graphml"), store, run)
    with pytest.raises(StoreError, match="nowhere"):
        export("graph", str(tmp_path / "new.graphml"), store, "nowhere")
    assert not (tmp_path / "new.graphml").exists()


def test_a_destination_that_is_taken_stays_as_it_is(store: str, tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()
    (target / "mine").write_text("x")
    for ref in ("train", "sentences"):
        with pytest.raises(BadInput, match="not empty"):
            export(ref, str(target), store, None)
        with pytest.raises(BadInput, match="is a file"):
            export(ref, str(target / "mine"), store, None)
        with pytest.raises(StoreError, match="cannot be used"):
            export(ref, str(target / "mine" / "below"), store, None)
    assert names(target) == ["mine"]


def test_what_is_no_encoder_is_refused(store: str, tmp_path: Path) -> None:
    opened = open_store(store)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "weights.bin").write_text("x")
    make_artifact(opened, "entry_matrix", "abcd", {}, model=bare)
    make_artifact(opened, "train", "9999", {}, model=bare, finished=False)
    for ref, said in (
        ("ingest", "not a model"),
        ("entry_matrix", "not a sentence encoder"),
        ("train@9999", "not finished"),
    ):
        with pytest.raises(BadInput, match=said):
            export(ref, str(tmp_path / "out"), store, None)
    with pytest.raises(StoreError):
        export("no_such", str(tmp_path / "out"), store, None)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("ref", "options", "said"),
    [
        ("sentences", {"int8": True}, "is a table"),
        ("train", {"public": True}, "--push REPO"),
        ("sentences@1234", {}, "called 'sentences@1234'"),
        ("triplets", {}, "No run has reached the table triplets"),
        ("sentense", {}, "called 'sentense'; the nearest is 'sentences'"),
        ("train", {"push": "no good name"}, "OWNER/NAME"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(
    store: str, tmp_path: Path, ref: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises((BadInput, StoreError), match=said):
        export(ref, str(tmp_path / "out"), store, None, **options)
    assert not (tmp_path / "out").exists()


def test_the_name_of_a_file_is_refused_where_a_directory_is_written(
    store: str, tmp_path: Path
) -> None:
    for ref, name in (("sentences", "s.parquet"), ("train", "encoder.ONNX")):
        with pytest.raises(BadInput, match="is named like a file, but an export is a directory"):
            export(ref, str(tmp_path / name), store, None)
        assert not (tmp_path / name).exists()
    export("sentences", str(tmp_path / "v1.2"), store, None)
    make_artifact(open_store(store), "graph", "9999", {})
    with pytest.raises(BadInput, match=r"is written to a file: .* ends in \.graphml"):
        export("graph", str(tmp_path / "g.json"), store, None)


def test_onnx_without_its_packages_says_what_to_install(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'tercet\[onnx\]'"):
        export("train", str(tmp_path / "out"), store, None, onnx=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ref", ["train", "sentences"])
def test_a_full_disk_leaves_nothing(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ref: str
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(FullDisk):
        export(ref, str(tmp_path / "out" / "new"), store, None)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_table_is_loaded_by_datasets_with_its_ids_and_types(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from datasets import load_dataset

    store = open_store(str(tmp_path / "store"))
    detail = pa.array([{"old": "a", "node_id": LARGE}, None], _DETAIL)
    first = pa.table(
        {"candidate_id": pa.array([LARGE, 1], pa.uint64()), "text": ["x", "é|"], "detail": detail}
    )
    make_artifact(store, "parse", "aaaa", {"candidates": first})
    make_artifact(store, "parse", "bbbb", {"candidates": first.slice(0, 1)})
    old = make_run(store, "birds", {"parse": ("bbbb", "made", {"candidates": 1})})
    make_run(store, "birds", {"parse": ("aaaa", "made", {"candidates": 2})})
    export("candidates", str(tmp_path / "new"), store.location, None)
    assert "2 rows of candidates" in capsys.readouterr().out
    assert names(tmp_path / "new") == ["README.md", "data/train-00000-of-00001.parquet"]
    data = load_dataset(str(tmp_path / "new"), split="train", cache_dir=str(tmp_path / "cache"))
    assert data.to_list() == first.to_pylist()
    assert str(data.features["candidate_id"]) == "Value('uint64')"
    export("candidates", str(tmp_path / "old"), store.location, old)
    export("candidates@bbbb", str(tmp_path / "version"), store.location, None)
    for place in ("old", "version"):
        found = pq.read_table(tmp_path / place / "data" / "train-00000-of-00001.parquet")
        assert found["candidate_id"].to_pylist() == [LARGE]
        assert "`parse@bbbb`" in (tmp_path / place / "README.md").read_text()


_DETAIL = pa.struct([("old", pa.string()), ("node_id", pa.uint64())])


def test_many_rows_become_several_files_with_stable_names(tmp_path: Path) -> None:
    # Digests: what cannot be compressed is written as it comes.
    values = [int(hashlib.md5(b"%d" % n).hexdigest()[:15], 16) for n in range(5000)]
    batches = [
        pa.record_batch({"n": pa.array(values[start : start + 1000], pa.int64())})
        for start in range(0, 5000, 1000)
    ]
    written = write_shards(batches[0].schema, iter(batches), tmp_path / "data", shard_bytes=12_000)
    assert (written.rows, written.memory) == (5000, 40_000)
    found = sorted((tmp_path / "data").iterdir())
    count = len(found)
    assert count > 1
    assert [f.name for f in found] == [
        f"train-{i:05d}-of-{count:05d}.parquet" for i in range(count)
    ]
    assert sum(f.stat().st_size for f in found) == written.bytes
    read = pa.concat_tables([pq.read_table(f) for f in found])
    assert read["n"].to_pylist() == values


def test_tables_of_the_store_itself_can_be_exported_and_empty_ones_not(
    store: str, tmp_path: Path
) -> None:
    export("artifacts", str(tmp_path / "artifacts"), store, None)
    assert "span all runs" in (tmp_path / "artifacts" / "README.md").read_text()
    with pytest.raises(BadInput, match="no rows"):
        export("tags", str(tmp_path / "tags"), store, None)
    assert not (tmp_path / "tags").exists()


class _Hub(BaseHTTPRequestHandler):
    """As much of the hub's interface as a small upload asks for."""

    heard: list[tuple[str, str, str, bytes]]
    status = 200
    private = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.heard.append((self.command, self.path, self.headers.get("Authorization", ""), body))
        answer: dict[str, Any] = {}
        if self.path == "/api/repos/create":
            kind = json.loads(body).get("type", "model")
            folder = "datasets/" if kind == "dataset" else ""
            answer = {"url": f"http://{self.headers['Host']}/{folder}ann/birds"}
        elif "/preupload/" in self.path:
            files = [file["path"] for file in json.loads(body)["files"]]
            modes = {"uploadMode": "regular", "shouldIgnore": False}
            answer = {"files": [{"path": path, **modes} for path in files]}
        elif "/commit/" in self.path:
            answer = {
                "commitUrl": f"http://{self.headers['Host']}/ann/birds/commit/1",
                "commitOid": "1",
                "success": True,
            }
        self._answer(answer)

    def do_GET(self) -> None:
        self.heard.append((self.command, self.path, self.headers.get("Authorization", ""), b""))
        self._answer({"id": "ann/birds", "private": self.private})

    def _answer(self, answer: dict[str, Any]) -> None:
        data = json.dumps(answer if self.status == 200 else {"error": "refused"}).encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def hub() -> Iterator[tuple[str, type[_Hub]]]:
    """A stand-in for the hub on this machine: its address, and what it hears."""
    handler = type("Hub", (_Hub,), {"heard": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", handler
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(("ref", "kind"), [("train", "model"), ("sentences", "dataset")])
def test_push_uploads_the_finished_directory_to_a_stand_in_for_the_hub(
    store: str, tmp_path: Path, hub: tuple[str, type[_Hub]], ref: str, kind: str
) -> None:
    address, handler = hub
    target = tmp_path / "out"
    done = tercet(
        *("export", ref, str(target), "--store", store, "--push", "ann/birds"),
        **{"HF_ENDPOINT": address, "HF_TOKEN": "secret-token", "HF_HOME": str(tmp_path / "hf")},
    )
    assert done.returncode == 0, done.stderr
    assert "ann/birds (private)" in done.stdout
    assert "secret-token" not in done.stdout + done.stderr
    # What is asked about cards and clients in general comes without a token.
    of_the_repository = ("/api/repos/create", "/preupload/", "/commit/")
    tokens = [
        token for _, path, token, _ in handler.heard if any(p in path for p in of_the_repository)
    ]
    assert len(tokens) == 3
    assert set(tokens) == {"Bearer secret-token"}
    created = next(body for _, path, _, body in handler.heard if path == "/api/repos/create")
    asked = json.loads(created)
    assert asked.get("private") is True or asked.get("visibility") == "private"
    assert asked.get("type", "model") == kind
    commit = next(body for _, path, _, body in handler.heard if "/commit/" in path)
    lines = [json.loads(line) for line in commit.decode().splitlines()]
    uploaded = [line["value"]["path"] for line in lines if line["key"] == "file"]
    assert sorted(uploaded) == names(target)


def test_a_repository_that_is_public_gets_nothing_unless_that_is_said(
    store: str, tmp_path: Path, hub: tuple[str, type[_Hub]]
) -> None:
    address, handler = hub
    handler.private = False
    for place, options, code in (("a", [], 2), ("b", ["--public"], 0)):
        done = tercet(
            *("export", "train", str(tmp_path / place), "--store", store),
            *("--push", "ann/birds", *options),
            **{"HF_ENDPOINT": address, "HF_TOKEN": "secret", "HF_HOME": str(tmp_path / "hf")},
        )
        assert done.returncode == code, done.stderr
        assert ("pass --public" in done.stderr) == (code == 2)
        assert "(private)" not in done.stdout
        assert any("/commit/" in path for _, path, _, _ in handler.heard) == (code == 0)


def test_a_hub_that_refuses_leaves_the_directory_and_says_how_to_go_on(
    store: str, tmp_path: Path, hub: tuple[str, type[_Hub]]
) -> None:
    address, handler = hub
    handler.status = 403
    target = tmp_path / "out"
    done = tercet(
        *("export", "train", str(target), "--store", store, "--push", "ann/birds"),
        **{"HF_ENDPOINT": address, "HF_TOKEN": "secret-token", "HF_HOME": str(tmp_path / "hf")},
    )
    assert done.returncode == 1
    assert "was not uploaded to ann/birds" in done.stderr
    assert "hf upload ann/birds" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert "secret-token" not in done.stderr
    assert (target / "README.md").is_file()


def test_without_a_token_or_a_network_nothing_is_begun(store: str, tmp_path: Path) -> None:
    words = ("export", "train", str(tmp_path / "out"), "--store", store, "--push", "ann/birds")
    for variables, said in (
        ({"HF_TOKEN": ""}, "put it into HF_TOKEN"),
        ({"HF_TOKEN": "x", "HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE"),
    ):
        done = tercet(*words, **variables)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


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
    found = np.array(json.loads(done.stdout.splitlines()[-1]))
    expected = load_encoder(tiny_backbone).encode(texts)
    assert np.abs(found - expected).max() <= 1e-6


@pytest.mark.slow
@pytest.mark.usefixtures("onnx")
def test_onnx_files_agree_with_the_encoder_and_the_card_says_how_far(
    tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    store = _trained_store(tmp_path, tiny_backbone, tiny_texts)
    export("train", str(tmp_path / "out"), store, None, onnx=True, int8=True)
    files = [name for name in names(tmp_path / "out") if name.endswith(".onnx")]
    assert len(files) == 2
    assert "onnx/model.onnx" in files
    out = capsys.readouterr().out
    assert "onnx/model.onnx: cosine 1.00000 (least 1.00000)" in out
    assert "instead of" in out
    card = (tmp_path / "out" / "README.md").read_text()
    assert "| `onnx/model.onnx` | 1.00000 | 1.00000 | 100.000 |" in card
    assert "| `onnx/model.onnx` | recall@1 |" in card
    assert "dev sentences of the run" in card
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
