"""The randomised probability integral transform: what makes tokens from different contexts comparable.

For a token drawn from p, the mass ranked before it plus a uniform share of its own is uniform on [0, 1), whatever p
is. So one test pools a whole run. The order of the tokens may depend on the emitted prefix alone, never on what a tree
held, on what was accepted or on how long the round was: an order here is a function of p and q after the prefix and of
nothing else, and the randomiser is drawn here, apart from the sampler's numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from verify.goodness import Evidence

Floats = NDArray[np.float64]
Order = Callable[[Floats, Floats], Floats]  # p, q [n, vocab] -> keys [n, vocab]; larger keys rank first


def by_p(p: Floats, q: Floats) -> Floats:
    """Likely tokens first."""
    return p


def by_q(p: Floats, q: Floats) -> Floats:
    """Tokens that the draft likes first: sees what a sampler owes to its draft."""
    return q


def by_ratio(p: Floats, q: Floats) -> Floats:
    """Tokens that the draft likes too little first: most rejected mass ends there."""
    return np.divide(p, q, out=np.full_like(p, np.inf), where=q > 0)


# p, q [n, vocab] -> int labels [n]: contexts that are tested apart, so that opposite faults do not cancel.
Strata = Callable[[Floats, Floats], NDArray[np.int64]]


def by_entropy(p: Floats, q: Floats) -> NDArray[np.int64]:
    """Four strata, from contexts that leave no choice (0) to those that leave any (3)."""
    share = stats.entropy(p, axis=1) / max(np.log(p.shape[1]), 1e-300)
    return np.minimum(np.asarray(share * 4).astype(np.int64), 3)


def by_agreement(p: Floats, q: Floats) -> NDArray[np.int64]:
    """Four strata by the overlap sum(min(p, q)), from disjoint (0) to equal (3)."""
    return np.minimum(np.asarray(np.minimum(p, q).sum(axis=1) * 4).astype(np.int64), 3)


STRATA: dict[str, Strata] = {"entropy": by_entropy, "agreement": by_agreement}
ORDERS: dict[str, Order] = {"p": by_p, "q": by_q, "p/q": by_ratio}


def mass_before(keys: Floats, p: Floats, tokens: NDArray[np.integer]) -> Floats:
    """The mass [n] ranked before each token [n]: larger keys first, lower ids among equals. keys, p: [n, vocab]."""
    own = np.take_along_axis(keys, tokens[:, None], axis=1)
    ids = np.arange(p.shape[1])
    before = (keys > own) | ((keys == own) & (ids < tokens[:, None]))
    return np.asarray(np.where(before, p, 0.0).sum(axis=1))


def transform(p_token: Floats, p_before: Floats, generator: np.random.Generator) -> Floats:
    """The randomised PIT [n] of tokens with probability p_token [n] and mass p_before [n] ranked before them."""
    return p_before + generator.random(len(p_token)) * p_token


def pit_of(p: Floats, q: Floats, tokens: NDArray[np.integer], order: Order, generator: np.random.Generator) -> Floats:
    """The randomised PIT of tokens [n] drawn from p [n, vocab] in the given order."""
    own = np.take_along_axis(p, tokens[:, None], axis=1)[:, 0]
    return transform(own, mass_before(order(p, q), p, tokens), generator)


def kolmogorov(pit: Floats, p_token: Floats) -> Evidence:
    """Kolmogorov-Smirnov of a randomised PIT [n] against the uniform. A token of probability 0 fails at once."""
    if np.any(p_token <= 0):
        return Evidence("impossible", float((p_token <= 0).sum()), 0.0, len(pit))
    result = stats.kstest(pit, "uniform")
    return Evidence("Kolmogorov", float(result.statistic), float(result.pvalue), len(pit))


def kolmogorov_by_stratum(
    pit: Floats, p: Floats, q: Floats, tokens: NDArray[np.integer], strata: Strata
) -> dict[int, Evidence]:
    """`kolmogorov` in each stratum of contexts; p, q: [n, vocab], tokens: [n]. Combine with `power.holm`."""
    labels = strata(p, q)
    own = np.take_along_axis(p, tokens[:, None], axis=1)[:, 0]
    return {int(label): kolmogorov(pit[labels == label], own[labels == label]) for label in np.unique(labels)}
