"""RRSw, the rule to beat: anchors, then the probe, then fillers, each against the running residual.

Source: recursive rejection sampling without replacement (Jeon et al., 2024).
"""

from __future__ import annotations

from reference.choose import Choose, Site, bernoulli
from reference.distributions import Array, normalise, residual
from reference.rules.children import Children, Verdict, acceptance, try_points, try_probe


def recursive(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
    """Slot order; sampled without replacement, so each test sees what the earlier ones left."""
    verdict = try_points(p, children.anchors, choose, depth, first=1)
    if verdict.accepted is not None:
        return verdict
    if children.probe is not None and children.law is not None:
        verdict = try_probe(verdict.rest, children.probe, children.law, choose, depth)
        if verdict.accepted is not None:
            return verdict
    return try_points(verdict.rest, children.fillers, choose, depth, first=1 + len(children.anchors))


def single_draw(p: Array, children: Children, choose: Choose, depth: int) -> Array:
    """p on the anchors; the mass beside them goes to the probe, or spreads over the residual, as the coin says.

    The coin's outcome does not depend on whether an anchor is taken, so it may be tossed first.
    """
    beside = p.copy()
    beside[list(children.anchors)] = 0 * p.sum()
    mass = beside.sum()
    if children.probe is None or children.law is None or not mass > 0:
        return p
    if bernoulli(acceptance(normalise(beside), children.probe, children.law), choose, Site("coin", depth)):
        rest = 0 * p
        rest[children.probe] = 1 + rest[children.probe]
    else:
        rest = residual(normalise(beside), children.law)
    mixed: Array = (p - beside) + mass * rest
    return mixed
