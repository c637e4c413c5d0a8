"""The only source of randomness: choose(weights, site) returns an index.

One implementation samples, one reads given uniforms, and the enumerator in `verify` tries every index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from reference.distributions import Array, Number


class Site(NamedTuple):
    """Which decision of a round is taken: "probe" (depth, rank of the parent), "coin" or "draw" (depth).

    A rule for the whole tree takes "stop" in place of the first coin, then the first draw. A tree of fixed shape takes
    "node" (0, place in the shape) in place of "probe".
    """

    name: str
    depth: int
    rank: int = 0


Choose = Callable[[Array, Site], int]


def inverse_cdf(weights: Array, uniform: Number) -> int:
    """The first index whose cumulative weight exceeds uniform x total, uniform in [0, 1); weights [n].

    An index of zero weight is never returned, also when rounding lifts uniform x total up to the total.
    """
    cumulative = np.cumsum(weights)
    passed = int(np.count_nonzero(cumulative <= uniform * cumulative[-1]))
    last = int(np.flatnonzero(weights)[-1])
    return min(passed, last)


def sampling(generator: np.random.Generator) -> Choose:
    """choose() by fresh random numbers."""
    return lambda weights, site: inverse_cdf(weights, generator.random())


def reading(uniforms: Mapping[Site, float]) -> Choose:
    """choose() by the uniform given for each site; KeyError names a site that was not given."""
    return lambda weights, site: inverse_cdf(weights, uniforms[site])


def bernoulli(probability: Number, choose: Choose, site: Site) -> bool:
    """True with the given probability, false otherwise: u < probability, never u <= probability."""
    return choose(np.array([probability, 1 - probability]), site) == 0
