"""RheoSampling's slots for tree-wide transport, each scored by the mass that it is expected to take over.

What a probe covers of its parent's mass depends on how much that is: of little it may take nearly all, of everything
its overlap with the target. Source: docs/theory.md, "What a slot takes over".
"""

from __future__ import annotations

import torch
from torch import Tensor

from rheo.calibration import at_depth
from rheo.config import Config
from rheo.distributions import counting, softmax
from rheo.growths.calibrated import values
from rheo.order import comparable
from rheo.shares import LEAST_SHARE
from rheo.slots import SlotPlan
from rheo.truncation import Draft


def plan(draft: Draft, config: Config) -> SlotPlan:
    """Slots of every parent with the given truncated drafts, at their depth and scores.

    Anchors are all leading tokens that are expected to be worth a node of the budget, short of the last one there is;
    `config.anchors` is ignored.
    """
    known = config.worth
    anchor, probe, filler = (at_depth(curves, draft.depth) for curves in (known.anchor, known.probe, known.filler))
    score = torch.as_tensor(draft.score, dtype=torch.float64, device=draft.q.device).expand(draft.q.shape[:-1])
    worth, behind = values(anchor, draft.q), values(filler, draft.q)
    m = anchors(score.unsqueeze(-1) * worth, draft.candidate, config)
    tail = draft.candidate & (counting(draft.q.shape[-1], m.device) >= m.unsqueeze(-1))
    covered = values(probe, (draft.q * tail).sum(-1))
    own = share(covered, (worth * tail).sum(-1), score)
    best = behind.gather(-1, m.unsqueeze(-1)).squeeze(-1)
    scores = torch.where(tail, behind, worth)
    return SlotPlan(0, config.slots, scores, torch.maximum(own, best), tail_law(draft, m, tail, config), m)


def anchors(masses: Tensor, candidate: Tensor, config: Config) -> Tensor:
    """int64 [N, b]: how many of the falling masses [N, b, S] are worth a node."""
    least = masses.new_full((), float(LEAST_SHARE / config.budget))
    count = ((comparable(masses) >= comparable(least)) & candidate).sum(-1)
    most = (candidate.sum(-1) - 1).clamp(min=0, max=config.slots - 1)
    return torch.minimum(count, most)


def share(covered: Tensor, tail: Tensor, score: Tensor) -> Tensor:
    """What a probe takes of its parent's mass, `score`: as much as the target's tail where there is next to none of it,
    `covered` where it is 1; the harmonic mean in between."""
    most = torch.maximum(covered, tail).clamp(max=1.0)
    return torch.where(covered > 0, 1 / ((1 - score) / most + score / covered), 0.0)


def tail_law(draft: Draft, m: Tensor, tail: Tensor, config: Config) -> Tensor:
    """q~ over the whole support [N, b, S], 0 at the anchors; tempered relative to the tail's own maximum."""
    temperature = float(config.temperature)
    if temperature == 0:
        return (counting(tail.shape[-1], m.device) == m.unsqueeze(-1)) * tail.double()
    first = draft.logits.gather(-1, m.unsqueeze(-1))
    return torch.where(tail, softmax(torch.where(tail, (draft.logits - first) / temperature, -torch.inf)), 0.0)
