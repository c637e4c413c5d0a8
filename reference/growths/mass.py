"""RheoSampling's slots for tree-wide transport, each scored by the mass that it is expected to take over.

What a probe covers of its parent's mass depends on how much that is: of little it may take nearly all, of everything
its overlap with the target. Source: docs/theory.md, "What a slot takes over".
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from reference.distributions import Array, Number
from reference.growths import rheo
from reference.growths.calibrated import values
from reference.order import comparable
from reference.slots import SlotPlan
from reference.truncation import Draft
from rheo.config import Config
from rheo.shares import LEAST_SHARE


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of a parent with the given truncated draft, at its depth and score.

    Anchors are all leading tokens that are expected to be worth a node of the budget, short of the last one there is;
    `config.anchors` is ignored.
    """
    known = config.worth
    anchor, probe, filler = (
        curves[min(draft.depth, len(curves) - 1)] for curves in (known.anchor, known.probe, known.filler)
    )
    worth = values(anchor, draft.q)
    m = anchors(draft.score * worth[: min(config.slots, len(worth)) - 1], config)
    slots = rheo.plan(draft, replace(config, anchors=m))
    tail = values(filler, slots.tail_scores)
    covered = values(probe, slots.tail_scores.sum(keepdims=True))[0]
    own = share(covered, worth[m:].sum(), draft.score)
    return replace(slots, anchor_scores=worth[:m], tail_scores=tail, proxy=max(own, tail[0]))


def anchors(masses: Array, config: Config) -> int:
    """How many of the falling masses [n] are worth a node."""
    least = LEAST_SHARE / config.budget
    kind = Fraction if masses.dtype == object else float
    return sum(comparable(mass) >= comparable(kind(least)) for mass in masses)


def share(covered: Number, tail: Number, score: Number) -> Number:
    """What a probe takes of its parent's mass, `score`: as much as the target's tail where there is next to none of it,
    `covered` where it is 1; the harmonic mean in between."""
    most = min(max(covered, tail), 1)
    return 1 / ((1 - score) / most + score / covered) if covered > 0 else 0 * covered
