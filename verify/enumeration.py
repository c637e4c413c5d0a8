"""Run a function of `choose` once for every way its choices can fall."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from reference.choose import Choose, Site
from reference.distributions import Array, Number

Result = TypeVar("Result")


class TooManyOutcomes(RuntimeError):
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
    TooManyOutcomes once more than `limit` have been produced.
    """
    script: list[int] = []
    produced = 0
    while True:
        decisions: list[Decision] = []

        def choose(weights: Array, site: Site, decisions: list[Decision] = decisions) -> int:
            at = len(decisions)
            index = script[at] if at < len(script) else int(np.flatnonzero(weights)[0])
            decisions.append(Decision(site, weights, index))
            return index

        result = run(choose)
        mass: Number = 1
        for decision in decisions:
            mass = mass * decision.weights[decision.index]
        yield Outcome(mass, result, tuple(decisions))
        produced += 1
        while decisions:
            last = decisions.pop()
            later = np.flatnonzero(last.weights[last.index + 1 :])
            if len(later):
                script = [d.index for d in decisions] + [last.index + 1 + int(later[0])]
                break
        else:
            return
        if limit is not None and produced >= limit:
            raise TooManyOutcomes(f"more than {limit} outcomes")
