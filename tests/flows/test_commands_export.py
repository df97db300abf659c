from pathlib import Path

import pytest
from commands_store import make_artifact, small_store

from tercet.flows.commands.export import export_model
from tercet.storage.store import StoreError, open_store
from tercet.tasks.stage import BadInput


@pytest.fixture
def store(tmp_path: Path) -> str:
    return small_store(tmp_path / "store")[0].location


def test_the_directory_is_plain_and_three_lines_load_it(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "birds"
    export_model("train", str(target), store, None)
    assert sorted(p.relative_to(target).as_posix() for p in target.rglob("*")) == [
        "1_Pooling",
        "1_Pooling/config.json",
        "modules.json",
    ]
    out = capsys.readouterr().out
    assert f"SentenceTransformer({str(target)!r})" in out
    assert len(out.splitlines()) == 4
    assert [p.name for p in target.parent.iterdir()] == ["birds"]
    (tmp_path / "empty").mkdir()
    export_model("train@bbbb", str(tmp_path / "empty"), store, "birds")
    assert (tmp_path / "empty" / "modules.json").is_file()


def test_a_destination_that_is_taken_stays_as_it_is(store: str, tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()
    (target / "mine").write_text("x")
    with pytest.raises(BadInput, match="not empty"):
        export_model("train", str(target), store, None)
    with pytest.raises(BadInput, match="is a file"):
        export_model("train", str(target / "mine"), store, None)
    assert (target / "mine").read_text() == "x"


def test_what_is_no_encoder_is_refused(store: str, tmp_path: Path) -> None:
    opened = open_store(store)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "weights.bin").write_text("x")
    make_artifact(opened, "entry_matrix", "abcd", {}, model=bare)
    make_artifact(opened, "train", "9999", {}, model=bare, finished=False)
    for ref, said in (
        ("ingest", "no model"),
        ("entry_matrix", "no sentence encoder"),
        ("train@9999", "not finished"),
    ):
        with pytest.raises(BadInput, match=said):
            export_model(ref, str(tmp_path / "out"), store, None)
    with pytest.raises(StoreError):
        export_model("no_such", str(tmp_path / "out"), store, None)
    assert not (tmp_path / "out").exists()
