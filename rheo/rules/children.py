"""A node's surviving children, and the coin that tests a probe."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Children:
    """Surviving children of one node in each of N requests.

    support: int64 [N, S], distinct ids; law: float64 [N, S], q~ at those ids, zero off the tail. anchor: bool
    [N, S], which of those ids are surviving anchors. probe: int64 [N, 1], its token, meaningless where has_probe:
    bool [N, 1] is false.
    """

    anchor: Tensor
    probe: Tensor
    has_probe: Tensor
    support: Tensor
    law: Tensor


def accepts(mass: Tensor, children: Children, coin: Tensor) -> Tensor:
    """bool [N, 1]: coin < mass / q~(probe), for the mass [N, 1] that the running residual puts on the probe.

    Strictly less: with <= a coin of 0 would accept a token of mass zero.
    """
    drawn = torch.where(children.support == children.probe, children.law, 0.0).sum(-1, keepdim=True)
    return children.has_probe & (coin.unsqueeze(-1) < mass.double() / drawn)
