"""The data card of a table: columns, sources, funnel, and front matter for `datasets`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tercet.flows.cards.facts import render, run_facts
from tercet.flows.cards.model_card import recipe_yaml
from tercet.flows.results.subject import Subject
from tercet.storage.catalog.snapshot import METADATA
from tercet.tasks.stages import meaning

_SYNTHETIC = ("triplets", "candidates", "generations")
_WHAT = {
    "triplets": "Triplets for training sentence encoders: an anchor, a positive, a hard negative.",
    "sentences": "Sentences of a corpus, with their place in it.",
    "document_pairs": "Naturally occurring pairs of texts that belong together.",
    "questions": "Pairs of held-out texts that are only measured.",
    "candidates": "Candidates for positives and negatives, before selection.",
    "generations": "Verbatim outputs of methods and language models.",
}
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (10**6, "100K<n<1M"),
          (10**7, "1M<n<10M"), (10**8, "10M<n<100M"), (10**9, "100M<n<1B"))  # fmt: skip


@dataclass(frozen=True)
class DataFiles:
    """The exported rows: their columns and sizes.

    bytes: size of the files; memory: size of the rows in Arrow's format.
    """

    schema: pa.Schema
    rows: int
    bytes: int
    memory: int


def data_card(
    table: str,
    written: DataFiles,
    subject: Subject | None,
    versions: Sequence[str] = (),
) -> str:
    """The card as Markdown with the hub's front matter.

    subject: the run whose rows these are; None for tables of the whole store. versions:
        `step@version` of the artifacts that the rows come from.
    """
    facts = None if subject is None or table in METADATA else run_facts(subject)
    title = table if facts is None else f"{facts.name}: {table}"
    size = next((name for bound, name in _SIZES if written.rows < bound), "n>1B")
    synthetic = ["synthetic"] if table in _SYNTHETIC else []
    metadata = {
        "pretty_name": title,
        "tags": ["tercet", "sentence-transformers", *synthetic],
        "task_categories": ["sentence-similarity"] if table in _WHAT else None,
        "size_categories": [size],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": "train", "path": "data/train-*.parquet"}],
            }
        ],
        "dataset_info": {
            "features": [_feature(field) for field in written.schema],
            "splits": [
                {"name": "train", "num_bytes": written.memory, "num_examples": written.rows}
            ],
            "download_size": written.bytes,
            "dataset_size": written.memory,
        },
    }
    values = {
        "title": title,
        "what": _WHAT.get(table, f"The table `{table}` of a Tercet store."),
        "rows": written.rows,
        "columns": [
            {"name": f.name, "type": str(f.type), "meaning": meaning(table, f.name)}
            for f in written.schema
        ],
        "facts": facts,
        "run_id": None if subject is None else subject.run_id,
        "versions": [f"`{version}`" for version in versions],
        "recipe": None if facts is None else recipe_yaml(facts.recipe),
    }
    return render("data_card", metadata, values)


def _feature(field: pa.Field) -> dict[str, Any]:
    """A column in the format of the hub's `dataset_info`."""
    return {"name": field.name, **_kind(field.type)}


def _kind(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_struct(kind):
        return {"struct": [_feature(kind.field(i)) for i in range(kind.num_fields)]}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _kind(kind.value_type)
        return {"list": inner["dtype"] if set(inner) == {"dtype"} else inner}
    names = {
        "double": "float64",
        "float": "float32",
        "halffloat": "float16",
        "date32[day]": "date32",
    }
    return {"dtype": names.get(str(kind), str(kind))}
