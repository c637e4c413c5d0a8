"""RRSw, the rule to beat: anchors, then the probe, then fillers, each against the running residual."""

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
    on_anchors = torch.where(children.anchor, p.gather(-1, children.support), 0.0)
    beside = p.scatter(-1, children.support, torch.where(children.anchor, 0.0, p.gather(-1, children.support)))
    mass = beside.sum(-1, keepdim=True, dtype=torch.float64)
    tested = children.has_probe & (mass > 0)
    normalised = torch.where(tested, beside / mass, p).to(p.dtype)
    accepted = tested & accepts(normalised.gather(-1, children.probe), children, coin)
    rest = residual(normalised, children.support, children.law)
    rest = torch.where(accepted, 0.0, rest).scatter_add_(-1, children.probe, accepted.to(p.dtype))
    # The residual is not normalised: weigh the anchors against it, not against its mass.
    share = rest.sum(-1, keepdim=True, dtype=torch.float64) / mass
    mixed = rest.scatter_add_(-1, children.support, (on_anchors * share).to(p.dtype))
    return torch.where(tested, mixed, p)
