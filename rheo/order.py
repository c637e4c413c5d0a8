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


LAST_POSITION = (1 << POSITION_BITS) - 1


def ranking_keys(scores: Tensor, behind: Tensor, occupied: Tensor) -> Tensor:
    """One int64 per node whose descending order is the total order; -1 where the slot is not occupied.

    scores: float64 >= 0. behind: int64 in 0..LAST_POSITION, distinct, falling with (depth, slot path).
    """
    return torch.where(occupied, comparable(scores) + behind, -1)


def comparable(scores: Tensor) -> Tensor:
    """int64: what scores, float64 >= 0, are compared by."""
    return (scores.view(torch.int64) + (1 << (DROPPED_BITS - 1))) & -(1 << DROPPED_BITS)


def ranks_of(behind: Tensor) -> Tensor:
    """How many of the distinct values [..., n] of a row are larger: the rank 0, 1, ... by (depth, slot path)."""
    return (behind.unsqueeze(-1) < behind.unsqueeze(-2)).sum(-1)
