"""The encoders that the papers' authors have published, on STS: the paper's figures beside ours.

    python benchmarks/released.py SUITE [NAME=DIRECTORY ...] [--only TEXT]

SUITE is a directory in SentEval's layout. An encoder is fetched from the hub by its name, unless a
directory is named for it; one that cannot be had costs a sentence, and the others go on. Only
safetensors are read: a repository with a pickle alone has to be saved anew (`save_pretrained`,
with its tokenizer) into a directory. That holds for DefSent+, whose repositories have no tokenizer
either: take its backbone's.

The figures are those of the papers' tables: GCSE's table 2 (with ChatGPT; SimCSE's stand there
too), GenSE's table 2, and DefSent+'s table 6, whose encoders are the best of ten. The hub's card of
GCSE's BERT-large says 83.07 where the table has 82.80.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tercet.models.encoders.settings import PoolingMode, read_pooling
from tercet.models.weights import ModelMissing, fetch
from tercet.tasks.evaluation.evaluate import EvaluateConfig, evaluate_models
from tercet.tasks.evaluation.suites.sts import STS_TASKS
from tercet.tasks.stage import BadInput, Resources

# The name on the hub, how its authors make the vector, and the paper's figures.
PUBLISHED = Path(__file__).with_suffix(".tsv")
PROMPTS: dict[PoolingMode, str] = {
    "first_decoder": " Question: what can we draw from the above sentence?",
    "mask": 'This sentence : "{sentence}" means {mask} .',
}


def measured(path: Path, pooling: PoolingMode, suite: Path) -> list[float]:
    """Spearman of the seven sets in percent, and their average."""
    config = EvaluateConfig(suite=suite, pooling=pooling, prompt=PROMPTS.get(pooling))
    rows = evaluate_models({"": path}, config, Resources()).to_pylist()
    found = {
        row["task"]: row["value"]
        for row in rows
        if row["metric"] == "spearman" and row["subset"] == "all"
    }
    return [found[task] for task in (*STS_TASKS, "STS")]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("given", nargs="*", metavar="NAME=DIRECTORY")
    parser.add_argument("--only", default="", help="only encoders whose name has this in it")
    options = parser.parse_intermixed_args(arguments)
    folders = dict(pair.split("=", 1) for pair in options.given)
    print(f"{'':<46}" + "".join(f"{task:>8}" for task in (*STS_TASKS, "mean")))
    for line in PUBLISHED.read_text(encoding="utf-8").splitlines()[1:]:
        name, pooling, *paper = line.split("\t")
        if options.only not in name:
            continue
        figures = [float(figure) for figure in paper]
        figures.append(sum(figures) / len(figures))
        print(f"{name:<46}" + "".join(f"{figure:8.2f}" for figure in figures) + "  paper")
        try:
            path = fetch(folders.get(name, name))
            ours = measured(path, read_pooling(pooling), options.suite)
        except (ModelMissing, BadInput) as error:
            print(f"  {error}")
            continue
        print(f"{'':<46}" + "".join(f"{figure:8.2f}" for figure in ours) + "  here")


if __name__ == "__main__":
    main()
