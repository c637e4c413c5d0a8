"""RheoSampling's slots: m anchors, then a probe from the tail under a proxy score, then fillers.

Source: the RheoSampling paper; docs/theory.md says why the proxy may be what it is.
"""

from __future__ import annotations

from reference.distributions import temper
from reference.slots import SlotPlan
from reference.truncation import Draft
from rheo.config import Config


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of a parent with the given truncated draft.

    The proxy must not depend on the probe's identity, and no filler may outrank it. min(q(x_m), z) does both;
    without anchors q(x_1) does. z is summed over the tail: 1 minus the anchors loses small tails to rounding.
    """
    m = config.anchors
    tail = draft.tokens[m:]
    tail_q = draft.q[m:]
    if len(tail) == 0:
        return SlotPlan(draft.tokens, draft.q, tail, tail_q, tail_q, None, config.slots)
    proxy = draft.q[0] if m == 0 else min(draft.q[m - 1], tail_q.sum())
    return SlotPlan(
        anchors=draft.tokens[:m],
        anchor_scores=draft.q[:m],
        tail=tail,
        tail_scores=tail_q,
        tail_law=temper(tail_q, config.temperature),
        proxy=proxy,
        slots=config.slots,
    )
