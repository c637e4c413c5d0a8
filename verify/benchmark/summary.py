"""The figures of a benchmark, made of the records of its finished units. docs/bench-schema.md says what they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from verify.acceptance import Emitted
from verify.benchmark import stats
from verify.benchmark.clock import Seconds
from verify.benchmark.plan import AR, BASE, Plan, Unit, units, values, variant_name
from verify.benchmark.shapes import of_record

Record = dict[str, Any]
Finished = list[tuple[Unit, Record]]

_BASELINES = ("topk", "rheo")
_MOST_POINTS = 500
_PARTS = ("draft", "verify", "sampling", "rest")


def summary(plan: Plan, records: Mapping[str, Record], dtype: str) -> Record:
    """All sections; what has no finished unit is empty or null."""
    finished = [(unit, records[unit.key]) for unit in units(plan) if unit.key in records]
    texts = [each for each in finished if each[0].kind == "text"]
    contexts = [each for each in finished if each[0].kind == "contexts"]
    own = [each for each in contexts if each[0].temperature == float(plan.config.temperature)]
    return {
        "table": [row for suite in _with_average(plan, texts) for row in _table(plan, texts, suite)],
        "expected": [row for suite in _with_average(plan, own) for row in _expected(plan, own, suite)],
        "acceptance": [row for suite in (*_suites(plan, texts), "all") for row in _acceptance(plan, texts, own, suite)],
        "time": [_time(name, texts) for name in plan.methods if _rounds(name, texts)],
        "floor": _floor([record for unit, record in finished if unit.kind == "floor"], dtype),
        "depth_one": _depth_one(own),
        "ablations": {key: _ablation(plan, contexts, key) for key in plan.ablations},
        "shapes": [_shapes(unit, record) for unit, record in finished if unit.kind == "shapes"],
        "grid": _grid(plan, contexts) if {"temperature", "budget"} & set(plan.ablations) else [],
    }


def _suites(plan: Plan, finished: Finished) -> list[str]:
    """The suites of which something is finished."""
    return [suite for suite in plan.suites if any(unit.suite == suite for unit, _ in finished)]


def _with_average(plan: Plan, finished: Finished) -> list[str]:
    suites = _suites(plan, finished)
    return [*suites, "average"] if suites else []


def _of(
    plan: Plan, finished: Finished, suite: str, pick: Callable[[Unit, Record], tuple[float, float] | None]
) -> list[Emitted]:
    """What `pick` takes of every unit, summed by question; one mapping a suite, of all suites for their average.

    A suite of which nothing was picked is left out.
    """
    gathered: list[Emitted] = []
    for name in _suites(plan, finished) if suite == "average" else [suite]:
        number = {question.identifier: i for i, question in enumerate(plan.suites[name])}
        sums: dict[int, tuple[float, float]] = {}
        for unit, record in finished:
            picked = pick(unit, record) if unit.suite == name else None
            if picked is not None and picked[1] > 0:
                at = number[unit.question.identifier]
                before = sums.get(at, (0.0, 0.0))
                sums[at] = (before[0] + picked[0], before[1] + picked[1])
        if sums:
            gathered.append(sums)
    return gathered


def _table(plan: Plan, texts: Finished, suite: str) -> list[Record]:
    rows = []
    for name in plan.methods:
        emitted = _of(plan, texts, suite, _emitted(name))
        if not emitted:
            continue
        tau, interval = stats.mean(emitted)
        by_seed = []
        for seed in range(plan.seeds):
            of_seed = _of(plan, [each for each in texts if each[0].seed == seed], suite, _emitted(name))
            by_seed += [stats.mean(of_seed)[0]] if len(of_seed) == len(emitted) else []
        expected = _of(plan, texts, suite, _emitted(name, "expected"))
        rates = _of(plan, texts, suite, _rate(name))
        both = _together(texts, name)
        fast, slow = (_of(plan, both, suite, _rate(each)) for each in (name, AR))
        ratio, around = stats.speedup(fast, slow) if len(fast) == len(slow) else (None, None)
        counted = [r for u, r in texts if u.method == name and suite in (u.suite, "average")]
        rows.append(
            {
                "suite": suite,
                "method": name,
                "prompts": sum(map(len, emitted)),
                "rounds": sum(record["rounds"] for record in counted),
                "tokens": sum(record["emitted"] for record in counted),
                "tau": tau,
                "spread": stats.spread(by_seed),
                "by_seed": by_seed,
                "interval": interval,
                "expected": stats.mean(expected)[0] if expected else None,
                "tokens_per_second": stats.mean(rates)[0] if rates else None,
                "speedup": ratio,
                "speedup_interval": around,
            }
        )
    return rows


def _together(texts: Finished, name: str) -> Finished:
    """Texts of a method and of `ar`, on the questions and seeds that both have finished."""
    done = [{(u.suite, u.question.identifier, u.seed) for u, _ in texts if u.method == m} for m in (name, AR)]
    both = done[0] & done[1]
    return [(u, r) for u, r in texts if (u.suite, u.question.identifier, u.seed) in both]


def _emitted(name: str, key: str = "emitted") -> Callable[[Unit, Record], tuple[float, float] | None]:
    """Tokens, sampled or expected, and rounds of one method."""

    def pick(unit: Unit, record: Record) -> tuple[float, float] | None:
        return (record[key], record["rounds"]) if unit.method == name and record[key] is not None else None

    return pick


def _rate(name: str) -> Callable[[Unit, Record], tuple[float, float] | None]:
    """Tokens and seconds of one method, without first rounds."""

    def pick(unit: Unit, record: Record) -> tuple[float, float] | None:
        return (record["timed"]["tokens"], _seconds(record).total) if unit.method == name else None

    return pick


def _seconds(record: Record) -> Seconds:
    return Seconds(**{part: record["timed"][part] for part in _PARTS})


def _expected(plan: Plan, contexts: Finished, suite: str, variant: str = BASE) -> list[Record]:
    found, sampled = (
        {name: _of(plan, contexts, suite, _tau(variant, name, key)) for name in plan.drafted}
        for key in ("tau", "emitted")
    )
    rows = []
    for name, own in found.items():
        if own:
            tau, interval = stats.mean(own)
            others = [other for other in _BASELINES if other != name and found.get(other)]
            rows.append(
                {
                    "suite": suite,
                    "method": name,
                    "prompts": sum(map(len, own)),
                    "contexts": _count(own),
                    "tau": tau,
                    "interval": interval,
                    "sampled": stats.mean(sampled[name])[0],
                    "excess": stats.difference(sampled[name], own),
                    "differences": {other: stats.difference(own, found[other]) for other in others},
                }
            )
    return rows


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


def _grid(plan: Plan, contexts: Finished) -> list[Record]:
    """The same on the average of suites, for every temperature and tree size together."""
    rows = []
    for temperature in values(plan, "temperature") or [float(plan.config.temperature)]:
        mine = [each for each in contexts if each[0].temperature == temperature]
        for budget in values(plan, "budget") or [plan.config.budget]:
            variant = BASE if budget == plan.config.budget else variant_name("budget", budget)
            at = {"temperature": temperature, "budget": budget}
            rows += [{**at, **row} for row in _expected(plan, mine, "average", variant)]
    return rows


def _tau(variant: str, name: str, key: str = "tau") -> Callable[[Unit, Record], tuple[float, float] | None]:
    """Sum of expected, or of emitted, tokens and number of contexts of one method in one variant."""

    def pick(unit: Unit, record: Record) -> tuple[float, float] | None:
        found = record["variants"].get(variant, {}).get("methods", {}).get(name)
        return None if found is None else (sum(found[key]), len(found[key]))

    return pick


def _count(suites: Sequence[Emitted]) -> int:
    return int(sum(count for suite in suites for _, count in suite.values()))


def _acceptance(plan: Plan, texts: Finished, contexts: Finished, suite: str) -> list[Record]:
    rows = []
    for name in plan.drafted:
        reached = _columns([r["reached"] for u, r in texts if u.method == name and suite in (u.suite, "all")])
        mine = [record for unit, record in contexts if suite in (unit.suite, "all")]
        methods = [record["variants"][BASE]["methods"] for record in mine]
        expected = _columns([found[name]["reach"] for found in methods if name in found])
        if reached:
            shares = _shares(expected) if expected else None
            rows.append(
                {"suite": suite, "method": name, "reached": reached, "sampled": _shares(reached), "expected": shares}
            )
    return rows


def _columns(rows: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip(*(row for row in rows if row), strict=True)]


def _shares(reached: Sequence[float]) -> list[float | None]:
    return [deeper / here if here > 0 else None for here, deeper in pairwise(reached)]


def _rounds(name: str, texts: Finished) -> int:
    return sum(record["timed"]["rounds"] for unit, record in texts if unit.method == name)


def _time(name: str, texts: Finished) -> Record:
    mine = [record for unit, record in texts if unit.method == name]
    total, rounds = sum(map(_seconds, mine), Seconds()), _rounds(name, texts)
    peaks = [record["timed"]["memory_bytes"] for record in mine if record["timed"]["memory_bytes"] is not None]
    milliseconds = {part: 1e3 * getattr(total, part) / rounds for part in _PARTS}
    return {
        "method": name,
        "rounds": rounds,
        "milliseconds": {**milliseconds, "round": 1e3 * total.total / rounds},
        "shares": {part: getattr(total, part) / total.total for part in _PARTS},
        "memory_bytes": max(peaks, default=None),
    }


def _floor(records: list[Record], dtype: str) -> Record | None:
    tokens = sum(record["tokens"] for record in records)
    if not tokens:
        return None
    mean = sum(record["sum"] for record in records) / tokens
    return {"tokens": tokens, "mean": mean, "largest": max(r["largest"] for r in records), "dtype": dtype}


def _depth_one(contexts: Finished) -> Record | None:
    points = [{"suite": unit.suite, "methods": node} for unit, record in contexts for node in record["depth_one"]]
    if not points:
        return None
    methods = {}
    for name in dict.fromkeys(name for point in points for name in point["methods"]):
        mine = [point["methods"][name] for point in points if name in point["methods"]]
        methods[name] = {key: total / len(mine) for key, total in _added(mine).items()}
    return {"contexts": len(points), "methods": methods, "points": points[:: -(-len(points) // _MOST_POINTS)]}


def _ablation(plan: Plan, contexts: Finished, key: str) -> list[Record]:
    own: float | None = getattr(plan.config, key)
    rows = []
    for value in values(plan, key):
        at = value if key == "temperature" else float(plan.config.temperature)
        mine = [(unit, record) for unit, record in contexts if unit.temperature == at]
        variant = BASE if value == own or key == "temperature" else variant_name(key, value)
        found = [record["variants"][variant] for _, record in mine if variant in record["variants"]]
        if found:
            paired = key != "temperature" and value != own
            methods = {name: _ablated(plan, mine, variant, name, paired) for name in plan.drafted}
            rows.append(
                {
                    "value": value,
                    "base": value == own,
                    "prompts": len(found),
                    "contexts": sum(len(record["starts"]) for _, record in mine),
                    "methods": {name: figures for name, figures in methods.items() if figures is not None},
                    **_draft_figures(found, sum(len(record["starts"]) for _, record in mine)),
                }
            )
    return rows


def _ablated(plan: Plan, contexts: Finished, variant: str, name: str, paired: bool) -> Record | None:
    found = _of(plan, contexts, "average", _tau(variant, name))
    if not found:
        return None
    tau, interval = stats.mean(found)
    base = _of(plan, contexts, "average", _tau(BASE, name))
    return {"tau": tau, "interval": interval, "difference": stats.difference(found, base) if paired else None}


def _draft_figures(found: Sequence[Record], contexts: int) -> Record:
    """How good the draft's root is, what its probes did, and how long drafting took."""
    root, probe, timed = (_added([record[key] for record in found]) for key in ("root", "probe", "timed"))
    trees = timed.get("trees", 0)
    return {
        "draft_ms": 1e3 * timed["draft"] / trees if trees else None,
        "growth_ms": 1e3 * timed["growth"] / trees if trees else None,
        "coverage": {"p": root["p"] / contexts, "q": root["q"] / contexts},
        "overlap": root["overlap"] / contexts,
        "probe": {
            "survival": probe["survived"] / probe["parents"],
            "acceptance": probe["accepted"] / probe["weight"] if probe["weight"] > 0 else None,
        }
        if probe
        else None,
    }


def _added(records: Sequence[Mapping[str, float]]) -> dict[str, float]:
    keys = dict.fromkeys(key for record in records for key in record)
    return {key: sum(record.get(key, 0) for record in records) for key in keys}
