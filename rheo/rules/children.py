"""A node's surviving children, and the coin that tests a probe."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Children:
    """Surviving children of one node in each of N requests.

    anchors: int64 [N, m], the tokens of its anchor slots, -1 where the anchor did not survive.
    probe: int64 [N, 1], the probe's token, and drawn: float64 [N, 1], q~ of it; 0 and 0 without a surviving probe.
    tail: int64 [N, n], the other support tokens, and law: [N, n] in p's dtype, q~ of them; zeros without a probe.
    """

    anchors: Tensor
    probe: Tensor
    drawn: Tensor
    tail: Tensor
    law: Tensor


def accepts(p: Tensor, children: Children, coin: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """bool [N, 1]: coin < scale x p(probe) / q~(probe), for p [N, V] and coin float64 [N]. False without a probe.

    Strictly less: with <= a coin of 0 would accept a token that p rules out.
    """
    ratio = scale * p.gather(-1, children.probe) / children.drawn
    return (coin.unsqueeze(-1) < ratio) & (children.drawn > 0)
