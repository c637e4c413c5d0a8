"""Multi-round rejection: siblings drawn one after the other, each tested against what the refusals before it left.

Each is tested with the law that it was drawn from, given its earlier siblings: q itself where tokens may repeat, what
is left of q where they may not. Source: SpecInfer (Miao et al., 2023) for the former; recursive rejection sampling
(Jeon et al., 2024; Sequoia, Chen et al., 2024) for the latter.
"""

from __future__ import annotations

from reference.choose import Choose, Site
from reference.distributions import Array, Number, residual
from reference.rules.children import Children, Verdict, acceptance, draw_or_refuse, refuse_slots, try_probe


def recursive(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
    """Child after child. ValueError if one is an anchor, a probe or a filler."""
    refuse_slots(children)
    for position, (token, law) in enumerate(zip(children.draws, children.laws, strict=True), start=1):
        verdict = try_probe(p, token, law, choose, depth, position)
        if verdict.accepted is not None:
            return verdict
        p = verdict.rest
    return Verdict(None, p)


def single_draw(p: Array, children: Children, choose: Choose, depth: int) -> Array:
    """All mass on the child that the one coin picks; on none, what all refusals together leave of p."""
    refuse_slots(children)
    chances: list[Number] = []
    for token, law in zip(children.draws, children.laws, strict=True):
        chances.append(acceptance(p, token, law))
        p = residual(p, law)
    return draw_or_refuse(chances, p, children.draws, choose, Site("coin", depth))
