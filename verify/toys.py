"""Toy pairs of models over small vocabularies, given by integer weights."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from reference.distributions import Array, exact

_SMALLEST = math.ulp(0.0)

Tokens = tuple[int, ...]
Weights = tuple[int, ...]


@dataclass(frozen=True)
class Table:
    """One model: untempered integer weights by prefix; a prefix that is not listed takes the default."""

    default: Weights
    listed: Mapping[Tokens, Weights]

    def weights(self, prefix: Tokens) -> Weights:
        return self.listed.get(prefix, self.default)

    def exact(self, prefix: Tokens) -> Array:
        """Weights [vocab] as Fractions. Arrays are shared between calls: do not write into them."""
        weights = self.weights(prefix)
        if weights not in self._exact:
            self._exact[weights] = exact(weights)
        return self._exact[weights]

    def floats(self, prefix: Tokens) -> NDArray[np.float64]:
        """Weights [vocab] relative to the largest, in float64; 0 for 0 alone."""
        weights = self.weights(prefix)
        return np.array([max(w / max(weights), _SMALLEST) if w else 0.0 for w in weights])

    @cached_property
    def _exact(self) -> dict[Weights, Array]:
        return {}

    def logits(self, prefix: Tokens) -> NDArray[np.float64]:
        """log(weights / largest weight) [vocab] in float64, -inf where the weight is 0."""
        return log_weights(self.weights(prefix))


@dataclass(frozen=True)
class Toy:
    """A target p and a draft q over the same vocabulary."""

    vocab: int
    target: Table
    draft: Table

    def p(self, prefixes: NDArray[np.integer]) -> NDArray[np.float64]:
        """Untempered target probabilities [n, vocab] after prefixes [n, t]."""
        return _probabilities(self.target, prefixes)

    def q(self, prefixes: NDArray[np.integer]) -> NDArray[np.float64]:
        """Untempered draft probabilities [n, vocab] after prefixes [n, t]."""
        return _probabilities(self.draft, prefixes)


def log_weights(weights: Weights) -> NDArray[np.float64]:
    """log(weights / largest weight) of integers of any size; -inf for 0 alone."""
    largest = max(weights)
    return np.array([_log_ratio(w, largest) if w else -np.inf for w in weights])


def _log_ratio(weight: int, largest: int) -> float:
    ratio = weight / largest
    # A quotient that leaves the range of floats still has a logarithm.
    return math.log(ratio) if ratio > sys.float_info.min else math.log(weight) - math.log(largest)


def _probabilities(table: Table, prefixes: NDArray[np.integer]) -> NDArray[np.float64]:
    rows = [table.weights(tuple(int(t) for t in prefix)) for prefix in prefixes]
    return np.array([[w / sum(row) for w in row] for row in rows], dtype=np.float64).reshape(len(rows), -1)
