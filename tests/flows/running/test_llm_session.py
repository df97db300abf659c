"""Asking that is cancelled before there is anything to cancel."""

import json
import os
import subprocess
from types import SimpleNamespace

from failures import fails

from tercet.flows.running.llm_session import ENGINE, LlmSession
from tercet.models.generators import generator
from tercet.models.generators.settings import GeneratorSettings
from tercet.models.llm.messages import Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.storage import locks
from tercet.storage.store import open_store
from tercet.tasks.synthesis.fitted import FittedConfig


def test_a_model_that_was_loading_when_it_was_cancelled_is_not_asked(tmp_path, monkeypatch):
    own = GeneratorSettings(model="m")
    params = {"generator": "small", "per_unit": 1}
    config = FittedConfig(
        method="paraphrase", params=params, decoding=own.decoding(), precision=own.precision
    )
    run = SimpleNamespace(llm=AskingSettings(), device="cpu", batch_size=2)
    store = open_store(str(tmp_path / "store"))
    session = LlmSession(store, SimpleNamespace(name="small", run=run), "r", lambda text: None)
    ended = []

    class Loading:
        """A model during whose loading somebody presses Ctrl-C."""

        def __init__(self, *given):
            session.cancel()

        def ask(self, requests):
            raise AssertionError("it was asked")

        def close(self):
            ended.append(self)

    monkeypatch.setattr(generator, "Local", Loading)
    components = {"models": {"generator": "a" * 16}, "externals": {}}
    ask = session.asking(config, components, {"generator": tmp_path})
    request = Request(0, "One row.", own.decoding(), 5, source="One row.")
    with fails("lost", "cancelled"):
        list(ask("paraphrase", [request]))
    assert len(ended) == 1
    session.close()
    assert len(ended) == 1


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
