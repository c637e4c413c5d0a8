"""Calibrated slots with as many anchors at every node as are expected to be worth one of the tree's nodes.

Source: docs/search.md. What leads a node's slots is known from its draft and its own score, before its probe is drawn.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rheo.calibration import at_depth
from rheo.config import Config
from rheo.distributions import counting, softmax
from rheo.growths.calibrated import values
from rheo.order import comparable
from rheo.slots import SlotPlan
from rheo.truncation import Draft


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of every parent with the given truncated drafts, at their depth and scores.

    `config.anchors` is ignored. One slot and one token at least are left to the probe.
    """
    known = config.worth
    anchor, probe, filler = (at_depth(curves, draft.depth) for curves in (known.anchor, known.probe, known.filler))
    alone, behind = values(anchor, draft.q), values(filler, draft.q)
    m = enough(draft.score.unsqueeze(-1) * alone, draft.candidate, config)
    tail = draft.candidate & (counting(draft.q.shape[-1], m.device) >= m.unsqueeze(-1))
    own = values(probe, (draft.q * tail).sum(-1))
    best = behind.gather(-1, m.unsqueeze(-1)).squeeze(-1)
    scores = torch.where(tail, behind, alone)
    law = tail_law(draft, m, tail, float(config.temperature))
    return SlotPlan(0, config.slots, scores, torch.maximum(own, best), law, leading=m)


def enough(worth: Tensor, candidate: Tensor, config: Config) -> Tensor:
    """int64 [N, b]: how many of the tokens [N, b, S], likeliest first, are worth a node."""
    least = comparable(worth.new_full((), float(config.least)))
    count = ((comparable(worth) >= least) & candidate).sum(-1)
    return torch.minimum(count, (candidate.sum(-1) - 1).clamp(min=0, max=config.slots - 1))


def tail_law(draft: Draft, m: Tensor, tail: Tensor, temperature: float) -> Tensor:
    """q~ over the whole support [N, b, S], 0 at the m [N, b] anchors; tempered relative to the tail's own maximum."""
    if temperature == 0:
        return (tail & (counting(tail.shape[-1], m.device) == m.unsqueeze(-1))).double()
    first = draft.logits.gather(-1, m.unsqueeze(-1))
    return torch.where(tail, softmax(torch.where(tail, (draft.logits - first) / temperature, -torch.inf)), 0.0)
