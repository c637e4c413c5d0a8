"""The randomised probability integral transform: what makes tokens from different contexts comparable.

For a token drawn from p, the mass ranked before it plus a uniform share of its own is uniform on [0, 1), whatever p
is. So one test pools a whole run. The order of the tokens is one of `verify.orders`, and the randomiser is drawn here,
apart from the sampler's numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from verify.goodness import Evidence
from verify.orders import ORDERS, Floats, Order, mass_before

__all__ = ["ORDERS", "Floats", "Order", "kolmogorov", "mass_before", "pit_of", "transform"]


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
