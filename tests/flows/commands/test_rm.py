"""`tercet rm`: which runs it removes, and which not."""

from pathlib import Path

import pytest
from commands_store import make_run, small_store

from tercet.flows.commands.rm import remove_runs
from tercet.storage import runs, tags
from tercet.storage.runs import UnknownRef
from tercet.storage.store import StoreError
from tercet.tasks.stage import BadInput


def test_runs_go_by_their_ids_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, first = small_store(tmp_path / "store")
    second, third = (make_run(store, "fish", {}) for _ in range(2))
    with pytest.raises(BadInput, match=f"'birds' is a name for run {first}: to remove it, name"):
        remove_runs(["birds"], store.location)
    tags.set_tag(store, "good", first)
    for name in ("good", "tag:good"):
        with pytest.raises(BadInput, match="is a name for run"):
            remove_runs([name], store.location)
    with pytest.raises(StoreError, match="has the tag 'good'"):
        remove_runs([first], store.location)
    with pytest.raises(UnknownRef):
        remove_runs(["20200101"], store.location)
    assert len(runs.list_runs(store)) == 3
    remove_runs([second, third], store.location)
    with pytest.raises(UnknownRef, match="No run, tag or recipe is called ''"):
        remove_runs([""], store.location)
    assert [run["run_id"] for run in runs.list_runs(store)] == [first]
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == [f"Run {second} is removed.", f"Run {third} is removed."]
    assert told[2].endswith("tercet gc")
