"""What a deployed recipe does when its workers and runs die, with real processes.

    python benchmarks/service_faults.py FOLDER [CASE …]

PostgreSQL, Prefect's server and process workers that are started by hand, with no setting of ours,
on the tiny recipe of the tests. The cases run at the same time, since automations count in minutes;
each has a recipe, a store and a pool of its own, and prints a line of JSON (`"ok": false` if it
fails). The server and PostgreSQL end with the script; FOLDER keeps logs, stores and `result.jsonl`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from service_processes import PYTHON, Service, family, prefect, wait

# A slow recipe trains for as many steps, so that it can be killed in the midst of it.
STEPS = 1000
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
# What must be told, where it is.
WANTED = {
    **dict.fromkeys(("ended", "train", "train_with_limit_30", "next", "first"), "COMPLETED"),
    **dict.fromkeys(("by_hand", "at_last", "retried"), "COMPLETED"),
    **dict.fromkeys(("failed", "gave_up"), "FAILED"),
    **{"fired_by_itself": True, "traceback": False, "crashed": False},
    **{"committed_twice": 0, "kills": 4},
}


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    import tiny_models

    # Once, and before there are threads: importing transformers in several at once fails.
    tiny_models.write_backbone(folder / "backbone")
    chosen = [CASES[name] for name in sys.argv[2:] or CASES]
    with prefect(folder), ThreadPoolExecutor(9) as pool:
        for line in pool.map(lambda case: run_case(folder, case), chosen):
            print(line, flush=True)
        if "TERCET_KEEP" in os.environ:
            input("The server is up: press Enter to end it. ")


def run_case(folder: Path, case: "Case") -> str:
    """The case as a line of JSON."""
    began = time.monotonic()
    service = Service(folder, case.__name__.replace("_", "-"))
    try:
        told = case(service)
        as_wanted = (told.get(name, wanted) == wanted for name, wanted in WANTED.items())
        told = {"ok": all(as_wanted), **told}
    except Exception as error:
        told = {"ok": False, "error": f"{type(error).__name__}: {error}"}
    finally:
        service.end()
    line = json.dumps({"case": service.name, "took_s": round(time.monotonic() - began), **told})
    with (folder / "result.jsonl").open("a") as file:
        file.write(line + "\n")
    return line


def schedule(service: Service) -> dict[str, Any]:
    """A schedule fires by itself, `train` follows, and the API takes other parameters."""
    # Prefect acts late on the end of a run that it scheduled less than five minutes before.
    soon = time.gmtime(time.time() + 600)
    service.deploy("--cron", f"{soon.tm_min} {soon.tm_hour} * * *", "--timezone", "UTC")
    service.worker()
    wait(
        lambda: any(service.state(r.id) == "COMPLETED" for r in service.runs_of("synthesise")),
        1200,
    )
    fired = [r for r in service.runs_of("synthesise") if service.state(r.id) == "COMPLETED"]
    service.deploy()
    wait(lambda: service.runs_of("train"), 120)
    (first,) = service.runs_of("train")[-1:]
    ended = service.until(first.id, *FINAL)
    asked = service.start("synthesise", limit=30)
    service.until(asked, *FINAL)

    def asked_for() -> list[Any]:
        return [run for run in service.runs_of("train") if run.parameters.get("limit") == 30]

    wait(asked_for, 120)
    return {
        "fired_by_itself": all(run.auto_scheduled for run in fired),
        "train": ended,
        "train_with_limit_30": service.until(asked_for()[0].id, *FINAL),
    }


def both_killed(service: Service) -> dict[str, Any]:
    """Worker and flow die in the midst of training; another worker goes on."""
    service.deploy(steps=STEPS)
    worker = service.worker()
    run = service.start()
    service.training(run)
    service.kill(worker)
    died = time.monotonic()
    service.worker()
    wait(lambda: "AwaitingRetry" in service.states(run), 300)
    rescheduled = time.monotonic() - died
    ended = service.until(run, *FINAL)
    return {
        "rescheduled_after_s": round(rescheduled),
        "ended": ended,
        "after_s": round(time.monotonic() - died),
        "states": service.states(run),
        **service.parts(),
    }


def killed_in_pending(service: Service) -> dict[str, Any]:
    """A worker dies while it starts a run; the next run begins, the first is rescheduled."""
    service.deploy()
    worker = service.worker()
    run = service.start(seed=3)
    wait(lambda: service.state(run) == "PENDING", 120)
    service.kill(worker)
    died = time.monotonic()
    before = service.states(run)
    service.worker()
    following = service.start(seed=4)
    wait(lambda: service.state(following) in ("PENDING", "RUNNING", *FINAL), 300)
    pending = time.monotonic() - died
    wait(lambda: service.state(following) in ("RUNNING", *FINAL), 300)
    running = time.monotonic() - died
    other = service.until(following, *FINAL)
    ended = service.until(run, *FINAL, seconds=1500)
    return {
        "killed_in": before[-1],
        "next_taken_after_s": round(pending),
        "next_running_after_s": round(running),
        "next": other,
        "first": ended,
        "states": service.states(run),
        "after_s": round(time.monotonic() - died),
    }


def killed_each_time(service: Service) -> dict[str, Any]:
    """Whoever runs it dies: it ends by itself, and a retry by hand is free to run."""
    from prefect.states import AwaitingRetry

    service.deploy(steps=STEPS)
    kills = 0
    run = service.start(seed=5)
    while service.state(run) not in FINAL or service.states(run)[-1] == "Crashed":
        worker = service.worker()
        wait(lambda: service.state(run) in ("RUNNING", "FAILED"), 600)
        # The last time it runs just to say that it ends.
        time.sleep(5)
        if service.state(run) == "RUNNING":
            service.kill(worker)
            kills += 1
            wait(lambda: service.state(run) == "SCHEDULED", 300)
    state = service.client.read_flow_run(run).state
    # Prefect's worker fails over a run that comes back before its last process is cleared away.
    time.sleep(20)
    service.client.set_flow_run_state(run, AwaitingRetry(), force=True)
    return {
        "kills": kills,
        "gave_up": state.type.value,
        "message": state.message,
        "by_hand": service.until(run, *FINAL),
        **service.parts(),
    }


def taken_for_dead(service: Service) -> dict[str, Any]:
    """The first process is stopped, its run is rescheduled, and then it wakes up."""
    service.deploy(steps=STEPS)
    first = service.worker()
    run = service.start(seed=6)
    service.training(run)
    service.kill(first, signal.SIGSTOP)
    service.worker()
    wait(lambda: service.states(run).count("Running") == 2, 600)
    time.sleep(10)
    both = service.state(run)
    service.kill(first, signal.SIGCONT)
    ended = service.until(run, *FINAL)
    # Whichever of the two ends last must leave things as they are.
    wait(lambda: not any(family(w) for w in service.workers), 600)
    return {
        "while_both": both,
        "ended": ended,
        "at_last": service.state(run),
        "states": service.states(run),
        **service.parts(),
    }


def left_alone(service: Service) -> dict[str, Any]:
    """A healthy run that computes nothing for three minutes, since somebody holds its artifact."""
    from tercet.storage import locks
    from tercet.storage.artifacts import all_artifacts
    from tercet.storage.store import open_store

    service.deploy()
    service.worker()
    run = service.start(seed=7)
    service.until(run, *FINAL)
    place = open_store(str(service.store))
    trained = {a.version for a in all_artifacts(place) if a.step == "train"}
    shutil.rmtree(max((service.store / "artifacts/train").iterdir(), key=os.path.getmtime))
    (gone,) = trained - {a.version for a in all_artifacts(place) if a.step == "train"}
    with locks.hold(place, f"artifact-train-{gone}", who="a test"):
        run = service.start(seed=7)
        service.until(run, "RUNNING")
        time.sleep(180)
    ended, states = service.until(run, *FINAL), service.states(run)
    return {"ended": ended, "crashed": "Crashed" in states, "states": states}


def fails_and_resumes(service: Service) -> dict[str, Any]:
    """A missing corpus is a plain failure, and a person is told; a retry resumes."""
    from prefect.blocks.notifications import CustomWebhookNotificationBlock
    from prefect.states import AwaitingRetry

    told = service.folder / "told"
    listener = subprocess.Popen([PYTHON, "-c", LISTENER, str(told)], stdout=subprocess.PIPE)
    assert listener.stdout is not None
    port = int(listener.stdout.readline())
    CustomWebhookNotificationBlock(
        name="people",
        url=f"http://127.0.0.1:{port}/",
        json_data={"subject": "{{subject}}", "body": "{{body}}"},
    ).save("people", overwrite=True)
    service.deploy("--notify", "custom-webhook/people")
    service.worker()
    missing = service.folder / "missing.txt"
    run = service.start("synthesise", corpus=str(missing))
    failed = service.until(run, *FINAL)
    message = service.client.read_flow_run(run).state.message
    wait(told.exists, 300)
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

    mine = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run]))
    logs = "\n".join(log.message for log in service.client.read_logs(log_filter=mine))
    lines = [f"The {n} red birds of Berlin were seen near the old mill." for n in range(60)]
    missing.write_text("\n".join(lines))
    service.client.set_flow_run_state(run, AwaitingRetry(), force=True)
    return {
        "failed": failed,
        "message": message,
        "traceback": "Traceback" in logs or "unexpected exception" in logs,
        "told": told.read_text(),
        "retried": service.until(run, *FINAL),
        "name": service.client.read_flow_run(run).name,
    }


LISTENER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        open(sys.argv[1], "ab").write(body)
        self.send_response(200)
        self.end_headers()
server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""

Case = Callable[[Service], dict[str, Any]]
CASES: dict[str, Case] = {
    case.__name__: case
    for case in (
        schedule,
        both_killed,
        killed_in_pending,
        killed_each_time,
        taken_for_dead,
        left_alone,
        fails_and_resumes,
    )
}

if __name__ == "__main__":
    main()
