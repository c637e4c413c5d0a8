"""RheoSampling's rule: the probe first, by rejection sampling against q~; then everything else as point masses.

Source: speculative sampling's acceptance and residual (Leviathan et al., 2023; Chen et al., 2023), applied to the law
that the probe was drawn from.
"""

from __future__ import annotations

from torch import Tensor

from rheo.distributions import residual
from rheo.rules.children import Children, accepts


def single_draw(p: Tensor, children: Children, coin: Tensor) -> Tensor:
    """All mass on the probe if its coin accepts it, otherwise the residual. p: [N, V]; coin: float64 [N]."""
    accepted = accepts(p, children, coin)
    rest = residual(p, children.tail, children.law).mul_(~accepted)
    return rest.scatter_add_(-1, children.probe, accepted.to(p.dtype))
