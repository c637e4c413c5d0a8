"""K-SEQ: siblings drawn from the same law, each accepted with probability min(1, p / (rho q)).

Source: SpecTr (Sun et al., 2023). With beta = sum of min(p / rho, q) one of K siblings is accepted with probability
c = 1 - (1 - beta)^K, and what is due beside it is p - min(p / rho, q) c / beta: not negative if c <= rho beta. The
least such rho accepts most, but is irrational; any larger one is as lossless, so it is rounded up, to a multiple of
2^-20. That costs less than K 2^-20 of c. In floats 1 - beta and 1 - rho beta are summed as what p and q leave of each
other: where p equals q, the K-th root of a rounding error would be felt.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rheo.distributions import remainder
from rheo.rules.children import Children, draw_or_refuse

STEPS = 1 << 20  # of rho, in 1

# A probability that may be divided by.
_TINY = 1e-300


def single_draw(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    """All mass on the child that the coin picks; on none, what is due beside all of them.

    p: [N, V]; coin: float64 [N], one for all tests of a node.
    """
    inside, law = p.gather(-1, children.tail).double(), children.law.double()
    exists = children.drawn > 0
    count = exists.sum(-1, keepdim=True)
    outside = p.scatter(-1, children.tail, 0.0).sum(-1, keepdim=True, dtype=torch.float64)
    rho = factor(inside, outside, law, count, children.probe.shape[-1])
    ratio = p.gather(-1, children.probe) / (rho * children.drawn)
    taken = torch.minimum(inside / rho, law)
    accepted = 1 - _refused(inside, law, count, rho)
    due = remainder(inside, taken * (accepted / taken.sum(-1, keepdim=True).clamp(min=_TINY)))
    rest = p.scatter(-1, children.tail, due.to(p.dtype))
    return draw_or_refuse(torch.where(exists, ratio.clamp(max=1.0), 0.0), rest, children.probe, coin)


def factor(inside: Tensor, outside: Tensor, law: Tensor, count: Tensor, most: int) -> Tensor:
    """float64 [N, 1]: the least rho in [1, count] that is a multiple of 2^-20 and lossless.

    inside, law: float64 [N, S], p and q of the support; outside: float64 [N, 1], the rest of p. count: int64 [N, 1],
    children, at most `most`.
    """
    low, high = torch.full_like(count, STEPS - 1), count.clamp(min=1) * STEPS
    for _ in range((most * STEPS).bit_length()):
        middle = (low + high) // 2
        rho = middle.clamp(min=STEPS) / STEPS
        beyond = outside + (inside - rho * law).clamp(min=0.0).sum(-1, keepdim=True)
        enough = (_refused(inside, law, count, rho) >= beyond) & (middle > low)
        high = torch.where(enough, middle, high)
        low = torch.where(enough | (high - low <= 1), low, middle)
    return high / STEPS


def _refused(inside: Tensor, law: Tensor, count: Tensor, rho: Tensor) -> Tensor:
    """1 - c, float64 [N, 1]: how likely all of `count` draws are refused."""
    return (law - inside / rho).clamp(min=0.0).sum(-1, keepdim=True) ** count
