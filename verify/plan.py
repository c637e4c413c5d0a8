"""How much to sample and when to look, decided before the first sample, so that a verdict has error rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verify.battery import Trial
from verify.goodness import LEAST_EXPECTED, is_full
from verify.joint import joint_law
from verify.power import chi_square_detectable, chi_square_samples, tv_gate_detectable, tv_gate_samples
from verify.shards import Shard, trial_temperature
from verify.subjects import Factory

Law = NDArray[np.float64]

# Gross faults show within few samples, and then the rest need not be drawn: each early look takes a small share of
# alpha, the last one what is left.
EARLY_LOOKS = (512, 4_096, 32_768, 262_144)
EARLY_SHARE = 0.02
FAMILIES = {"joint": 0.9, "independence": 0.05, "pit": 0.05}
LARGEST_SHARD = 65_536
MOST_CELLS = 64


@dataclass(frozen=True)
class Claims:
    """What a verdict of lossless claims: no trial deviates by a total variation of tv or more.

    alpha: the probability that a right sampler is called lossy; beta: that one which deviates so much is not.
    """

    tv: float = 5e-3
    alpha: float = 1e-9
    beta: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("tv", "alpha", "beta"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Plan:
    """A sampler on some trials. laws: the joint law of each; sizes: the samples of each at every look, growing."""

    sampler: str | Factory
    trials: tuple[Trial, ...]
    laws: tuple[Law, ...]
    sizes: tuple[tuple[int, ...], ...]
    claims: Claims
    seed: int

    @property
    def looks(self) -> int:
        return len(self.sizes[0])

    @property
    def sequences(self) -> int:
        return sum(sizes[-1] for sizes in self.sizes)

    def alpha(self, family: str, look: int) -> float:
        """What a family's tests at a look may reject a right sampler with, all trials together."""
        if family == "pit":  # of the first shards alone
            return self.claims.alpha * FAMILIES[family] if look == 0 else 0.0
        last = look == self.looks - 1
        return self.claims.alpha * FAMILIES[family] * (1 - EARLY_SHARE * look if last else EARLY_SHARE)


def planned(
    sampler: str | Factory,
    trials: Iterable[Trial],
    claims: Claims,
    seed: int,
    sizes: tuple[tuple[int, ...], ...] | None = None,
) -> Plan:
    """The plan that finds a total variation of claims.tv on each trial; sizes: those of a plan to be repeated.

    ValueError for a trial of too many cells.
    """
    each = tuple(trials)
    for trial in each:
        if trial.cells > MOST_CELLS:
            raise ValueError(
                f"{trial.name}: {trial.cells} cells of whole sequences, at most {MOST_CELLS} can be tested"
            )
    laws = tuple(joint_law(trial.toy, trial_temperature(trial.settings), trial.length) for trial in each)
    if sizes is not None:
        return Plan(sampler, each, laws, sizes, claims, seed)
    # The last look's share if all early looks are taken, and Holm's first step.
    share = claims.alpha * FAMILIES["joint"] * (1 - EARLY_SHARE * len(EARLY_LOOKS)) / len(each)
    last = [needed(law, replace(claims, alpha=share)) for law in laws]
    early = [size for size in EARLY_LOOKS if size < max(last)]
    return Plan(sampler, each, laws, tuple((*(min(n, most) for n in early), most) for most in last), claims, seed)


def needed(law: Law, claims: Claims) -> int:
    """Samples with which the joint test finds claims.tv: chi-square where its cells are full enough, else the gate."""
    possible = law[law > 0]
    if len(possible) < 2:  # every deviation is a sequence that cannot be
        return math.ceil(math.log(claims.beta) / math.log1p(-claims.tv))
    gate = tv_gate_samples(claims.tv, claims.alpha, claims.beta, len(possible))
    full = math.ceil(LEAST_EXPECTED / float(possible.min())) + 1  # rounding must not leave a cell just short
    return min(gate, max(full, chi_square_samples(claims.tv, claims.alpha, claims.beta, len(possible))))


def detectable(law: Law, samples: int, alpha: float, beta: float) -> float:
    """The total variation that the joint test finds with so many samples; 1 with none."""
    possible = law[law > 0]
    if samples == 0:
        return 1.0
    if len(possible) < 2:
        return float(-np.expm1(math.log(beta) / samples))
    found = tv_gate_detectable(samples, alpha, beta, len(possible))
    if is_full(samples, law):
        found = min(found, chi_square_detectable(samples, alpha, beta, len(possible)))
    return min(found, 1.0)


def shards_of(plan: Plan, look: int) -> Iterator[Shard]:
    """The shards between the look before and this one, the trials in turn."""
    queues = [_shards(plan, trial, look) for trial in range(len(plan.trials))]
    for k in range(max(len(queue) for queue in queues)):
        yield from (queue[k] for queue in queues if k < len(queue))


def _shards(plan: Plan, trial: int, look: int) -> list[Shard]:
    number, found = 0, []
    for i, (low, high) in enumerate(pairwise((0, *plan.sizes[trial][: look + 1]))):
        for start in range(low, high, LARGEST_SHARD):
            if i == look:
                size = min(LARGEST_SHARD, high - start)
                found.append(Shard(plan.sampler, plan.trials[trial], trial, number, size, plan.seed))
            number += 1
    return found


def with_settings(trials: Iterable[Trial], settings: dict[str, Any]) -> tuple[Trial, ...]:
    """Trials whose samplers are given further settings, which replace their own."""
    return tuple(replace(trial, settings={**trial.settings, **settings}) for trial in trials)
