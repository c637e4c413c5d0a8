"""The four tiers, each asked of one mutant: does it see the fault, and after how many rounds?

The exact and the parity tier play single rounds under uniforms of their own choice. The statistical and the sequential
tier see a subject and nothing behind it. All of them use the toys of the battery, fixed seeds, and stop once they know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from reference.distributions import temper
from verify import eprocess
from verify.battery import BATTERY, Trial
from verify.cases import Case
from verify.goodness import Evidence, independent_rows, joint_test
from verify.joint import cell_of, joint_law, prefixes
from verify.laws import target_of, total_variation
from verify.mutants.mutant import Mutant
from verify.parity import Expected, boundary_rows, toy_disagreements, toy_rounds
from verify.pit import ORDERS, mass_before
from verify.precision import PRECISIONS
from verify.subjects import Samples, config_of
from verify.torch_law import measure

ALPHA = 1e-9  # of the statistical tier, all looks and trials together; of the sequential one, for its lifetime
_ROWS = (12, 24, 512)  # rows of uniforms a case, look after look: the ends of all decisions, then random ones
_FIRST, _SECOND, _LAST = 4_096, 32_768, 262_144  # sequences a trial; the last look is at one trial alone
_STREAM, _TURNS = 512, 8  # sequences a trial before the next one's turn, and turns of each

_BY_NAME = {trial.name: trial for trial in BATTERY}


@dataclass(frozen=True)
class Finding:
    """What a tier says of a mutant. rounds: played until then. detail: what it saw first; empty if nothing."""

    caught: bool
    rounds: int
    seconds: float
    detail: str


Answer = tuple[int, str]  # rounds played, and what was seen


@cache
def cases() -> tuple[Case, ...]:
    """The battery's toys as cases, for the tiers that play single rounds."""
    return tuple(Case(trial.name, trial.toy, config_of(trial.settings)) for trial in BATTERY)


def _exact(mutant: Mutant) -> Answer:
    """The torch code driven through every class and cell."""
    precision, rounds = PRECISIONS["float64"], 0
    for case in cases():
        measured = measure(case, mutant.method, precision, play=mutant.play)
        rounds += measured.rounds
        if measured.faults:
            return rounds, f"{case.name}: {measured.faults[0]}"
        tv = float(total_variation(measured.law, target_of(case), case.config.depth + 1))
        if tv > precision.lossless:
            return rounds, f"{case.name}: TV {tv:.1e}"
    return rounds, ""


def _parity(mutant: Mutant) -> Answer:
    """Torch and reference under the same uniforms, the boundary rows first."""
    rounds = 0
    for look in range(len(_ROWS)):
        for number, case in enumerate(cases()):
            numbers, expected = _reference(mutant.method, look, number)
            rounds += len(numbers)
            found = toy_disagreements(case, mutant.method, PRECISIONS["float64"], numbers, expected, mutant.play)
            if found:
                return rounds, f"{case.name}: {found[0]}"
    return rounds, ""


@cache
def _reference(method: str, look: int, number: int) -> tuple[NDArray[np.float64], list[Expected]]:
    """A look's uniforms for one of the cases, and the reference's rounds: the same for every mutant of a method."""
    case, random = cases()[number], np.random.default_rng((look, number))
    numbers = random.random((_ROWS[look], case.config.decisions)) if look else boundary_rows(case.config)
    return numbers, toy_rounds(case, method, PRECISIONS["float64"], numbers)


def _statistical(mutant: Mutant) -> Answer:
    """Whole sequences against the target's law, and neighbours against its square.

    Every trial with few samples, then with more; then many for the trial that looked worst, which may be chosen by the
    samples before because its own are fresh. Each look has a third of alpha, split over its tests.
    """
    rounds = 0
    worst: list[tuple[float, Trial]] = [(0.0, trial) for trial in BATTERY]
    for look, (count, trials) in enumerate([(_FIRST, len(BATTERY)), (_SECOND, len(BATTERY)), (_LAST, 1)]):
        looked: list[tuple[float, Trial]] = []
        for _, trial in worst[:trials]:
            samples, played = _sampled(mutant, trial, count, look)
            rounds += played
            found = _evidence(trial, samples)
            level = ALPHA / 3 / (trials * len(found))
            for evidence in found:
                if evidence.p_value <= level:
                    return rounds, f"{trial.name}: {evidence.test} {evidence.statistic:.3g}, p = {evidence.p_value:.1e}"
            looked.append((found[0].p_value, trial))
        worst = sorted(looked, key=lambda pair: pair[0])
    return rounds, ""


