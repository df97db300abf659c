"""Closed lists and JSON schema of the answers that a language model gives about a sentence.

Separate from the code that reads answers, so that a change there repeats no request.
"""

from collections.abc import Mapping, Sequence
from typing import Any

CATEGORIES = (
    *("everyday life", "people", "society", "politics", "law", "economy", "work", "education"),
    *("science", "mathematics", "technology", "computing", "health", "nature", "food", "sport"),
    *("art", "media", "history", "geography", "other"),
)
TYPES = (
    *("person", "group", "place", "building", "animal", "plant", "food", "body part"),
    *("substance", "clothing", "vehicle", "tool", "object", "software", "data", "work of art"),
    *("event", "activity", "time", "idea", "other"),
)


def schema(categories: Sequence[str], types: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an answer. Its lists are unbounded, since servers compile bounds badly."""
    text = {"type": "string"}
    entity = {"text": text, "type": {"type": "string", "enum": list(types)}}
    quantity = {"text": text, "value": {"type": "number"}, "unit": text, "counts": text}
    answer = {
        "category": {"type": "string", "enum": list(categories)},
        "entities": {"type": "array", "items": _object(entity, ["text", "type"])},
        "quantities": {"type": "array", "items": _object(quantity, ["text", "value"])},
    }
    return _object(answer, list(answer))


def _object(properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": required,
        "additionalProperties": False,
    }
