"""Target processors: the distribution that losslessness is measured against.

Each takes a distribution [vocab] and returns one. Order and meaning follow transformers' warpers: temperature, top-k,
top-p, min-p. Temperature is `distributions.temper`.
"""

from __future__ import annotations

import numpy as np

from reference.distributions import Array, Number, normalise


def top_k(p: Array, k: int) -> Array:
    """Keep every token at least as likely as the k-th likeliest, ties included."""
    edge = np.sort(p)[-min(k, len(p))]
    return normalise(np.where(p >= edge, p, 0 * p))


def top_p(p: Array, mass: Number) -> Array:
    """Keep the likeliest tokens, lower ids first among equals, until they hold `mass`; at least one."""
    order = np.argsort(-p, kind="stable")
    before = np.cumsum(p[order]) - p[order]
    kept = order[before < mass * p.sum()]
    rest = 0 * p
    rest[kept] = p[kept]
    return normalise(rest)


def min_p(p: Array, ratio: Number) -> Array:
    """Keep tokens at least `ratio` times as likely as the likeliest."""
    return normalise(np.where(p >= ratio * p.max(), p, 0 * p))
