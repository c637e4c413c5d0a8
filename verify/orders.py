"""The orders that tokens may be ranked in, and the mass ranked before a token. Light: NumPy and nothing else.

The order may depend on the emitted prefix alone, never on what a tree held, on what was accepted or on how long the
round was: an order here is a function of p and q after the prefix and of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

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


ORDERS: dict[str, Order] = {"p": by_p, "q": by_q, "p/q": by_ratio}


def mass_before(keys: Floats, p: Floats, tokens: NDArray[np.integer]) -> Floats:
    """The mass [n] ranked before each token [n]: larger keys first, lower ids among equals. keys, p: [n, vocab]."""
    own = np.take_along_axis(keys, tokens[:, None], axis=1)
    ids = np.arange(p.shape[1])
    before = (keys > own) | ((keys == own) & (ids < tokens[:, None]))
    return np.asarray(np.where(before, p, 0.0).sum(axis=1))
