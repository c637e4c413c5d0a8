"""RRSw, the rule to beat: anchors, then the probe, then fillers, each against the running residual.

Source: recursive rejection sampling without replacement (Jeon et al., 2024).
"""

from __future__ import annotations

import torch
from torch import Tensor

from rheo.distributions import residual
from rheo.rules.children import Children, accepts


def single_draw(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    """p on the anchors; the mass beside them goes to the probe, or spreads over the residual, as the coin says.

    p: [N, V]; coin: float64 [N]. The coin's outcome does not depend on whether an anchor is taken, so it may be
    tossed first.
    """
    anchors = children.anchors.clamp(min=0)
    on_anchors = torch.where(children.anchors >= 0, p.gather(-1, anchors), 0.0)
    beside = p.scatter_add(-1, anchors, -on_anchors)
    mass = beside.sum(-1, keepdim=True, dtype=torch.float64)
    accepted = accepts(beside, children, coin, 1 / mass)
    # Scaling the law instead of the target leaves the residual in units of p: it sums to `left`, not to `mass`.
    rest = residual(beside, children.tail, (mass * children.law).to(p.dtype))
    left = rest.sum(-1, keepdim=True, dtype=torch.float64)
    rest = rest.mul_(~accepted).scatter_add_(-1, children.probe, accepted * mass.to(p.dtype))
    share = torch.where(accepted | (mass <= 0), 1.0, left / mass)
    return rest.scatter_add_(-1, anchors, (share * on_anchors).to(p.dtype))
