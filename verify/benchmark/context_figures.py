"""Of shared round starts: expected tau with paired differences, over settings too; acceptance at depth 1; the draft."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from verify.acceptance import Emitted
from verify.benchmark import stats
from verify.benchmark.gathered import Finished, Record, by_question
from verify.benchmark.plan import BASE, Plan, Unit, values, variant_name

_BASELINES = ("topk", "rheo")
_MOST_POINTS = 500


def expected(plan: Plan, contexts: Finished, suite: str, variant: str = BASE) -> list[Record]:
    """Every method at the same contexts: expected tau, what it emitted on the same trees, and paired differences."""
    found, sampled = (
        {name: by_question(plan, contexts, suite, _tau(variant, name, key)) for name in plan.drafted}
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


def _tau(variant: str, name: str, key: str = "tau") -> Callable[[Unit, Record], tuple[float, float] | None]:
    """Sum of expected, or of emitted, tokens and number of contexts of one method in one variant."""

    def pick(unit: Unit, record: Record) -> tuple[float, float] | None:
        found = record["variants"].get(variant, {}).get("methods", {}).get(name)
        return None if found is None else (sum(found[key]), len(found[key]))

    return pick


def _count(suites: Sequence[Emitted]) -> int:
    return int(sum(count for suite in suites for _, count in suite.values()))


def grid(plan: Plan, contexts: Finished) -> list[Record]:
    """What `expected` says, on the average of suites, for every temperature and tree size together."""
    rows = []
    for temperature in values(plan, "temperature") or [float(plan.config.temperature)]:
        mine = [each for each in contexts if each[0].temperature == temperature]
        for budget in values(plan, "budget") or [plan.config.budget]:
            variant = BASE if budget == plan.config.budget else variant_name("budget", budget)
            at = {"temperature": temperature, "budget": budget}
            rows += [{**at, **row} for row in expected(plan, mine, "average", variant)]
    return rows


def depth_one(contexts: Finished) -> Record | None:
    """Acceptance of the root's children beside its bounds, by method; None where no context is finished."""
    points = [{"suite": unit.suite, "methods": node} for unit, record in contexts for node in record["depth_one"]]
    if not points:
        return None
    methods = {}
    for name in dict.fromkeys(name for point in points for name in point["methods"]):
        mine = [point["methods"][name] for point in points if name in point["methods"]]
        methods[name] = {key: total / len(mine) for key, total in _added(mine).items()}
    return {"contexts": len(points), "methods": methods, "points": points[:: -(-len(points) // _MOST_POINTS)]}


def ablation(plan: Plan, contexts: Finished, key: str) -> list[Record]:
    """One setting at every value: all methods, and how good the draft and its probes are."""
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
    found = by_question(plan, contexts, "average", _tau(variant, name))
    if not found:
        return None
    tau, interval = stats.mean(found)
    base = by_question(plan, contexts, "average", _tau(BASE, name))
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
