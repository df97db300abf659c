"""A store with one whole run, made by the writer's API, for the tests of cards and export."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from commands_store import make_artifact, make_run

from tercet.storage.store import Store, open_store
from tercet.tasks.stages import known_schemas

LARGE = 2**64 - 5
RECIPE: dict[str, Any] = {
    "name": "birds",
    "description": "Herons, from /home/ann/notes/herons.txt, key hf_abcdefghijklmnopqrst.",
    "seed": 42,
    "backbone": "/home/ann/models/tiny bird",
    "corpora": [
        {"name": "field", "source": "/home/ann/private/field.txt", "role": "domain"},
        {"name": "docs", "source": "pydocs", "role": "general", "packages": ["numpy"]},
    ],
    "evaluate": {"suite": "~/data/suite", "tasks": ["STS-B"]},
    "select": {"negative_max": 0.97, "positive_min": None},
    "run": {"llm": {"endpoints": ["https://ann:pw@llm.internal/v1"]}},
}


def rows(table: str, values: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows of a table that a stage makes; columns that are not named are null."""
    return pa.Table.from_pylist([dict(value) for value in values], schema=known_schemas()[table])


def evaluation(version: str, phase: str, metric: str, value: float, **more: Any) -> dict[str, Any]:
    """A row of `evaluations`, of retrieval on test unless told otherwise."""
    row = {"model_version": version, "phase": phase, "metric": metric, "value": value}
    row |= {"suite": "retrieval", "task": "document_pairs", "subset": "test", "n": 200, "seed": 42}
    row |= {"pooling": "mean", "text_form": "raw", "data_digest": "d1"}
    return row | more


def birds_store(
    root: Path,
    encoder: Path,
    recipe: Mapping[str, Any] = RECIPE,
    contamination: Sequence[Mapping[str, Any]] | None = None,
    seeds: Sequence[int] = (42,),
) -> tuple[Store, str]:
    """A run of `birds` with an encoder, its figures and two triplets; contamination: guarded."""
    store = open_store(str(root))
    sentences = [
        {"sentence_id": i, "text": text, "corpus": "field", "source": "field.txt", "split": split}
        for i, (text, split) in enumerate(
            [("the old file is open", "train"), ("read a row of the array", "dev")]
        )
    ]
    made: dict[str, tuple[str, dict[str, pa.Table]]] = {
        "ingest": (
            "aaaa1111",
            {
                "sentences": rows("sentences", sentences),
                "rejects": rows("rejects", [{"stage": "ingest", "reason": "too_short"}] * 3),
            },
        ),
        "select": (
            "cccc3333",
            {
                "triplets": rows(
                    "triplets",
                    [
                        {"triplet_id": LARGE, "anchor": "a | b", "positive": "c", "negative": "d"},
                        {"triplet_id": 7, "anchor": "e", "positive": "f", "negative": "g"},
                    ],
                ),
                "acceptance": rows(
                    "acceptance",
                    [{"role": "negative", "method": "negation", "candidates": 9, "accepted": 4}],
                ),
            },
        ),
        "evaluate.base": (
            "dddd4444",
            {
                "evaluations": rows(
                    "evaluations",
                    [
                        evaluation("base0000", "base", "recall@1", 60.0),
                        evaluation("base0000", "base", "alignment", 1.25),
                    ],
                )
            },
        ),
    }
    if contamination is not None:
        made["guard.triplets"] = (
            "eeee5555",
            {"contamination": rows("contamination", contamination)},
        )
    for step, (version, tables) in made.items():
        make_artifact(store, step, version, tables)
    for seed in seeds:
        name, version = f"train.seed{seed}", f"bbbb{seed:04d}"
        if seed == seeds[0]:
            name = "train"
        log = [{"phase": "triplets", "step": 31, "loss": 0.75}]
        part = {"loss": {"name": "gaussian_decay", "tau": 0.05}, "rows": {"from": "triplets"}}
        config = {"phase": {"name": "triplets", "parts": [part], "batch_size": 64}}
        components = {"stage": "train", "config": config, "seed": seed}
        manifest = {"components": components, "libraries": {"torch": "2.13.0"}}
        tables = {"training_log": rows("training_log", log)}
        make_artifact(store, name, version, tables, manifest, model=encoder)
        found = [
            evaluation(version, "encoder", "recall@1", 66.0 + seed - 42, seed=seed)
            | {"ci_low": 59.5, "ci_high": 72.5},
            evaluation(version, "encoder", "recall@1_gain", 6.0, seed=seed)
            | {"ci_low": 1.5, "ci_high": 10.25},
            evaluation(version, "encoder", "alignment", 1.125, seed=seed),
        ]
        figures = {"evaluations": rows("evaluations", found)}
        make_artifact(store, f"evaluate.{name}", f"ffff{seed:04d}", figures)
        made |= {name: (version, tables), f"evaluate.{name}": (f"ffff{seed:04d}", figures)}
    steps = {
        step: (version, "made", {name: table.num_rows for name, table in tables.items()})
        for step, (version, tables) in made.items()
    }
    return store, make_run(store, str(recipe["name"]), steps, recipe)


def plain_encoder(folder: Path) -> Path:
    """Files of an encoder that nobody loads."""
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "2_Normalize").mkdir()
    (folder / "modules.json").write_text("[]")
    (folder / "config.json").write_text('{"architectures": ["BertModel"], "hidden_size": 32}')
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64}')
    return folder
