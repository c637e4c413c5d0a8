"""The slots of one parent: anchors, one probe drawn from the tail, fillers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from reference.choose import Choose, Site
from reference.distributions import Array, Number


@dataclass(frozen=True)
class SlotPlan:
    """Everything about a parent's slots that is known before its probe is drawn.

    anchors: int64 [m] tokens, with their scores [m].
    tail: int64 [n] tokens in draft order, with their scores as fillers [n] and the probe's true law q~ [n].
    proxy: the probe's score, the same whichever token it turns out to be; None when there is no tail.
    slots: K. Scores are relative to the parent's.
    """

    anchors: Array
    anchor_scores: Array
    tail: Array
    tail_scores: Array
    tail_law: Array
    proxy: Number | None
    slots: int

    def law_over(self, vocab: int) -> Array:
        """q~ as an array over the whole vocabulary [vocab]."""
        dense = np.zeros(vocab, dtype=self.tail_law.dtype)
        dense[self.tail] = self.tail_law
        return dense


Slot = tuple[Literal["anchor", "probe", "filler"], int, Number]  # kind, token, score relative to the parent


def draw_probe(plan: SlotPlan, choose: Choose, site: Site) -> int | None:
    """Position in the tail of the probe's token, drawn from q~; None when there is no tail.

    The weights are offered in ascending token id, the order in which the torch sampler inverts its CDF.
    """
    if plan.proxy is None:
        return None
    ascending = np.argsort(plan.tail)
    return int(ascending[choose(plan.tail_law[ascending], site)])


def leading_slots(plan: SlotPlan) -> list[Slot]:
    """The anchors of a parent, in slot order."""
    return [("anchor", int(t), s) for t, s in zip(plan.anchors, plan.anchor_scores, strict=True)]


def drawn_slots(plan: SlotPlan, probe: int | None) -> list[Slot]:
    """The probe, and the fillers: the likeliest tail tokens other than it, up to K slots in all."""
    if probe is None or plan.proxy is None:
        return []
    drawn: list[Slot] = [("probe", int(plan.tail[probe]), plan.proxy)]
    others = [i for i in range(len(plan.tail)) if i != probe]
    room = plan.slots - len(plan.anchors) - 1
    return drawn + [("filler", int(plan.tail[i]), plan.tail_scores[i]) for i in others[:room]]
