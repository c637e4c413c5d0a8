"""RheoSampling's rule: the probe first, by rejection sampling against q~; then everything else as point masses.

Source: speculative sampling's acceptance and residual (Leviathan et al., 2023; Chen et al., 2023), applied to the law
that the probe was drawn from.
"""

from __future__ import annotations

from reference.choose import Choose, Site, bernoulli
from reference.distributions import Array, residual
from reference.rules.children import Children, Verdict, acceptance, try_points, try_probe


def recursive(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
    """The probe against p, then anchors and fillers against what its rejection left."""
    if children.probe is not None and children.law is not None:
        verdict = try_probe(p, children.probe, children.law, choose, depth)
        if verdict.accepted is not None:
            return verdict
        p = verdict.rest
    return try_points(p, children.anchors + children.fillers, choose, depth, first=1)


def single_draw(p: Array, children: Children, choose: Choose, depth: int) -> Array:
    """All mass on the probe if its coin accepts it, otherwise the residual."""
    if children.probe is None or children.law is None:
        return p
    if bernoulli(acceptance(p, children.probe, children.law), choose, Site("coin", depth)):
        accepted = 0 * p
        accepted[children.probe] = 1 + accepted[children.probe]
        return accepted
    return residual(p, children.law)
