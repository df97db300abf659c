"""A store in a bucket: what fails on the way, what a server must keep, how often it is asked."""

import os
import re
import shutil
import traceback
import uuid
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock

import duckdb
import pytest
import s3_server
from answers_pool import answer, digest
from failures import fails
from faulty_server import until
from obstore.exceptions import GenericError
from processes import ROWS, SCHEMAS, staged, two_parts

from tercet.storage import bucket as s3_bucket
from tercet.storage import locks, runs
from tercet.storage.answers import open_pool, sealed_names
from tercet.storage.artifacts import all_artifacts, open_artifact
from tercet.storage.catalog.views import connect
from tercet.storage.store import Store, StoreError, is_store, open_store

IN_A_BUCKET = pytest.mark.parametrize("store", ["moto"], indirect=True)


@IN_A_BUCKET
def test_no_fault_loses_a_row_or_makes_a_record_twice(
    store: Store, bucket: s3_server.Proxy
) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{} for _ in s3_server.FAULTS])
    spoilt = [("PUT", "_parts/"), ("PUT", "/data/left/"), ("PUT", "/keys/"), ("GET", "_parts/")]
    for index, fault in enumerate(s3_server.FAULTS):
        bucket.faults += [(method, text, fault) for method, text in spoilt]
        record = artifact.commit(index, staged(artifact, index), f"k{index}", {})
        assert artifact.record(index) == record, fault
        assert not [one for one in bucket.faults if one[0] == "PUT"], fault
    bucket.faults += [("GET", "/data/", fault) for fault in s3_server.FAULTS]
    bucket.faults += [("PUT", "manifest.json", s3_server.ANSWER_LOST)]
    manifest = artifact.finish({})
    assert artifact.manifest() == manifest
    # On another machine, which has no copy of anything.
    elsewhere = Store(store.location, store.work / "elsewhere", store.objects)
    rows = open_artifact(elsewhere, "extract", "aaaa").rows()
    assert rows.count("left") == ROWS * len(s3_server.FAULTS)
    named = {path for table in rows.tables.values() for path in table}
    assert len(named) - 1 == len(store.sizes(f"{artifact.path}/data"))
    assert artifact.intact()


@IN_A_BUCKET
def test_a_record_whose_fate_nobody_knows_keeps_its_files(
    store: Store, bucket: s3_server.Proxy
) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{}])
    # So long as nothing can be read, the record may stand.
    bucket.faults += [("GET", "_parts/00000", s3_server.CONFLICT)] * 3
    bucket.faults += [("PUT", "_parts/00000", s3_server.ANSWER_LOST)]
    with pytest.raises(StoreError):
        artifact.commit(0, staged(artifact, 0), "k", {})
    again = open_artifact(store, "extract", "aaaa")
    assert again.rows().count("left") == ROWS
    again.finish({})
    assert again.intact()


