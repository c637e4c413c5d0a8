"""The figures of a benchmark, made of the records of its finished units. docs/bench-schema.md says what they are."""

from __future__ import annotations

from collections.abc import Mapping

from verify.benchmark.context_figures import ablation, depth_one, expected, grid
from verify.benchmark.gathered import Record, suites_of, with_average
from verify.benchmark.plan import Plan, Unit, units
from verify.benchmark.shapes import of_record
from verify.benchmark.text_figures import acceptance, rounds_of, table, times


def summary(plan: Plan, records: Mapping[str, Record], dtype: str) -> Record:
    """All sections; what has no finished unit is empty or null."""
    finished = [(unit, records[unit.key]) for unit in units(plan) if unit.key in records]
    texts = [each for each in finished if each[0].kind == "text"]
    contexts = [each for each in finished if each[0].kind == "contexts"]
    own = [each for each in contexts if each[0].temperature == float(plan.config.temperature)]
    return {
        "table": [row for suite in with_average(plan, texts) for row in table(plan, texts, suite)],
        "expected": [row for suite in with_average(plan, own) for row in expected(plan, own, suite)],
        "acceptance": [
            row for suite in (*suites_of(plan, texts), "all") for row in acceptance(plan, texts, own, suite)
        ],
        "time": [times(name, texts) for name in plan.methods if rounds_of(name, texts)],
        "floor": _floor([record for unit, record in finished if unit.kind == "floor"], dtype),
        "depth_one": depth_one(own),
        "ablations": {key: ablation(plan, contexts, key) for key in plan.ablations},
        "shapes": [_shapes(unit, record) for unit, record in finished if unit.kind == "shapes"],
        "grid": grid(plan, contexts) if {"temperature", "budget"} & set(plan.ablations) else [],
    }


def _floor(records: list[Record], dtype: str) -> Record | None:
    tokens = sum(record["tokens"] for record in records)
    if not tokens:
        return None
    mean = sum(record["sum"] for record in records) / tokens
    return {"tokens": tokens, "mean": mean, "largest": max(r["largest"] for r in records), "dtype": dtype}


def _shapes(unit: Unit, record: Record) -> Record:
    """What was measured beforehand at one temperature, and what was chosen by it."""
    chosen = of_record(record).slots
    choices = [
        {
            "method": name,
            "budget": int(budget),
            "slots": chosen[name][int(budget)],
            "tried": [int(k) for k in taus],
            "tau": list(taus.values()),
        }
        for name, by_budget in record["tau"].items()
        for budget, taus in by_budget.items()
    ]
    about = {"temperature": unit.temperature, "contexts": record["contexts"]}
    return {**about, "acceptance": record["acceptance"], "choices": choices}
