"""EAGLE-2/3's slots: the K likeliest tokens, every one deterministic. `anchors` is ignored.

Source: EAGLE-2 (Li et al., 2024).
"""

from __future__ import annotations

import torch

from rheo.config import Config
from rheo.slots import SlotPlan
from rheo.truncation import Draft


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of every parent with the given truncated drafts: K anchors, no tail."""
    anchors = min(config.slots, draft.q.shape[-1])
    return SlotPlan(anchors, config.slots, draft.q, torch.zeros_like(draft.q[..., 0]), draft.q[..., :0])
