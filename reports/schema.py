"""The JSON of a run, schema 2, as JSON Schema. docs/schema.md says what the values mean.

Every section but the head is optional, and unknown keys are allowed: a run that was cut short still has a page, and so
has one that says more than is drawn here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

VERSION = 2
_LARGEST = 1e300  # far beyond any value of a run; keeps float() and the axes of figures out of trouble

Json = dict[str, Any]


class RunError(ValueError):
    """A document that is not the JSON of a run: one line with the file, the place in the document and the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        line = " ".join(f"{path}: {reason}".split())
        super().__init__(line if len(line) <= 400 else line[:397] + "...")


def load(path: Path) -> Json:
    """The run in a file. RunError if it holds anything else; OSError if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        run = json.loads(text, parse_float=_finite, parse_int=_integer, parse_constant=_finite)
        json.dumps(run, ensure_ascii=False).encode("utf-8")  # half a surrogate pair has no place in a page
    except UnicodeError:
        raise RunError(path, "not text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise RunError(path, f"broken JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise RunError(path, f"broken JSON: {error}") from None
    fault = _fault(run)
    if fault is not None:
        raise RunError(path, fault)
    return dict(run)


def _fault(run: Any) -> str | None:
    """Where a document departs from the schema, and how; None if it does not."""
    if isinstance(run, dict) and run.get("schema", VERSION) != VERSION:
        return f"$.schema: version {run['schema']!r} of the schema, only {VERSION} is read"
    error = best_match(Draft202012Validator(RUN).iter_errors(run))
    if error is not None:
        return f"{error.json_path}: {error.message}"
    rows = {0}
    for i, node in enumerate((run.get("example") or {}).get("nodes", [])):
        if node["parent"] not in rows:
            return f"$.example.nodes[{i}].parent: no earlier row {node['parent']}"
        if node["row"] in rows:
            return f"$.example.nodes[{i}].row: row {node['row']} appears twice"
        rows.add(node["row"])
    return None


def _finite(text: str) -> float:
    value = float(text)
    if not abs(value) <= _LARGEST:
        raise ValueError(f"no usable number: {text[:20]}")
    return value


def _integer(text: str) -> int:
    _finite(text)
    return int(text)


def _object(required: Json, **optional: Json) -> Json:
    return {"type": "object", "properties": required | optional, "required": list(required)}


def _list(items: Json, **limits: int) -> Json:
    return {"type": "array", "items": items, **limits}


def _map(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


def _or_null(schema: Json) -> Json:
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
BINS = _list(COUNT, minItems=1, maxItems=1_000)
PAIR = _list(NUMBER, minItems=2, maxItems=2)

CHECK = _object(
    {"case": TEXT, "method": TEXT, "check": TEXT, "status": TEXT},
    tv=_or_null(EXACT),
    accepted=_or_null(EXACT),
    detail=TEXT,
    unexpected=FLAG,
)

REPLAY = _object({"case": TEXT, "command": TEXT}, method=TEXT, check=TEXT, status=TEXT, detail=TEXT)

TEST = _object(
    {"family": TEXT, "test": TEXT, "p_value": PROBABILITY, "rejected": FLAG},
    alpha=PROBABILITY,
    look=COUNT,
    samples=COUNT,
    statistic=_or_null(NUMBER),
)

TRIAL = _object(
    {"toy": TEXT, "status": TEXT},
    length=COUNT,
    cells=COUNT,
    settings={"type": "object"},
    needed=_or_null(COUNT),
    samples=COUNT,
    detectable=_or_null(NUMBER),
    tests=_list(TEST),
    pit=_or_null(_map(BINS)),
    acceptance=_or_null(
        _object(
            {"tau": NUMBER},
            interval=_or_null(PAIR),
            confidence=PROBABILITY,
            shards=_list(COUNT),
            tokens=_list(COUNT),
            rounds=_list(COUNT),
        ),
    ),
    worst_cell=_or_null(
        _object({"sequence": _list(COUNT), "expected": PROBABILITY, "observed": PROBABILITY}, p_value=PROBABILITY),
    ),
)

SUBJECT = _object(
    {"subject": TEXT, "verdict": TEXT},
    spec=TEXT,
    config={"type": "object"},
    claims=_object({"tv": RATE, "alpha": RATE, "beta": RATE}),
    seed=SEED,
    seconds=NUMBER,
    sequences=COUNT,
    seconds_missing=_or_null(NUMBER),
    worst=_or_null(TEXT),
    guess=_or_null(TEXT),
    sentence=TEXT,
    findings=_list(TEXT),
    trials=_list(TRIAL),
)

MUTANT = _object(
    {"mutant": TEXT, "tiers": _map(_object({"caught": _or_null(FLAG)}, seconds=_or_null(NUMBER), detail=TEXT))},
    symptom=TEXT,
    cheapest=_or_null(TEXT),
)

ACCEPTANCE = _object(
    {"case": TEXT, "methods": _map(NUMBER)},
    root=_map(_object({"accepted": SHARE, "bound": SHARE})),
)

CURVE = _object(
    {"test": TEXT, "alpha": RATE, "beta": RATE, "points": _list(_list(POSITIVE, minItems=2, maxItems=2))},
    cells=_or_null(COUNT),
)

NODE = _object(
    {"row": {"type": "integer", "minimum": 1}, "parent": COUNT, "token": COUNT, "kind": TEXT},
    score=_or_null(NUMBER),
    depth=COUNT,
    accepted=FLAG,
)

EXAMPLE = _object(
    {"case": TEXT, "nodes": _list(NODE, maxItems=1_000), "emitted": _list(COUNT, maxItems=1_000)},
    method=TEXT,
    seed=SEED,
)

AUDIT_TEST = _object(
    {"test": TEXT, "p_value": PROBABILITY, "rejects": FLAG},
    tokens=COUNT,
    alpha=PROBABILITY,
    statistic=NUMBER,
    detectable=_or_null(NUMBER),
)

RUN = _object(
    {"schema": {"const": VERSION}, "kind": {"enum": ["verify", "sampler", "audit"]}, "verdict": TEXT},
    complete=FLAG,
    seconds=NUMBER,
    checks=_list(CHECK),
    controls=_list(CHECK),
    bad_input=_list(TEXT),
    replay=_list(REPLAY),
    subjects=_list(SUBJECT),
    mutants=_list(MUTANT),
    acceptance=_list(ACCEPTANCE),
    power=_list(CURVE),
    example=_or_null(EXAMPLE),
    tokens=COUNT,
    alpha=RATE,
    tests=_list(AUDIT_TEST),
    impossible=COUNT,
    first_impossible=_or_null(TEXT),
    e_value=_or_null(NUMBER),
    peak=_or_null(NUMBER),
    pit={"type": ["array", "object", "null"], "items": COUNT, "minItems": 1, "additionalProperties": BINS},
)
