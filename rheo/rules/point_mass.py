"""EAGLE-2/3's rule: every child is a point mass.

Source: the verification of EAGLE (Li et al., 2024) at a deterministic proposal.
"""

from __future__ import annotations

from torch import Tensor

from rheo.rules.children import Children


def single_draw(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    """p itself, [N, V]: a child is accepted when the target's own draw is its token. There must be no probe."""
    return p
