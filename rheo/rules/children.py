"""A node's surviving children, and the coin that tests a probe."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Children:
    """Surviving children of one node in each of N requests.

    anchors: int64 [N, m], the tokens of its anchor slots, and alive: bool [N, m], which of them survived.
    probe: int64 [N, 1], the probe's token, or -1 without a surviving probe.
    tail: int64 [N, n], the other support tokens, and law: float64 [N, n], q~ of them; zeros without a probe.
    """

    anchors: Tensor
    alive: Tensor
    probe: Tensor
    tail: Tensor
    law: Tensor


def accepts(p: Tensor, children: Children, coin: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """bool [N, 1]: coin < scale x p(probe) / q~(probe), for p [N, V] and coin float64 [N]. False without a probe.

    Strictly less: with <= a coin of 0 would accept a token that p rules out.
    """
    drawn = children.tail == children.probe
    law = torch.where(drawn, children.law, 0.0).sum(-1, keepdim=True)
    mass = torch.where(drawn, p.gather(-1, children.tail), 0.0).sum(-1, keepdim=True, dtype=torch.float64)
    return coin.unsqueeze(-1) < scale * mass / law  # 0 / 0 is NaN, which nothing is less than
