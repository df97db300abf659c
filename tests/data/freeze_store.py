"""Freezes a small store of this version, which every later version must open.

    .venv/bin/python tests/data/freeze_store.py [FILE]     # tests/data/store-VERSION.tar.xz

The archive holds the folder of a small project: `recipe.yaml`, its corpus, lexicon and prompt, a
backbone of random weights, and `tercet-store` with two runs of the recipe, the first with another
threshold. What a store makes anew by itself (cache, scratch, locks, the catalog) is left out.

A release freezes its store once; the file is never made again. With a later version,
`tercet plan recipe.yaml` in the unpacked folder says which steps that version remakes.
"""

import json
import os
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path

import yaml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))

from faulty_server import FaultyServer, Reply, Seen  # noqa: E402
from tiny_models import write_backbone  # noqa: E402
from tiny_run import documents, ended_well, started_anew, write_corpus  # noqa: E402

LEXICON = "noun\ttypes\nbear\tanimal\ncamel\tanimal\ncat\tanimal\ncow\tanimal\nhorse\tanimal\n"
RECIPE = {
    "name": "frozen",
    "seed": 7,
    "backbone": "backbone",
    "corpora": [{"name": "prose", "source": "prose.jsonl", "query": "query", "answer": "answer"}],
    "ingest": {"min_words": 3, "max_words": 60, "test": 0.3, "dev": 0.05},
    "sample": {"rows": 60},
    "extract": {"lexicon": "animals.tsv"},
    "synthesise": {
        "next_sentences": None,
        "entity_swap": None,
        "quantity_change": None,
        "rewrite": {"prompt": "prompt.jinja"},
    },
    "llm": {"name": "capitals", "api": "completions"},
    "evaluator": {"model": "backbone"},
    "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0},
    "train": {
        "max_length": 32,
        "log_steps": 2,
        "phases": [{"batch_size": 8, "max_steps": 4, "learning_rate": 1e-3}],
    },
    "evaluate": {"bootstrap": 200},
    "run": {"device": "cpu", "part_rows": 150, "batch_size": 32},
}
LEFT_OUT = {"cache", "scratch", "locks", "catalog.duckdb", "prefect"}


def main() -> None:
    """Makes the store and writes the archive."""
    name = f"store-{metadata.version('tercet')}.tar.xz"
    target = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else HERE / name
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_backbone(Path("backbone"), hidden_size=16)
        write_corpus(Path("prose.jsonl"), documents(140))
        Path("animals.tsv").write_text(LEXICON)
        Path("prompt.jinja").write_text("{{ sentence }}")
        with FaultyServer(_answer) as server:
            asked = {"endpoints": [server.url], "concurrency": 16}
            content = RECIPE | {"run": {**RECIPE["run"], "llm": asked}}
            Path("recipe.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
            words = ("run", "recipe.yaml", "--no-server")
            changed = ("--set", "select.negative_max=0.995", "--until", "triplets")
            ended_well(started_anew(*words, *changed))
            ended_well(started_anew(*words))
            ended_well(started_anew("tag", "train", "first"))
        with tarfile.open(target, "x:xz", preset=9) as archive:
            for path in sorted(Path().rglob("*")):
                if path.is_file() and path.parts[1:2] not in [(out,) for out in LEFT_OUT]:
                    archive.add(path, filter=_anonymous)
    print(f"{target}: {target.stat().st_size / 1000:.0f} kB")


def _answer(seen: Seen) -> Reply:
    """The end of each sentence."""
    said = [f"Here {' '.join(prompt.split()[3:])}" for prompt in seen.prompts]
    choices = [{"index": i, "text": text, "finish_reason": "stop"} for i, text in enumerate(said)]
    return Reply(200, json.dumps({"choices": choices}).encode())


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
