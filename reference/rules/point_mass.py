"""EAGLE-2/3's rule: every child is a point mass.

Source: the verification of EAGLE (Li et al., 2024) at a deterministic proposal.
"""

from __future__ import annotations

from reference.choose import Choose
from reference.distributions import Array
from reference.rules.children import Children, Verdict, try_points


def recursive(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
    """Children in slot order, each accepted with its residual probability. ValueError if one was drawn at random."""
    _refuse_probe(children)
    return try_points(p, children.anchors + children.fillers, choose, depth, first=1)


def single_draw(p: Array, children: Children, choose: Choose, depth: int) -> Array:
    """p itself: a child is accepted when the target's own draw is its token."""
    _refuse_probe(children)
    return p


def _refuse_probe(children: Children) -> None:
    if children.probe is not None:
        raise ValueError("a probe wastes its slot as a point mass: use a rule that knows the law it was drawn from")
