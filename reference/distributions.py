"""Operations on distributions: normalise, temper, residual. p is the target's, q the draft's."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A Fraction or a float; Any, because arithmetic that mixes the two is what one code path for both is about.
Number = Any
Array = NDArray[Any]  # float64, or object holding Fractions


def exact(weights: object) -> Array:
    """Integers (or Fractions) as an array of Fractions, the same shape."""
    source = np.asarray(weights, dtype=object)
    result = np.empty(source.shape, dtype=object)
    for index, value in np.ndenumerate(source):
        result[index] = Fraction(value)
    return result


def normalise(weights: Array) -> Array:
    """Weights [n] divided by their sum; ValueError if the sum is not positive."""
    total = weights.sum()
    if not total > 0:
        raise ValueError("weights sum to zero")
    normalised: Array = weights / total
    return normalised


def temper(weights: Array, temperature: Number) -> Array:
    """The distribution [n] proportional to weights ** (1/T); T = 0 puts all mass on the first maximum.

    Dividing by the maximum first keeps a float tail alive that would underflow beside likelier tokens.
    ValueError if weights are Fractions and 1/T is not an integer: the result would be irrational.
    """
    if temperature == 0:
        point = weights * 0
        point[int(np.argmax(weights))] = 1 + point[0]
        return point
    if temperature == 1:
        return normalise(weights)
    power: Number | int = 1 / temperature
    if weights.dtype == object:
        if Fraction(power).denominator != 1:
            raise ValueError(f"temperature {temperature} is irrational in exact arithmetic: 1/T must be an integer")
        power = int(power)
    else:
        power = float(power)
    return normalise((weights / weights.max()) ** power)


def residual(p: Array, q: Array) -> Array:
    """What a rejected draw from q leaves of p: proportional to max(0, p - q), both [n].

    Where rounding leaves nothing, p itself: a rejection then had probability zero up to rounding.
    """
    rest = np.maximum(p - q, 0 * p)
    return normalise(rest) if rest.sum() > 0 else p


def without(p: Array, token: int) -> Array:
    """p [n] after a point mass on `token` was rejected: zero there, renormalised (p itself if nothing is left)."""
    rest = p.copy()
    rest[token] = 0 * rest[token]
    return normalise(rest) if rest.sum() > 0 else p