@IN_A_BUCKET
def test_a_put_that_takes_too_long_is_asked_about(
    store: Store, bucket: s3_server.Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(s3_bucket._CLIENT, "read_timeout", "100ms")
    s3_bucket._opened.cache_clear()
    bucket.faults.append(("PUT", "slowly", s3_server.SLOW))
    assert store.create("tags/slowly.json", b"{}")
    assert store.get("tags/slowly.json") == b"{}"
    s3_bucket._opened.cache_clear()


def test_what_is_no_store_says_so(bucket: s3_server.Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"s3://bucket/{uuid.uuid4().hex}"
    assert not is_store(place)
    for location in ("s3://", "s3:/bucket/place", "s3://nonesuch/place", place):
        with pytest.raises(StoreError):
            open_store(location, create=False)
    s3_bucket.Bucket(place).put("letters.txt", b"", absent=True)
    with fails("exists", "letters"):
        open_store(place)
    opened = open_store(f"{place}/below/")
    assert open_store(f"{place}/below", create=False) == opened
    assert is_store(f"{place}/below")
    # No key and no address is kept with the store.
    kept = b"".join(opened.get(path) or b"" for path in opened.stats(""))
    assert not [value for value in s3_server.ENVIRONMENT.values() if value.encode() in kept]
    with monkeypatch.context() as without:
        # Without a key, the client asks the cloud that its machine may be in for one.
        asked = GenericError("Error performing PUT http://169.254.169.254/latest/api/token")
        without.setattr(s3_bucket.obstore, "get", Mock(side_effect=asked))
        with fails("unreachable", "AWS_ACCESS_KEY_ID"):
            open_store(place)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{s3_server.free_port()}")
    monkeypatch.setitem(s3_bucket.RETRIES, "max_retries", 0)
    monkeypatch.setattr(s3_bucket, "_WAITS", ())
    with fails("unreachable", "AWS_ENDPOINT_URL"):
        open_store(place)


@pytest.mark.parametrize(
    "place",
    [
        *("key:secret@bucket/a", "bucket:9000/a", "bucket/a?b", "bucket/a#b", "bucket/a%20b"),
        *("bucket//a", "bucket/a/../b", "bucket/.", "bucket/a\nb", "/a"),
    ],
)
def test_a_place_that_a_client_understands_in_its_own_way_is_none(place: str) -> None:
    with fails("bad_value", "s3://BUCKET") as caught:
        open_store(f"s3://{place}")
    assert "secret" not in str(caught.value)


def test_no_login_of_an_address_is_told(
    bucket: s3_server.Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"s3://bucket/{uuid.uuid4().hex}/a b[1]*'ü"
    assert open_store(place).list("runs") == []
    monkeypatch.setitem(s3_bucket.RETRIES, "max_retries", 0)
    monkeypatch.setattr(s3_bucket, "_WAITS", ())
    for address in (
        f"127.0.0.1:{bucket.port}",
        f"http://user:secret@127.0.0.1:{s3_server.free_port()}",
    ):
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        with fails("unreachable", "AWS_ENDPOINT_URL") as caught:
            open_store(place)
        assert "secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("lie", "header"),
    [("ignored", "if-none-match"), ("ignored", "if-match"), ("refused", "if-none-match")],
)
def test_a_server_that_keeps_no_conditions_gets_no_store(
    bucket: s3_server.Proxy, monkeypatch: pytest.MonkeyPatch, lie: str, header: str
) -> None:
    monkeypatch.setattr(bucket, lie, header)
    place = f"s3://bucket/{uuid.uuid4().hex}"
    with pytest.raises(StoreError):
        open_store(place)
    monkeypatch.setattr(bucket, lie, "")
    assert not is_store(place)
    assert s3_bucket.Bucket(place).put("x", b"", absent=True)


@IN_A_BUCKET
def test_what_a_server_quotes_of_a_key_is_not_said(store: Store, bucket: s3_server.Proxy) -> None:
    bucket.faults += [("GET", "tags", s3_server.DENIED)] * 3
    with pytest.raises(StoreError) as caught:
        store.get("tags/a.json")
    written = "".join(traceback.format_exception(caught.value))
    assert s3_server.ENVIRONMENT["AWS_SECRET_ACCESS_KEY"] not in written


@IN_A_BUCKET
def test_a_file_in_pieces_whose_last_answer_is_lost_is_there(
    store: Store, bucket: s3_server.Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_bucket, "_PIECE", 5 * 2**20)
    source = tmp_path / "large"
    source.write_bytes(bytes(11 * 2**20))
    bucket.faults.append(("POST", "uploadId", s3_server.BUSY_AFTER))
    store.put_file("artifacts/a/b/files/large", source)
    assert not bucket.faults
    assert store.sizes("artifacts/a") == {"artifacts/a/b/files/large": source.stat().st_size}


@IN_A_BUCKET
def test_sql_reads_the_bucket_and_nothing_else(store: Store) -> None:
    two_parts(store)
    run = runs.start_run(store, "tiny", {}, {})
    entry = {"version": "aaaa", "stage": "extract", "state": "made", "seconds": 1.0}
    runs.record_step(store, run, "extract", entry)
    runs.end_run(store, run, "done", {})
    with connect(store) as connection:
        query = 'SELECT count(*), count(DISTINCT part) FROM "left"'
        assert connection.execute(query).fetchall() == [(2 * ROWS, 2)]
        for place in ("s3://bucket/else/store.json", f"{store.location}/../x", "/etc/hostname"):
            with pytest.raises(duckdb.Error):
                connection.execute(f"SELECT * FROM read_text('{place}')").fetchall()
        with pytest.raises(duckdb.Error):
            connection.execute(f"COPY (SELECT 1) TO '{store.location}/x.csv'")
    assert not store.exists("x.csv")


@IN_A_BUCKET
def test_requests_of_a_part_and_of_a_step_that_is_reused(
    store: Store, bucket: s3_server.Proxy
) -> None:
    count = 12
    bucket.counted()
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{} for _ in range(count)])
    bucket.counted()
    for index in range(count):
        artifact.commit(index, staged(artifact, index, 1), f"k{index}", {})
    artifact.rows()
    artifact.finish({})
    # Four files, a record, a key; the record is read for warnings, and at the end.
    assert len(bucket.counted()) <= 8 * count + len(SCHEMAS) * 2 + 8
    # As `run_step` asks for it.
    artifact.manifest()
    assert artifact.intact()
    asked = bucket.counted()
    assert len(asked) <= 10, asked


