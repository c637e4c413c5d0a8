"""What is counted of a trial, and the tests that are due at a look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from verify.battery import Trial
from verify.goodness import PAIRINGS, Evidence, is_full, joint_test, pairs_independent, too_even
from verify.plan import Law, Plan
from verify.power import holm
from verify.shards import LEAST_DIGESTED, Counts, Pit


@dataclass(frozen=True)
class Tally:
    """`Counts` of a trial added up. digests, emitted (tokens, rounds): by shard number."""

    cells: NDArray[np.int64]
    pairs: NDArray[np.int64]
    digests: Mapping[int, str] = field(default_factory=dict)
    emitted: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    pit: Mapping[str, Pit] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        return int(self.cells.sum())


def empty(trial: Trial) -> Tally:
    """Nothing counted yet."""
    k = trial.cells
    return Tally(np.zeros(k, dtype=np.int64), np.zeros((len(PAIRINGS), k, k), dtype=np.int64))


def added(tally: Tally, counts: Counts) -> Tally:
    """A tally with one more shard; their order does not matter."""
    emitted = {counts.number: (counts.tokens, counts.rounds)} if counts.rounds else {}
    return Tally(
        cells=tally.cells + counts.cells,
        pairs=tally.pairs + counts.pairs,
        digests={**tally.digests, counts.number: counts.digest},
        emitted={**tally.emitted, **emitted},
        pit=counts.pit or tally.pit,
    )


@dataclass(frozen=True)
class Ruling:
    """One test of a trial (its place in the plan) at a look. alpha: its family's share at that look."""

    trial: int
    family: str
    look: int
    evidence: Evidence
    alpha: float
    rejected: bool


def look_at(plan: Plan, tallies: Sequence[Tally], look: int) -> list[Ruling]:
    """Every test that is due at a look; in each family Holm's step-down runs over the trials."""
    found = []
    for family, tests in {"joint": joint_tests, "independence": independence_tests, "pit": pit_tests}.items():
        alpha = plan.alpha(family, look)
        if alpha > 0:
            vocab = [trial.toy.vocab for trial in plan.trials]
            each = [(i, e) for i, tally in enumerate(tallies) for e in tests(tally, plan.laws[i], vocab[i])]
            rejected = holm([evidence.p_value for _, evidence in each], alpha)
            found += [Ruling(i, family, look, e, alpha, r) for (i, e), r in zip(each, rejected, strict=True)]
    return found


def joint_tests(tally: Tally, law: Law, vocab: int) -> list[Evidence]:
    """The one test of whole sequences that there are samples for."""
    return [joint_test(tally.cells, law)]


def independence_tests(tally: Tally, law: Law, vocab: int) -> list[Evidence]:
    """Pairs of rows against the square of the law, counts that are too even, shards that begin the same."""
    shards = len(tally.digests)
    repeated = shards - len(set(tally.digests.values()))
    # n independent first tokens are the same in two shards with probability (sum of p^2)^n.
    first = law.reshape(vocab, -1).sum(axis=1)
    chance = shards**2 * min(1.0, float((first**2).sum())) ** LEAST_DIGESTED
    same = Evidence("repeated shards", float(repeated), min(1.0, chance) if repeated else 1.0, tally.samples)
    met = zip(PAIRINGS, tally.pairs, strict=True)
    pairs = [pairs_independent(pairs, law, pairing) for pairing, pairs in met if pairs.any()]
    return [*pairs, *([too_even(tally.cells, law)] if is_full(tally.samples, law) else []), same]


def pit_tests(tally: Tally, law: Law, vocab: int) -> list[Evidence]:
    """Kolmogorov's test of the randomised PIT of the first shard, one an order."""
    return [Evidence(f"Kolmogorov by {name}", p.statistic, p.p_value, p.tokens) for name, p in tally.pit.items()]
