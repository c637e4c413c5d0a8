"""The total order of nodes: score descending, depth ascending, slot path lexicographically ascending.

Never by token id: that depends on which token the probe is, and is lossy.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from reference.distributions import Number
from reference.tree import Node, SlotPath

# Scores that are equal in exact arithmetic differ in floats by a few units in the last place, and not by the
# same units in NumPy, torch and CUDA. Comparing them to 32 bits of mantissa keeps such ties ties. Rounding is
# monotone, so parents still rank before children and probes before fillers.
DROPPED_BITS = 20


def comparable(score: Number) -> Fraction | int:
    """What two scores are compared by: a Fraction itself, the leading bits of a non-negative float64."""
    if isinstance(score, Fraction):
        return score
    bits = int(np.float64(score).view(np.int64))
    return (bits + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS


def total_order(node: Node) -> tuple[Fraction | int, int, SlotPath]:
    """Sort key: smaller ranks first."""
    return (-comparable(node.score), node.depth, node.path)
