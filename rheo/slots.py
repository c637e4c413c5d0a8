"""The slots of one parent: anchors, one probe drawn from the tail, fillers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from rheo.distributions import counting, inverse_cdf
from rheo.truncation import Draft


@dataclass(frozen=True)
class SlotPlan:
    """Everything about a parent's slots that is known before its probe is drawn, for N requests x b nodes.

    anchors: how many leading support positions are anchors, at most S. slots: K.
    scores: float64 [N, b, S], what each support token is worth as anchor or filler, relative to the parent.
    proxy: float64 [N, b], what the probe is worth, whichever token it turns out to be.
    tail_law: float64 [N, b, S - anchors], q~ of the support's other tokens, all zero where there is no tail;
    [N, b, 0] if there are only anchors.
    leading: int64 [N, b], below S, the anchors of every node where nodes differ; `anchors` is 0 then, and q~ at them.
    """

    anchors: int
    slots: int
    scores: Tensor
    proxy: Tensor
    tail_law: Tensor
    leading: Tensor | None = None


@dataclass(frozen=True)
class Slots:
    """Filled slots of N requests x b parents, in slot order: tokens int64, scores float64, occupied bool [N, b, w]."""

    tokens: Tensor
    scores: Tensor
    occupied: Tensor


def draw_probe(draft: Draft, plan: SlotPlan, uniform: Tensor) -> Tensor:
    """Support position int64 [N, b, 1] of each probe, by inverse CDF of q~ in ascending token id; uniform [N, b]."""
    ascending = draft.tokens[..., plan.anchors :].argsort(-1)
    drawn = inverse_cdf(plan.tail_law.gather(-1, ascending), uniform)
    inside = drawn.clamp(max=ascending.shape[-1] - 1)  # without a tail any position will do: it is not occupied
    return ascending.gather(-1, inside.unsqueeze(-1)) + plan.anchors


def fill(draft: Draft, plan: SlotPlan, uniform: Tensor) -> Slots:
    """Anchors, then the probe drawn with uniform [N, b], then the likeliest other tail tokens.

    There are w = min(K, S) slots; those for which the support has no token are not occupied.
    """
    width = min(plan.slots, draft.tokens.shape[-1])
    occupied = draft.candidate[..., :width]  # the k-th slot exists where the support has k tokens
    if plan.tail_law.shape[-1] == 0:
        return Slots(draft.tokens[..., :width], plan.scores[..., :width], occupied)
    probe = draw_probe(draft, plan, uniform)
    # A slot holds the token of its own support position, except the probe's; behind that, every filler that comes
    # before the probe's token has moved one slot back.
    slot = counting(width, probe.device)
    if plan.leading is not None:
        own = plan.leading.unsqueeze(-1)
        index = torch.where(slot > probe, slot, slot - (slot > own).long()).scatter_(-1, own, probe)
        scores = plan.scores.gather(-1, index).scatter_(-1, own, plan.proxy.unsqueeze(-1))
        return Slots(draft.tokens.gather(-1, index), scores, occupied)
    index = torch.where(slot > probe, slot, _moved_back(width, plan.anchors, probe.device))
    index[..., plan.anchors] = probe.squeeze(-1)
    scores = plan.scores.gather(-1, index)
    scores[..., plan.anchors] = plan.proxy
    return Slots(draft.tokens.gather(-1, index), scores, occupied)


@lru_cache(maxsize=64)
def _moved_back(width: int, anchors: int, device: torch.device) -> Tensor:
    """int64 [width]: the slots' own positions, one less behind the probe's."""
    slot = counting(width, device)
    return slot - (slot > anchors).long()
