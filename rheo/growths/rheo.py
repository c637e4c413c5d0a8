"""RheoSampling's slots: m anchors, then a probe from the tail under a proxy score, then fillers.

Source: the RheoSampling paper; docs/theory.md says why the proxy may be what it is.
"""

from __future__ import annotations

import torch

from rheo.config import Config
from rheo.distributions import temper
from rheo.slots import SlotPlan
from rheo.truncation import Draft


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of every parent with the given truncated drafts.

    The proxy must not depend on the probe's identity, and no filler may outrank it. min(q(x_m), z) does both;
    without anchors q(x_1) does. z is summed over the tail: 1 minus the anchors loses small tails to rounding.
    """
    m = min(config.anchors, draft.q.shape[-1])
    proxy = draft.q[..., 0] if m == 0 else torch.minimum(draft.q[..., m - 1], draft.q[..., m:].sum(-1))
    law = temper(draft.logits[..., m:], draft.candidate[..., m:], float(config.temperature))
    return SlotPlan(m, config.slots, draft.q, proxy, law)
