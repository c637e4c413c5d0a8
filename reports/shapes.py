"""The words in which the schemas of runs are written: JSON Schema, composed."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def record(required: Json, **optional: Json) -> Json:
    """An object with these keys; others are allowed."""
    return {"type": "object", "properties": required | optional, "required": list(required)}


def many(items: Json, **limits: int) -> Json:
    """An array of alike items; limits: minItems, maxItems."""
    return {"type": "array", "items": items, **limits}


def mapping(values: Json) -> Json:
    """An object from any name to alike values."""
    return {"type": "object", "additionalProperties": values}


def or_null(schema: Json) -> Json:
    """The same, or null."""
    # Every other keyword speaks of values of its own type alone.
    types = schema["type"]
    return {**schema, "type": [*(types if isinstance(types, list) else [types]), "null"]}


TEXT: Json = {"type": "string"}
FLAG: Json = {"type": "boolean"}
NUMBER: Json = {"type": "number"}
POSITIVE: Json = {"type": "number", "exclusiveMinimum": 0}
SHARE: Json = {"type": "number", "minimum": 0}  # a probability up to rounding
COUNT: Json = {"type": "integer", "minimum": 0, "maximum": 2**53}
SEED: Json = {"type": "integer", "minimum": 0}
PROBABILITY: Json = {"type": "number", "minimum": 0, "maximum": 1}
RATE: Json = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
# A float, or a fraction as a string such as "3/4".
EXACT: Json = {"type": ["number", "string"], "pattern": r"^-?[0-9]{1,4000}(/0*[1-9][0-9]{0,3999})?$"}
BINS = many(COUNT, minItems=1, maxItems=1_000)
PAIR = many(NUMBER, minItems=2, maxItems=2)
