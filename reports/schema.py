"""The JSON of a run, schema 2, as JSON Schema. docs/schema.md says what the values mean; reports/bench/schema.py has
the kind `bench`.

Every section but the head is optional, and unknown keys are allowed: a run that was cut short still has a page, and so
has one that says more than is drawn here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from reports.bench.schema import BENCH
from reports.shapes import (
    BINS,
    COUNT,
    EXACT,
    FLAG,
    NUMBER,
    PAIR,
    POSITIVE,
    PROBABILITY,
    RATE,
    SEED,
    SHARE,
    TEXT,
    Json,
    many,
    mapping,
    or_null,
    record,
)

VERSION = 2
_LARGEST = 1e300  # far beyond any value of a run; keeps float() and the axes of figures out of trouble


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
    kind = run.get("kind") if isinstance(run, dict) else None
    schema = BENCH if kind == "bench" else MODELS if kind == "models" else RUN
    error = best_match(Draft202012Validator(schema).iter_errors(run))
    if error is not None:
        return f"{error.json_path}: {error.message}"
    return _orphan(run) if schema is RUN else None


def _orphan(run: Json) -> str | None:
    """Where the tree of the example is none."""
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


CHECK = record(
    {"case": TEXT, "method": TEXT, "check": TEXT, "status": TEXT},
    tv=or_null(EXACT),
    accepted=or_null(EXACT),
    detail=TEXT,
    unexpected=FLAG,
)

REPLAY = record({"case": TEXT, "command": TEXT}, method=TEXT, check=TEXT, status=TEXT, detail=TEXT)

TEST = record(
    {"family": TEXT, "test": TEXT, "p_value": PROBABILITY, "rejected": FLAG},
    alpha=PROBABILITY,
    look=COUNT,
    samples=COUNT,
    statistic=or_null(NUMBER),
)

TRIAL = record(
    {"toy": TEXT, "status": TEXT},
    length=COUNT,
    cells=COUNT,
    settings={"type": "object"},
    needed=or_null(COUNT),
    samples=COUNT,
    detectable=or_null(NUMBER),
    tests=many(TEST),
    pit=or_null(mapping(BINS)),
    acceptance=or_null(
        record(
            {"tau": NUMBER},
            interval=or_null(PAIR),
            confidence=PROBABILITY,
            shards=many(COUNT),
            tokens=many(COUNT),
            rounds=many(COUNT),
        ),
    ),
    worst_cell=or_null(
        record({"sequence": many(COUNT), "expected": PROBABILITY, "observed": PROBABILITY}, p_value=PROBABILITY),
    ),
)

SUBJECT = record(
    {"subject": TEXT, "verdict": TEXT},
    spec=TEXT,
    config={"type": "object"},
    claims=record({"tv": RATE, "alpha": RATE, "beta": RATE}),
    seed=SEED,
    seconds=NUMBER,
    sequences=COUNT,
    seconds_missing=or_null(NUMBER),
    worst=or_null(TEXT),
    guess=or_null(TEXT),
    sentence=TEXT,
    findings=many(TEXT),
    trials=many(TRIAL),
)

MUTANT = record(
    {"mutant": TEXT, "tiers": mapping(record({"caught": or_null(FLAG)}, seconds=or_null(NUMBER), detail=TEXT))},
    symptom=TEXT,
    cheapest=or_null(TEXT),
)

ACCEPTANCE = record(
    {"case": TEXT, "methods": mapping(NUMBER)},
    root=mapping(record({"accepted": SHARE, "bound": SHARE})),
)

CURVE = record(
    {"test": TEXT, "alpha": RATE, "beta": RATE, "points": many(many(POSITIVE, minItems=2, maxItems=2))},
    cells=or_null(COUNT),
)

NODE = record(
    {"row": {"type": "integer", "minimum": 1}, "parent": COUNT, "token": COUNT, "kind": TEXT},
    score=or_null(NUMBER),
    depth=COUNT,
    accepted=FLAG,
)

EXAMPLE = record(
    {"case": TEXT, "nodes": many(NODE, maxItems=1_000), "emitted": many(COUNT, maxItems=1_000)},
    method=TEXT,
    seed=SEED,
)

AUDIT_TEST = record(
    {"test": TEXT, "p_value": PROBABILITY, "rejects": FLAG},
    tokens=COUNT,
    alpha=PROBABILITY,
    statistic=NUMBER,
    detectable=or_null(NUMBER),
)

MODEL_METHOD = record(
    {"method": TEXT, "status": TEXT},
    tokens=COUNT,
    requests=COUNT,
    impossible=COUNT,
    checks=or_null(record({"tokens": COUNT, "differing": COUNT, "margin": NUMBER, "tv": NUMBER}, cached=COUNT)),
    tests=many(AUDIT_TEST),
)

MODEL_CONTROL = record(
    {"fault": TEXT, "method": TEXT, "status": TEXT, "pilot": or_null(COUNT)},
    order=TEXT,
    distance=NUMBER,
    at_least=NUMBER,
    tokens=or_null(COUNT),
    p_value=PROBABILITY,
)

# Of every kind but `bench` and `models`, which have schemas of their own and are named for whoever mistypes a kind.
KINDS = ["verify", "sampler", "models", "audit", "bench"]
RUN = record(
    {"schema": {"const": VERSION}, "kind": {"enum": KINDS}, "verdict": TEXT},
    complete=FLAG,
    seconds=NUMBER,
    checks=many(CHECK),
    controls=many(CHECK),
    bad_input=many(TEXT),
    replay=many(REPLAY),
    subjects=many(SUBJECT),
    mutants=many(MUTANT),
    acceptance=many(ACCEPTANCE),
    power=many(CURVE),
    example=or_null(EXAMPLE),
    tokens=COUNT,
    alpha=RATE,
    tests=many(AUDIT_TEST),
    impossible=COUNT,
    first_impossible=or_null(TEXT),
    e_value=or_null(NUMBER),
    peak=or_null(NUMBER),
    pit={"type": ["array", "object", "null"], "items": COUNT, "minItems": 1, "additionalProperties": BINS},
)

MODELS = record(
    {
        "schema": {"const": VERSION},
        "kind": {"const": "models"},
        "verdict": TEXT,
        "target": TEXT,
        "draft": TEXT,
        "dtype": TEXT,
        "temperature": NUMBER,
        "tokens": COUNT,
        "alpha": RATE,
        "beta": RATE,
        "most": or_null(record({"tv": NUMBER, "margin": NUMBER})),
        "methods": many(MODEL_METHOD),
        "control": MODEL_CONTROL,
    },
    complete=FLAG,
    seconds=NUMBER,
    seed=SEED,
)
