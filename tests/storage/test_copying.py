"""A store that is copied into a bucket, and back."""

import uuid
from pathlib import Path

import pytest
import s3_server
from answers_pool import answer, digest
from processes import ROWS, two_parts

from tercet.storage import copying, runs
from tercet.storage.answers import open_pool
from tercet.storage.artifacts import open_artifact
from tercet.storage.store import Store, StoreError, open_store


@pytest.fixture
def filled(store: Store) -> Store:
    two_parts(store)
    run = runs.start_run(store, "tiny", {}, {})
    runs.end_run(store, run, "done", {})
    runs.set_tag(store, "kept", run)
    with open_pool(store, "tiny", run) as answers:
        answers.add(answer(1))
    return store


def _contents(store: Store) -> dict[str, bytes | None]:
    paths = (path for path in store.stats("") if path.split("/")[0] not in ("locks", "machine"))
    return {path: store.get(path) for path in paths if not path.startswith("cache/")}


def test_there_and_back(filled: Store, bucket: s3_server.Proxy, tmp_path: Path) -> None:
    away = open_store(f"s3://bucket/{uuid.uuid4().hex}")
    bucket.chance = 0.05
    copied = copying.copy(filled, away)
    assert copying.copy(filled, away) == {}
    bucket.chance = 0.0
    back = open_store(str(tmp_path / "back"))
    assert copying.copy(away, back) == copied
    assert _contents(back) == _contents(filled) == _contents(away)
    assert open_artifact(back, "extract", "aaaa").rows().count("left") == 2 * ROWS
    with open_pool(back, "tiny", "a run") as answers:
        assert list(answers.find([digest(1)])) == [digest(1)]
    # A training's checkpoints come and go, which would end the copy.
    checkpoint = "artifacts/train/bbbb/files/checkpoint/newest.json"
    filled.replace(checkpoint, b"{}")
    assert copying.copy(filled, away) == {}
    filled.delete(checkpoint)
    # What is younger follows; what is of another store is no copy.
    runs.set_tag(filled, "kept", "extract@aaaa")
    assert list(copying.copy(filled, away)) == ["tags/kept.json"]
    runs.start_run(back, "tiny", {}, {})
    with pytest.raises(StoreError):
        copying.copy(filled, back)


def test_a_copy_that_was_stopped_claims_nothing_that_is_not_there(
    filled: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_store(str(tmp_path / "target"))
    left = [0]
    whole = Store.put_file, Store.replace

    def stopping(number: int, store: Store, *given: object) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        whole[number](store, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "put_file", lambda *given: stopping(0, *given))
    monkeypatch.setattr(Store, "replace", lambda *given: stopping(1, *given))
    for most in range(1, 40):
        left[0] = most
        try:
            copying.copy(filled, target)
        except KeyboardInterrupt:
            artifact = open_artifact(target, "extract", "aaaa")
            assert len(artifact.whole_parts()) == len(artifact.records())
        else:
            break
    assert _contents(target) == _contents(filled)
