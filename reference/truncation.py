"""Draft truncation: the likeliest S tokens, sorted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference.distributions import Array, Number, normalise

# Far enough above the smallest float for a normalised weight to stay positive.
_SMALLEST = 1e-300


@dataclass(frozen=True)
class Draft:
    """A truncated draft distribution: x_1, x_2, ... by (q descending, token id ascending).

    tokens: int64 [n]; q: [n], untempered, sums to 1. n <= support; tokens with q = 0 are absent. depth and
    score: of the node that they follow, 0 and 1 for the root.
    """

    tokens: Array
    q: Array
    depth: int = 0
    score: Number = 1


def truncate(weights: Array, support: int | None, depth: int = 0, score: Number = 1) -> Draft:
    """Keep the `support` likeliest tokens of draft weights [vocab]; ties at the edge keep the lower ids."""
    order = np.argsort(-weights, kind="stable")[:support]
    tokens = order[weights[order] > 0]
    return Draft(tokens, normalise(weights[tokens]), depth, score)


def weights_from_logits(logits: Array) -> Array:
    """float64 weights [n] of logits [n], the largest 1; only -inf becomes 0.

    What underflows stays positive, but all of it is the same: floats hold no weights below that.
    """
    shifted = logits.astype(np.float64) - logits.max()
    return np.where(np.isneginf(shifted), 0.0, np.maximum(np.exp(shifted), _SMALLEST))
