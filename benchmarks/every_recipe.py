"""Runs every recipe on the same questions, and says what each took.

    python benchmarks/every_recipe.py --data DATA --store every-store --seeds 5
    python benchmarks/every_recipe.py --data DATA --store every-store --seeds 5 --field wiki

In a clone's folder; `what_each_part_earns.py` puts the runs that it names side by side. The arms
stand in `every_recipe.yaml`. A finished arm is not made again, so a stopped comparison
goes on; `--only` makes one arm, `--seed` one of its seeds. Seconds are those of the steps, without
evaluation, of the first seed: the second column has those of the models that a recipe makes first.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tercet.flows.results.queries import connect
from tercet.storage.store import open_store

HERE = Path(__file__).parent
_MODELS = ("pretrain.", "fit_generator.", "fit_pair.", "count_tokens", "ingest.pretrain")


def arms(field: str) -> dict[str, dict[str, Any]]:
    """By name: its recipe, its corpus if not the recipe's own, and what `set` changes."""
    asked = yaml.safe_load((HERE / "every_recipe.yaml").read_text(encoding="utf-8"))
    common = asked["fields"][field]
    return {
        name: {
            "recipe": arm["recipe"],
            "corpus": common.get("corpus"),
            "set": common["set"] | arm.get("set", {}) | arm.get(field, {}),
        }
        for name, arm in asked["arms"].items()
    }


def command(arm: dict[str, Any], data: str, store: str, seeds: int, seed: int | None) -> list[str]:
    """The line that makes the arm; seed: only what its training and evaluation need."""
    changes: dict[str, Any] = {**arm["set"], "seeds": seeds}
    line = ["tercet", "run", arm["recipe"], "--store", store, "--no-server"]
    if arm["corpus"]:
        line += ["--corpus", arm["corpus"]]
    if seed is not None:
        line += ["--until", "evaluate.encoder" + ("" if seed == 42 else f".seed{seed}")]
    for key, value in changes.items():
        line += ["--set", f"{key}={json.dumps(value)}"]
    return [word.replace("DATA/", f"{data}/") for word in line]


def made(line: list[str]) -> str:
    """The id of the run that the line makes, as it says at its end. A failure ends this program."""
    run = ""
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        for said in running.stdout:
            print(said, end="", flush=True)
            if found := re.match(r"Run (\S+) is done", said):
                run = found[1]
    if running.returncode:
        sys.exit(running.returncode)
    return run


def seconds(store: str, run: str) -> tuple[float, float]:
    """What an empty store would cost: the run's steps, and those of them that make models.

    A step that the run reused counts as long as it took where it was made. Evaluation counts for
    neither, and of several seeds the first alone.
    """
    with connect(open_store(store, create=False), run) as db:
        found = db.sql(f"""
            WITH made AS (
                SELECT step, version, sum(seconds) AS seconds
                FROM run_steps WHERE state <> 'reused' GROUP BY ALL
            )
            SELECT step, made.seconds FROM run_steps s JOIN made USING (step, version)
            WHERE s.run_id = '{run}' AND NOT regexp_matches(step, '^(evaluate|define)[.]|[.]own$')
                AND NOT regexp_matches(step, '[.]seed[0-9]+$')
        """).fetchall()
    models = sum(took for step, took in found if step.startswith(_MODELS))
    return sum(took for _, took in found) - models, models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--store", default="every-store")
    parser.add_argument("--field", choices=["pydocs", "wiki"], default="pydocs")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seed", type=int, help="of all the seeds, only this one")
    parser.add_argument("--only", help="an arm's name")
    asked = parser.parse_args()
    known = arms(asked.field)
    for name in [asked.only] if asked.only else known:
        line = command(known[name], asked.data, asked.store, asked.seeds, asked.seed)
        print(f"\n{name}", flush=True)
        run = made(line)
        took = ""
        if asked.seed in (None, 42):  # another seed's run has no training of the first
            own, models = seconds(asked.store, run)
            took = f", {own:.0f} s, its models {models:.0f} s"
        print(f"{name}: {run}{took}", flush=True)


if __name__ == "__main__":
    main()
