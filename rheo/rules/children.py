"""A node's surviving children, and the coin that tests a probe."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rheo.distributions import inverse_cdf


@dataclass(frozen=True)
class Children:
    """Surviving children of one node in each of N requests.

    anchors: int64 [N, m], the tokens of its anchor slots, -1 where the anchor did not survive.
    probe: int64 [N, 1], the probe's token, and drawn: float64 [N, 1], q~ of it; 0 and 0 without a surviving probe.
    Where all children of a node are drawn, both are [N, w], a column a child.
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


def draw_or_refuse(chances: Tensor, rest: Tensor, tokens: Tensor, coin: Tensor) -> Tensor:
    """The tests of several children by one coin: all mass on the first that is accepted, else `rest`. Weights [N, V].

    chances: float64 [N, w], the probability of each to be accepted once those before it were refused; 0 where there is
    no child. rest: [N, V], overwritten. tokens: int64 [N, w]; coin: float64 [N].
    """
    refused = (1 - chances).cumprod(-1)
    before = torch.cat([torch.ones_like(refused[:, :1]), refused[:, :-1]], -1)
    picked = inverse_cdf(torch.cat([before * chances, refused[:, -1:]], -1), coin).unsqueeze(-1)
    accepted = picked < chances.shape[-1]
    token = tokens.gather(-1, picked.clamp(max=chances.shape[-1] - 1))
    return rest.mul_(~accepted).scatter_add_(-1, token, accepted.to(rest.dtype))
