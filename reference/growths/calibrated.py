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
from rheo.calibration import Calibration
from rheo.config import Config

Points = tuple[tuple[Number, Number], ...]


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of a parent with the given truncated draft, at its depth.

    The proxy knows z and the likeliest tail token, not the probe's; nothing else could be the best filler.
    """
    slots = rheo.plan(draft, config)
    anchors, probe, tail = worth(slots, draft.depth, config.worth)
    proxy = None if slots.proxy is None else max(probe[0], tail[0])
    return replace(slots, anchor_scores=anchors, tail_scores=tail, proxy=proxy)


def worth(slots: SlotPlan, depth: int, known: Calibration) -> tuple[Array, Array, Array]:
    """What a calibration says of slots that are scored by q: anchors [m], the probe [1], all of the tail as fillers."""
    every = known.anchor, known.probe, known.filler
    anchor, probe, filler = (curves[min(depth, len(curves) - 1)] for curves in every)
    tail = slots.tail_scores
    return values(anchor, slots.anchor_scores), values(probe, tail.sum(keepdims=True)), values(filler, tail)


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
