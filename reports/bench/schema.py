"""The JSON of `rheo bench` on full models, as JSON Schema. docs/bench-schema.md says what the values mean."""

from __future__ import annotations

from reports.shapes import COUNT, FLAG, NUMBER, PROBABILITY, TEXT, Json, many, mapping, or_null, record

# Whatever is drawn: bounded, so that axes stay out of trouble.
AMOUNT: Json = {"type": "number", "minimum": 0, "maximum": 1e12}
CHANGE: Json = {"type": "number", "minimum": -1e12, "maximum": 1e12}
INTERVAL = or_null(many(CHANGE, minItems=2, maxItems=2))
DIFFERENCE = or_null(record({"mean": CHANGE, "interval": INTERVAL}))
WHOSE = {"suite": TEXT, "method": TEXT}
DEPTHS = 1_000  # levels of a tree at most

TABLE = record(
    {
        **WHOSE,
        "prompts": COUNT,
        "rounds": COUNT,
        "tokens": COUNT,
        "tau": AMOUNT,
        "spread": or_null(AMOUNT),
        "by_seed": many(AMOUNT),
        "interval": INTERVAL,
        "expected": or_null(AMOUNT),
        "tokens_per_second": or_null(AMOUNT),
        "speedup": or_null(AMOUNT),
        "speedup_interval": INTERVAL,
    }
)

EXPECTED_KEYS = {
    **WHOSE,
    "prompts": COUNT,
    "contexts": COUNT,
    "tau": AMOUNT,
    "interval": INTERVAL,
    "differences": mapping(DIFFERENCE),
}
SAMPLED = {"sampled": AMOUNT, "excess": DIFFERENCE}  # not in older files
EXPECTED = record(EXPECTED_KEYS, **SAMPLED)
GRID = record({"temperature": AMOUNT, "budget": COUNT, **EXPECTED_KEYS}, **SAMPLED)

CHOICE = record(
    {
        "method": TEXT,
        "budget": COUNT,
        "slots": COUNT,
        "tried": many(COUNT, maxItems=100),
        "tau": many(AMOUNT, maxItems=100),
    }
)
SHAPES = record(
    {
        "temperature": AMOUNT,
        "contexts": COUNT,
        "acceptance": many(PROBABILITY, maxItems=1_000),
        "choices": many(CHOICE, maxItems=100),
    }
)

DEPTH = record(
    {
        **WHOSE,
        "reached": many(AMOUNT, maxItems=DEPTHS),
        "sampled": many(or_null(AMOUNT), maxItems=DEPTHS),
        "expected": or_null(many(or_null(AMOUNT), maxItems=DEPTHS)),
    }
)

PARTS = {"draft": AMOUNT, "verify": AMOUNT, "sampling": AMOUNT, "rest": AMOUNT}
TIME = record(
    {
        "method": TEXT,
        "rounds": COUNT,
        "milliseconds": record({**PARTS, "round": AMOUNT}),
        "shares": record(PARTS),
        "memory_bytes": or_null(COUNT),
    }
)

FLOOR = record({"tokens": COUNT, "mean": PROBABILITY, "largest": PROBABILITY, "dtype": TEXT})

AT_ONE = mapping(record({"candidates": AMOUNT, "accepted": AMOUNT, "bound": AMOUNT, "likeliest": AMOUNT}))
POINT = record({"suite": TEXT, "methods": AT_ONE})
DEPTH_ONE = record({"contexts": COUNT, "methods": AT_ONE, "points": many(POINT, maxItems=500)})

VARIANT = record(
    {
        "value": or_null(CHANGE),
        "base": FLAG,
        "prompts": COUNT,
        "contexts": COUNT,
        "methods": mapping(record({"tau": AMOUNT, "interval": INTERVAL, "difference": DIFFERENCE})),
        "draft_ms": or_null(AMOUNT),
        "growth_ms": or_null(AMOUNT),
        "coverage": record({"p": or_null(AMOUNT), "q": or_null(AMOUNT)}),
        "overlap": or_null(AMOUNT),
        "probe": or_null(record({"survival": or_null(AMOUNT), "acceptance": or_null(AMOUNT)})),
    }
)
VARIANTS = many(VARIANT, maxItems=100)

TREE = record({key: or_null(COUNT) for key in ("anchors", "slots", "beam", "depth", "budget", "support")})

SETTINGS = record(
    {
        "target": TEXT,
        "draft": TEXT,
        "dtype": TEXT,
        "device": TEXT,
        "suites": many(TEXT),
        "methods": many(TEXT),
        "temperature": AMOUNT,
        "max_new_tokens": COUNT,
        "limit": COUNT,
        "seeds": COUNT,
        "contexts": COUNT,
        "ablations": many(TEXT),
        "config": TREE,
        "calibration": TEXT,
    },
    turns=TEXT,
    tuned=mapping(TREE),
)

MACHINE = record(
    {
        "processor": TEXT,
        "cores": COUNT,
        "threads": COUNT,
        "memory_bytes": or_null(COUNT),
        "system": TEXT,
        "gpu": or_null(TEXT),
    }
)

SUMMARY = record(
    {
        "table": many(TABLE),
        "expected": many(EXPECTED),
        "acceptance": many(DEPTH),
        "time": many(TIME),
        "floor": or_null(FLOOR),
        "depth_one": or_null(DEPTH_ONE),
        "ablations": record({}, support=VARIANTS, anchors=VARIANTS, temperature=VARIANTS, budget=VARIANTS),
        "shapes": many(SHAPES, maxItems=100),
        "grid": many(GRID, maxItems=1_000),
    }
)

BENCH = record(
    {
        "schema": {"const": 2},
        "kind": {"const": "bench"},
        "complete": FLAG,
        "seconds": NUMBER,
        "settings": SETTINGS,
        "versions": mapping(TEXT),
        "machine": MACHINE,
        "summary": SUMMARY,
        "units": {"type": "object"},
    }
)
