"""Of texts that were decoded: tokens a round, speed-up, acceptance by depth, where the time went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from verify.benchmark import stats
from verify.benchmark.clock import Seconds
from verify.benchmark.gathered import Finished, Record, by_question
from verify.benchmark.plan import AR, BASE, Plan, Unit

_PARTS = ("draft", "verify", "sampling", "rest")


def table(plan: Plan, texts: Finished, suite: str) -> list[Record]:
    """The paper's table for a suite or the average: a row for every method of which a text is finished."""
    rows = []
    for name in plan.methods:
        emitted = by_question(plan, texts, suite, _emitted(name))
        if not emitted:
            continue
        tau, interval = stats.mean(emitted)
        by_seed = []
        for seed in range(plan.seeds):
            of_seed = by_question(plan, [each for each in texts if each[0].seed == seed], suite, _emitted(name))
            by_seed += [stats.mean(of_seed)[0]] if len(of_seed) == len(emitted) else []
        expected = by_question(plan, texts, suite, _emitted(name, "expected"))
        rates = by_question(plan, texts, suite, _rate(name))
        both = _together(texts, name)
        fast, slow = (by_question(plan, both, suite, _rate(each)) for each in (name, AR))
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
    done = [{(u.suite, u.question.name, u.seed) for u, _ in texts if u.method == m} for m in (name, AR)]
    both = done[0] & done[1]
    return [(u, r) for u, r in texts if (u.suite, u.question.name, u.seed) in both]


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


def acceptance(plan: Plan, texts: Finished, contexts: Finished, suite: str) -> list[Record]:
    """Of rounds that accepted a token at one depth, the share that did at the next; suite "all" takes every text."""
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


def rounds_of(name: str, texts: Finished) -> int:
    """Rounds of a method that were timed."""
    return sum(record["timed"]["rounds"] for unit, record in texts if unit.method == name)


def times(name: str, texts: Finished) -> Record:
    """Where a round's time goes."""
    mine = [record for unit, record in texts if unit.method == name]
    total, rounds = sum(map(_seconds, mine), Seconds()), rounds_of(name, texts)
    peaks = [record["timed"]["memory_bytes"] for record in mine if record["timed"]["memory_bytes"] is not None]
    milliseconds = {part: 1e3 * getattr(total, part) / rounds for part in _PARTS}
    return {
        "method": name,
        "rounds": rounds,
        "milliseconds": {**milliseconds, "round": 1e3 * total.total / rounds},
        "shares": {part: getattr(total, part) / total.total for part in _PARTS},
        "memory_bytes": max(peaks, default=None),
    }
