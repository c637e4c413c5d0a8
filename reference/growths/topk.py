"""EAGLE-2/3's slots: the K likeliest tokens, every one deterministic. `anchors` is ignored.

Source: EAGLE-2 (Li et al., 2024).
"""

from __future__ import annotations

from reference.slots import SlotPlan
from reference.truncation import Draft
from rheo.config import Config


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of a parent with the given truncated draft: K anchors, no tail."""
    k = config.slots
    nothing = draft.tokens[:0]
    return SlotPlan(draft.tokens[:k], draft.q[:k], nothing, draft.q[:0], draft.q[:0], None, k)
