"""Joint sequences as cells: the law of whole sequences of fixed length, and counts of sampled ones.

Cells are never conditioned on how many tokens a round emitted: that depends on acceptance, and so would the law.
"""

from __future__ import annotations

from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reference.distributions import temper


class Toy(Protocol):
    """All that a sampler under test may see of a toy: its size, and untempered p and q after prefixes [n, t]."""

    @property
    def vocab(self) -> int: ...

    def p(self, prefixes: NDArray[np.integer]) -> NDArray[np.float64]: ...

    def q(self, prefixes: NDArray[np.integer]) -> NDArray[np.float64]: ...


def prefixes(vocab: int, length: int) -> NDArray[np.int64]:
    """Every sequence of `length` tokens, int64 [vocab ** length, length], in lexicographic order."""
    return np.array(list(product(range(vocab), repeat=length)), dtype=np.int64).reshape(vocab**length, length)


def joint_law(toy: Toy, temperature: float, length: int) -> NDArray[np.float64]:
    """The target's probability of every sequence of `length` tokens, [vocab ** length], in lexicographic order."""
    law = np.ones(1)
    for t in range(length):
        rows = np.stack([temper(row, temperature) for row in toy.p(prefixes(toy.vocab, t))])
        law = (law[:, None] * rows).ravel()
    return law


def count_cells(samples: NDArray[np.integer], vocab: int) -> NDArray[np.int64]:
    """How often each sequence of samples [n, length] occurs, [vocab ** length], in the order of `joint_law`."""
    return np.bincount(cell_of(samples, vocab), minlength=vocab ** samples.shape[1])


def cell_of(samples: NDArray[np.integer], vocab: int) -> NDArray[np.int64]:
    """The cell of each row of samples [n, length]. ValueError for another shape or dtype, or ids out of range."""
    if samples.ndim != 2 or not np.issubdtype(samples.dtype, np.integer):
        raise ValueError(f"samples must be integers [n, length], got {samples.dtype} {list(samples.shape)}")
    if samples.size and not 0 <= samples.min() <= samples.max() < vocab:
        raise ValueError(f"samples hold ids outside 0..{vocab - 1}")
    cells = np.zeros(len(samples), dtype=np.int64)
    for column in samples.T:
        cells = cells * vocab + column
    return cells
