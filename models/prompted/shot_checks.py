"""Whether worked examples are answered as their method's answers must be."""

from collections.abc import Sequence

import pyarrow as pa

from tercet.models.errors import Unusable
from tercet.models.generation import Check
from tercet.models.prompted.checks import faults, unwrapped
from tercet.models.prompted.templates import Example
from tercet.models.text.passages import passage_text

# It refuses what a recipe names, and makes no row.
UNVERSIONED = True


def check_shots(examples: Sequence[Example], checks: Sequence[Check]) -> None:
    """Raises Unusable for the first answer that would be refused if a model gave it."""
    rows = [
        {
            "source": _text(example, "sentence")
            or passage_text(_text(example, "context") or "", _text(example, "passage") or ""),
            "prompt": example.shot.prompt,
            "shots": [],
            "checks": checks,
            "operation": _text(example, "kind"),
            "old": _text(example, "old"),
            "new": _text(example, "new"),
            # Of a changed record: an entity comes from a pool, a number from nowhere.
            "pool": "T_r" if _text(example, "new") in _entities(example) else None,
        }
        for example in examples
    ]
    table = pa.Table.from_pylist(rows, _SCHEMA)
    raws = pa.chunked_array([pa.array([example.shot.answer for example in examples], pa.string())])
    texts, unclosed, damaged = unwrapped(raws, table["source"])
    found = faults(table.append_column("text", texts), unclosed, damaged)
    for example, fault in zip(examples, found, strict=True):
        if fault is not None:
            reason, because = fault
            raise Unusable(
                f"{example.place}: parse would refuse this answer ({reason}: {because}): mend it"
            )


def _text(example: Example, name: str) -> str | None:
    """A variable as the prompt writes it."""
    value = example.values.get(name)
    return None if value is None else str(value)


def _entities(example: Example) -> list[object]:
    listed = example.values.get("entities")
    entities = listed if isinstance(listed, list) else []
    return [entity.get("text") for entity in entities if isinstance(entity, dict)]


_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("source", "prompt", "operation", "old", "new", "pool")),
        *((name, pa.list_(pa.string())) for name in ("shots", "checks")),
    ]
)
