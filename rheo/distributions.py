"""Operations on batches of distributions: temper, residual, inverse CDF. p is the target's, q the draft's."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

# Above this many weights an inverse CDF first picks a block, then a weight inside it.
_BLOCK = 256


def temper(logits: Tensor, mask: Tensor, temperature: float) -> Tensor:
    """Softmax of logits [..., n] / T over the entries where mask [..., n] holds, 0 elsewhere.

    T = 0 puts all mass on the first maximum under the mask. A row whose mask is empty is all zeros.
    Working in log space keeps a tail alive that would underflow beside likelier tokens.
    """
    masked = torch.where(mask, logits, -torch.inf)
    if temperature == 0:
        best = masked.argmax(-1, keepdim=True)
        return torch.zeros_like(logits).scatter_(-1, best, 1.0) * mask
    # Subtracting the maximum before dividing keeps a tiny temperature from overflowing to inf - inf.
    scaled = (masked - masked.amax(-1, keepdim=True)) / temperature
    return torch.where(mask, torch.softmax(scaled, -1), 0.0)


def residual(p: Tensor, tokens: Tensor, law: Tensor) -> Tensor:
    """max(0, p - q~), not normalised; p itself in rows where rounding leaves nothing.

    p: [N, V]. tokens: int64 [N, S], distinct in a row, and law: float64 [N, S], q~ at those tokens (0 off the tail).
    """
    rest = (p.gather(-1, tokens).double() - law).clamp(min=0.0)
    reduced = p.scatter(-1, tokens, rest.to(p.dtype))
    left = reduced.sum(-1, keepdim=True, dtype=torch.float64) > 0
    return torch.where(left, reduced, p)


def inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """The first index whose cumulative weight exceeds uniform x total. weights: [..., n] >= 0, not all zero in a row.

    uniform: float64 [...] in [0, 1). Returns int64 [...]. Sums are float64: cumulating 10^5 float32 terms drifts.
    An index of weight zero is never returned, also when rounding lifts uniform x total up to the total.
    """
    if weights.shape[-1] <= 2 * _BLOCK:
        cumulative = weights.cumsum(-1, dtype=torch.float64)
        return _first_above(cumulative, weights, uniform * cumulative[..., -1])
    short = -weights.shape[-1] % _BLOCK
    blocks = (functional.pad(weights, (0, short)) if short else weights).unflatten(-1, (-1, _BLOCK))
    sums = blocks.sum(-1, dtype=torch.float64)
    cumulative = sums.cumsum(-1)
    goal = uniform * cumulative[..., -1]
    block = _first_above(cumulative, sums, goal).unsqueeze(-1)
    before = (cumulative.gather(-1, block) - sums.gather(-1, block)).squeeze(-1)
    rest = (goal - before).clamp(min=0.0)
    index = block.unsqueeze(-1).expand(*block.shape, _BLOCK)
    inside = blocks.gather(-2, index).squeeze(-2)
    within = _first_above(inside.cumsum(-1, dtype=torch.float64), inside, rest)
    return block.squeeze(-1) * _BLOCK + within


def _first_above(cumulative: Tensor, weights: Tensor, goal: Tensor) -> Tensor:
    """First index with cumulative [..., n] > goal [...] >= 0, at most the last of positive weight."""
    positions = torch.arange(weights.shape[-1], device=weights.device)
    last = (positions * (weights > 0)).amax(-1)
    return torch.minimum((cumulative <= goal.unsqueeze(-1)).sum(-1), last)
