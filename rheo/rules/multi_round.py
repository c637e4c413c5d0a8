"""Multi-round rejection: siblings drawn one after the other, each tested against what the refusals before it left.

Each is tested with the law that it was drawn from, given its earlier siblings: q itself where tokens may repeat, what
is left of q where they may not. Source: SpecInfer (Miao et al., 2023) for the former; recursive rejection sampling
(Jeon et al., 2024; Sequoia, Chen et al., 2024) for the latter.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rheo.distributions import remainder
from rheo.rules.children import Children, draw_or_refuse


def independent(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    """Children that were drawn with replacement. p: [N, V]; coin: float64 [N], one for all tests of a node."""
    return _single_draw(p, children, coin, repeats=True)


def distinct(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    """Children that were drawn without replacement. p: [N, V]; coin: float64 [N], one for all tests of a node."""
    return _single_draw(p, children, coin, repeats=False)


def _single_draw(p: Tensor, children: Children, coin: Tensor, repeats: bool) -> Tensor:
    """All mass on the child that the coin picks; on none, what all refusals together leave of p.

    Only the support's tokens change: `inside` is theirs, in a scale in which all of p is `total`.
    """
    inside, law = p.gather(-1, children.tail).double(), children.law.double()
    outside = p.scatter(-1, children.tail, 0.0).sum(-1, keepdim=True, dtype=torch.float64)
    chances = []
    for token, drawn in zip(children.probe.unbind(-1), children.drawn.unbind(-1), strict=True):
        exists = drawn.unsqueeze(-1) > 0
        total = outside + inside.sum(-1, keepdim=True)
        own = children.tail == token.unsqueeze(-1)
        ratio = (inside * own).sum(-1, keepdim=True) / (total * (law * own).sum(-1, keepdim=True))
        chances.append(torch.where(exists, ratio.clamp(max=1.0), 0.0))
        inside = torch.where(exists, remainder(inside, total * law), inside)
        if not repeats:
            law = law.masked_fill(own & exists, 0.0)
            law = law / law.sum(-1, keepdim=True).clamp(min=torch.finfo(law.dtype).tiny)
    rest = p.scatter(-1, children.tail, inside.to(p.dtype))
    return draw_or_refuse(torch.cat(chances, -1), rest, children.probe, coin)
