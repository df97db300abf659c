"""What servers of earlier runs left behind."""

import json
import os
import subprocess
from types import SimpleNamespace

from tercet.flows.running.llm_session import ENGINE, LlmSession
from tercet.models.llm.run_settings import AskingSettings
from tercet.storage import locks
from tercet.storage.store import open_store


def test_remains_are_swept_though_a_live_process_has_their_ports_number(tmp_path):
    store = open_store(str(tmp_path / "store"))
    ended = subprocess.Popen(["true"])
    ended.wait()
    for name, server in (("gone", ended.pid), ("going", ended.pid), ("alive", os.getpid())):
        folder = store.work / "scratch" / f"{ENGINE}{name}"
        folder.mkdir(parents=True)
        state = {"server": server, "supervisor": None, "port": os.getpid()}
        (folder / "vllm.json").write_text(json.dumps(state))
    run = SimpleNamespace(llm=AskingSettings(), device="cpu", batch_size=2)
    # Of a run that goes on, in another container perhaps, nobody knows the processes.
    with locks.hold(store, "run-going"):
        LlmSession(store, SimpleNamespace(name="small", run=run), "r", lambda text: None)
    left = {folder.name for folder in (store.work / "scratch").glob(f"{ENGINE}*")}
    assert left == {f"{ENGINE}alive", f"{ENGINE}going"}
