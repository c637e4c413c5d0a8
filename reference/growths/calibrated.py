"""RheoSampling's slots, each scored by its estimated chance of acceptance in place of its q.

The estimates come from `config.worth`. Source: docs/theory.md, "Proxies are free".
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from reference.distributions import Array, Number
from reference.growths import rheo
from reference.slots import SlotPlan
from reference.truncation import Draft
from rheo.config import Config

Points = tuple[tuple[Number, Number], ...]


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of a parent with the given truncated draft, at its depth.

    The proxy knows z and the likeliest tail token, not the probe's; nothing else could be the best filler.
    """
    slots, known = rheo.plan(draft, config), config.worth
    anchor, probe, filler = (
        curves[min(draft.depth, len(curves) - 1)] for curves in (known.anchor, known.probe, known.filler)
    )
    tail = values(filler, slots.tail_scores)
    own = values(probe, slots.tail_scores.sum(keepdims=True))
    return replace(
        slots,
        anchor_scores=values(anchor, slots.anchor_scores),
        tail_scores=tail,
        proxy=None if slots.proxy is None else max(own[0], tail[0]),
    )


def values(curve: Points, x: Array) -> Array:
    """The curve at x [n], in x's kind of numbers; above 1, where rounding lifts a sum, its last value."""
    kind = Fraction if x.dtype == object else float
    points = [(kind(a), kind(b)) for a, b in curve]
    result = x * 0
    for index, value in enumerate(x):
        right = next((i for i, (a, _) in enumerate(points) if a > value), len(points) - 1)
        (a, low), (b, high) = points[right - 1], points[right]
        result[index] = low + (min(value, b) - a) * ((high - low) / (b - a))
    return result
