"""Run a function of `choose` once for every way its choices can fall."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from reference.choose import Choose, Site
from reference.distributions import Array, Number

Result = TypeVar("Result")


class InconclusiveError(RuntimeError):
    """Neither a proof nor a finding: the case is out of reach."""


class TooManyOutcomesError(InconclusiveError):
    """More outcomes than the caller is willing to enumerate."""


@dataclass(frozen=True)
class Decision:
    """One choice: where it was taken, the weights offered, the index taken."""

    site: Site
    weights: Array
    index: int


@dataclass(frozen=True)
class Outcome(Generic[Result]):
    """One way the choices fell: its probability, what the run returned, the decisions in order."""

    mass: Number
    result: Result
    decisions: tuple[Decision, ...]


def enumerate_outcomes(run: Callable[[Choose], Result], limit: int | None = None) -> Iterator[Outcome[Result]]:
    """Every outcome of positive probability, depth first.

    The run is repeated with a script of indices; where the script ends it takes the first positive weight, and the
    last decision with an untried positive weight is advanced for the next repetition. Weights must sum to 1.
    TooManyOutcomesError once more than `limit` have been produced.
    """
    script: list[int] | None = []
    produced = 0
    while script is not None:
        if limit is not None and produced >= limit:
            raise TooManyOutcomesError(f"more than {limit} outcomes")
        decisions: list[Decision] = []
        result = run(_following(script, decisions))
        mass: Number = 1
        for decision in decisions:
            mass = mass * decision.weights[decision.index]
        yield Outcome(mass, result, tuple(decisions))
        produced += 1
        script = _next_script(decisions)


def _following(script: list[int], decisions: list[Decision]) -> Choose:
    """choose() by a script of indices, then by the first positive weight; what it decides is appended."""

    def choose(weights: Array, site: Site) -> int:
        at = len(decisions)
        index = script[at] if at < len(script) else int(np.flatnonzero(weights)[0])
        decisions.append(Decision(site, weights, index))
        return index

    return choose


def _next_script(decisions: list[Decision]) -> list[int] | None:
    """The indices that lead to the next outcome: the last decision that can be advanced is; None if none can."""
    for at in range(len(decisions) - 1, -1, -1):
        last = decisions[at]
        later = np.flatnonzero(last.weights[last.index + 1 :])
        if len(later):
            return [d.index for d in decisions[:at]] + [last.index + 1 + int(later[0])]
    return None