@IN_A_BUCKET
def test_answers_come_to_the_bucket_however_few_they_are(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tercet.storage.answers.SEAL_SECONDS", 0.2)
    with open_pool(store, "tiny", "a run") as answers:
        answers.add(answer(1))
        assert until(lambda: sealed_names(store))
        assert list(answers.find([digest(1)])) == [digest(1)]
    elsewhere = Store(store.location, store.work / "elsewhere", store.objects)
    with open_pool(elsewhere, "tiny", "a run") as answers:
        assert list(answers.find([digest(1)])) == [digest(1)]


@IN_A_BUCKET
def test_a_run_on_another_machine_is_seen(store: Store, tmp_path: Path) -> None:
    elsewhere = Store(store.location, tmp_path, store.objects)
    run = runs.start_run(store, "tiny", {}, {})
    with locks.hold(store, f"run-{run}"):
        assert [one["state"] for one in runs.list_runs(elsewhere)] == ["running"]
    assert [one["state"] for one in runs.list_runs(elsewhere)] == ["crashed"]


@IN_A_BUCKET
def test_a_run_that_begins_while_runs_are_listed_is_going(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Store(store.location, tmp_path, store.objects)
    page, begun = s3_bucket.Bucket.page, ExitStack()

    def begin_before(bucket: s3_bucket.Bucket, folder: str, after: str) -> object:
        if folder == "runs":
            run = runs.start_run(elsewhere, "tiny", {}, {})
            begun.enter_context(locks.hold(elsewhere, f"run-{run}"))
        return page(bucket, folder, after)

    monkeypatch.setattr(s3_bucket.Bucket, "page", begin_before)
    with begun:
        assert [run["state"] for run in runs.list_runs(store)] == ["running"]


def copied_runs(store: Store, count: int) -> list[str]:
    """So many runs that have ended, with the same step, and as many that were killed."""
    entry = {"version": "aaaa", "stage": "extract", "state": "made", "seconds": 1.0}
    ids = []
    for _ in range(count):
        for end in (True, False):
            ids.append(runs.start_run(store, "tiny", {}, {}))
            runs.record_step(store, ids[-1], "extract", entry)
            if end:
                runs.end_run(store, ids[-1], "done", {})
    return ids


@IN_A_BUCKET
def test_however_many_runs_there_were_as_few_requests_are_made(
    store: Store, bucket: s3_server.Proxy
) -> None:
    two_parts(store)
    requests = []
    for _ in range(2):
        copied_runs(store, 15)
        # The second has copies of what the first has read.
        for _ in range(2):
            bucket.counted()
            with connect(store) as connection:
                connection.execute("SELECT count(*) FROM runs").fetchall()
            requests.append(len(bucket.counted()))
    first, again, with_more, with_more_again = requests
    assert again == with_more_again <= 8
    assert max(first, with_more) > 30


@IN_A_BUCKET
def test_what_others_change_is_seen_whatever_was_read_before(store: Store, tmp_path: Path) -> None:
    elsewhere = Store(store.location, tmp_path, store.objects)
    ended, killed, removed, _ = copied_runs(store, 2)
    assert len(runs.list_runs(store)) == 4
    runs.remove_run(elsewhere, removed)
    runs.end_run(elsewhere, killed, "failed", {})
    runs.end_run(elsewhere, ended, "interrupted", {})
    (begun, *_) = copied_runs(elsewhere, 1)
    seen = {run["run_id"]: run["state"] for run in runs.list_runs(store)}
    assert removed not in seen
    assert (seen[killed], seen[ended], seen[begun]) == ("failed", "interrupted", "done")


@IN_A_BUCKET
def test_a_spoilt_copy_of_a_record_is_fetched_again(store: Store, bucket: s3_server.Proxy) -> None:
    copied_runs(store, 1)
    expected = runs.list_runs(store)
    (end,) = (store.work / "cache" / "objects").glob("runs/*/end.json*")
    whole = end.read_bytes()
    for spoilt in (b"", whole[:-9], whole.replace(b"done", b"gone")):
        end.write_bytes(spoilt)
        assert runs.list_runs(store) == expected
        assert end.read_bytes() == whole
    # Those that are used stay longest.
    os.utime(end, (0, 0))
    bucket.counted()
    assert runs.list_runs(store) == expected
    assert end.stat().st_mtime > 0
    assert all("list-type" in path for _, path in bucket.counted())


@IN_A_BUCKET
def test_of_an_artifact_of_thousands_of_files_only_the_records_are_listed(
    store: Store, bucket: s3_server.Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("aaaa", "bbbb"):
        artifact = open_artifact(store, "extract", version)
        artifact.adopt_plan([{} for _ in range(12)])
        for index in range(12):
            artifact.commit(index, staged(artifact, index, 1), f"{version}{index}", {})
        if version == "aaaa":
            artifact.finish({})
    artifacts = [open_artifact(store, "extract", version) for version in ("aaaa", "bbbb")]
    expected = [(one.manifest(), one.records(), one.intact()) for one in artifacts]
    monkeypatch.setattr("tercet.storage.bucket.PAGE", 5)
    monkeypatch.setattr("tercet.storage.listing.PAGE", 5)
    bucket.counted()
    with store.as_listed():
        assert all_artifacts(store) == artifacts
        listed = [path for _, path in bucket.counted() if "list-type" in path]
        assert len(listed) < 24 * 5 / 5, listed
        assert [(one.manifest(), one.records(), one.intact()) for one in artifacts] == expected


@IN_A_BUCKET
def test_a_server_that_lists_in_no_order_is_listed_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = copied_runs(store, 3)
    page = s3_bucket.Bucket.page
    monkeypatch.setattr(s3_bucket.Bucket, "page", lambda *asked: page(*asked)[::-1])
    assert {run["run_id"] for run in runs.list_runs(store)} == set(ids)


@IN_A_BUCKET
def test_of_a_table_that_cannot_be_read_sql_says_so_and_shows_the_others(
    store: Store, bucket: s3_server.Proxy
) -> None:
    artifact = open_artifact(store, "extract", "aaaa")
    artifact.adopt_plan([{}])
    record = artifact.commit(0, staged(artifact, 0), "k", {})
    artifact.finish({})
    run = runs.start_run(store, "tiny", {}, {})
    entry = {"version": "aaaa", "stage": "extract", "state": "made", "seconds": 1.0}
    runs.record_step(store, run, "extract", entry)
    gone = record["tables"]["left"][0]["path"]
    shutil.rmtree(store.work / "cache")
    bucket.faults += [("GET", gone, s3_server.DENIED)] * 6
    for _ in ("refused", "gone"):
        with connect(store, run) as connection:
            assert connection.sql('FROM "right"').fetchall()
            with pytest.raises(duckdb.Error, match=re.escape(store.location)) as caught:
                connection.sql('FROM "left"').fetchall()
        assert "planted" not in "".join(traceback.format_exception(caught.value))
        store.delete(gone)
        bucket.faults.clear()