def _sampled(mutant: Mutant, trial: Trial, count: int, look: int) -> tuple[Samples, int]:
    """Sequences of a trial and the rounds that they took, from a seed of the look's own."""
    seed = int(np.random.SeedSequence((look, BATTERY.index(trial))).generate_state(1)[0])
    samples, emitted = mutant.subject(trial.settings).rounds(trial.toy, trial.length, count, seed)
    return samples, int((emitted > 0).sum())


def _evidence(trial: Trial, samples: Samples) -> list[Evidence]:
    """The joint test that the samples allow, and the independence of rows."""
    law, cells = _law(trial.name), cell_of(samples, trial.toy.vocab)
    counts = np.bincount(cells, minlength=len(law))
    return [joint_test(counts, law), independent_rows(cells, law)]


@cache
def _law(name: str) -> NDArray[np.float64]:
    trial = _BY_NAME[name]
    return joint_law(trial.toy, float(config_of(trial.settings).temperature), trial.length)


def _sequential(mutant: Mutant) -> Answer:
    """The e-process on the randomised PIT, over one stream that takes the trials in turn; alpha split over orders."""
    states = dict.fromkeys(ORDERS, eprocess.State())
    generator, rounds = np.random.default_rng(0), 0
    for turn in range(_TURNS):
        for trial in BATTERY:
            samples, played = _sampled(mutant, trial, _STREAM, turn)
            rounds += played
            for order, state in states.items():
                own, before = _ranked(trial.name, order)
                place = _prefix_numbers(samples, trial.toy.vocab).ravel(), samples.ravel()
                if (own[place] == 0).any():
                    return rounds, f"{trial.name}: a token of probability 0"
                pit = before[place] + generator.random(samples.size) * own[place]
                states[order] = eprocess.update(state, np.minimum(pit, 1.0))
                if states[order].rejects(ALPHA / len(ORDERS)):
                    return rounds, f"{trial.name}: evidence e^{states[order].log_peak:.0f} in the order of {order}"
    return rounds, ""


def _prefix_numbers(samples: Samples, vocab: int) -> NDArray[np.int64]:
    """Numbers of the prefixes before every token [n, length]: the empty one is 0, s followed by t is s V + t + 1."""
    numbers = np.zeros_like(samples)
    for t in range(1, samples.shape[1]):
        numbers[:, t] = numbers[:, t - 1] * vocab + samples[:, t - 1] + 1
    return numbers


@cache
def _ranked(name: str, order: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The probability of every token after every prefix, by its number, and the mass ranked before it."""
    trial = _BY_NAME[name]
    vocab, temperature = trial.toy.vocab, float(config_of(trial.settings).temperature)
    levels = [prefixes(vocab, n) for n in range(trial.length)]
    p, q = (
        np.stack([temper(row, temperature) for level in levels for row in model(level)])
        for model in (trial.toy.p, trial.toy.q)
    )
    keys = ORDERS[order](p, q)
    return p, np.stack([mass_before(keys, p, np.full(len(p), token)) for token in range(vocab)], 1)


# In the order in which tiers that need equally many rounds are preferred.
TIERS: dict[str, Callable[[Mutant], Answer]] = {
    "exact": _exact,
    "parity": _parity,
    "statistical": _statistical,
    "sequential": _sequential,
}


def ask(tier: str, mutant: Mutant) -> Finding:
    """What one of TIERS says of a mutant."""
    started = time.perf_counter()
    rounds, detail = TIERS[tier](mutant)
    return Finding(bool(detail), rounds, time.perf_counter() - started, detail)


def cheapest(findings: dict[str, Finding]) -> str | None:
    """The tier that saw a fault after the fewest rounds; None if none did."""
    caught = [tier for tier in TIERS if findings[tier].caught]
    return min(caught, key=lambda tier: findings[tier].rounds, default=None)
