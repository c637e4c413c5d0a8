"""The records of finished units, gathered by suite and question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verify.acceptance import Emitted
from verify.benchmark.plan import Plan, Unit

Record = dict[str, Any]
Finished = list[tuple[Unit, Record]]


def suites_of(plan: Plan, finished: Finished) -> list[str]:
    """The suites of which something is finished."""
    return [suite for suite in plan.suites if any(unit.suite == suite for unit, _ in finished)]


def with_average(plan: Plan, finished: Finished) -> list[str]:
    """These suites and, if there are any, their average."""
    suites = suites_of(plan, finished)
    return [*suites, "average"] if suites else []


def by_question(
    plan: Plan, finished: Finished, suite: str, pick: Callable[[Unit, Record], tuple[float, float] | None]
) -> list[Emitted]:
    """What `pick` takes of every unit, summed by question; one mapping a suite, of all suites for their average.

    A suite of which nothing was picked is left out.
    """
    gathered: list[Emitted] = []
    for name in suites_of(plan, finished) if suite == "average" else [suite]:
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
