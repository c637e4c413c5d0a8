"""The total order of nodes: score descending, depth ascending, slot path lexicographically ascending.

Never by token id, nor by what a top-k kernel does with ties: both depend on which token the probe is, and are lossy.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rheo.config import POSITION_BITS

# Scores that are equal in exact arithmetic differ in floats by a few units in the last place, and not by the
# same units in NumPy, torch and CUDA. Comparing them to 32 bits of mantissa keeps such ties ties. Rounding is
# monotone, so parents still rank before children and probes before fillers.
DROPPED_BITS = 20
assert POSITION_BITS <= DROPPED_BITS  # the position takes the place of the dropped bits


def ranking_keys(scores: Tensor, positions: Tensor, occupied: Tensor) -> Tensor:
    """One int64 per node whose descending order is the total order; -1 where the slot is not occupied.

    scores: float64 >= 0. positions: int64, distinct, ascending by (depth, slot path), below 2**POSITION_BITS.
    All shapes broadcast.
    """
    rounded = (scores.view(torch.int64) + (1 << (DROPPED_BITS - 1))) & -(1 << DROPPED_BITS)
    return torch.where(occupied, rounded - positions + ((1 << POSITION_BITS) - 1), -1)


def dense_ranks(values: Tensor) -> Tensor:
    """The rank 0, 1, ... of each of the distinct values [..., n] within its row."""
    return (values.unsqueeze(-1) > values.unsqueeze(-2)).sum(-1)
