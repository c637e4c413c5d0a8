"""Calibrated slots with as many anchors at every node as are expected to be worth one of the tree's nodes.

Source: docs/search.md. What leads a node's slots is known from its draft and its own score, before its probe is drawn.
"""

from __future__ import annotations

from dataclasses import replace

from reference.distributions import Array
from reference.growths import calibrated
from reference.growths.calibrated import values
from reference.order import comparable
from reference.slots import SlotPlan
from reference.truncation import Draft
from rheo.config import Config


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of a parent with the given truncated draft, at its depth and score.

    `config.anchors` is ignored. One slot and one token at least are left to the probe.
    """
    curves = config.worth.anchor
    room = min(config.slots, len(draft.tokens)) - 1
    worth = draft.score * values(curves[min(draft.depth, len(curves) - 1)], draft.q[:room])
    return calibrated.plan(draft, replace(config, anchors=enough(worth, config)))


def enough(worth: Array, config: Config) -> int:
    """How many of the tokens, likeliest first, are worth a node; worth: [n], estimated chances to be accepted."""
    least = comparable(config.least if worth.dtype == object else float(config.least))
    return sum(comparable(each) >= least for each in worth)
