"""Operations on batches of distributions: temper, residual, inverse CDF. p is the target's, q the draft's."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

# Above twice this many weights an inverse CDF first picks a block, then a weight inside it.
_BLOCK = 256


@lru_cache(maxsize=256)
def counting(n: int, device: torch.device) -> Tensor:
    """0, 1, ..., n - 1 as int64, made once per device. Shared: do not write into it."""
    return torch.arange(n, device=device)


def in_rows(values: Tensor, size: int) -> Tensor:
    """values [..., n] as [..., n / size, size], without a copy where the layout allows it."""
    return values.reshape(*values.shape[:-1], -1, size)


def temper(logits: Tensor, candidate: Tensor, temperature: float) -> Tensor:
    """Softmax of sorted logits [..., n] (descending) at temperature T; 0 where there is no candidate [..., n].

    T = 0 puts all mass on the first. Working in log space keeps a tail alive that would underflow beside likelier
    tokens; subtracting the maximum before dividing keeps a tiny T from overflowing.
    """
    if temperature == 0:
        return (counting(logits.shape[-1], logits.device) == 0) * candidate.to(logits.dtype)
    if temperature != 1:
        logits = (logits - logits[..., :1]) / temperature
    # Without any candidate the softmax is NaN; the mask turns that into a row of zeros.
    return torch.where(candidate, torch.softmax(logits, -1), 0.0)


def residual(p: Tensor, tokens: Tensor, law: Tensor) -> Tensor:
    """max(0, p - q~), not normalised, in a new tensor; p itself in rows where rounding leaves nothing.

    p: [N, V]. tokens: int64 [N, S], distinct in a row, and law: float64 [N, S], q~ at those tokens.
    """
    inside = p.gather(-1, tokens)
    rest = (inside.double() - law).clamp(min=0.0).to(p.dtype)
    reduced = p.scatter(-1, tokens, rest)
    left = reduced.amax(-1, keepdim=True) > 0
    return reduced.scatter_(-1, tokens, torch.where(left, rest, inside))


def inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """The first index whose cumulative weight exceeds uniform x total. weights: [..., n] >= 0, not all zero in a row.

    uniform: float64 [...] in [0, 1). Returns int64 [...]. Sums are float64: cumulating 10^5 float32 terms drifts.
    An index of weight zero is never returned, also when rounding lifts uniform x total up to the total.
    """
    if weights.shape[-1] <= 2 * _BLOCK:
        cumulative = weights.cumsum(-1, dtype=torch.float64)
        return _first_above(cumulative, uniform.unsqueeze(-1) * cumulative[..., -1:]).squeeze(-1)
    short = -weights.shape[-1] % _BLOCK
    blocks = in_rows(functional.pad(weights, (0, short)) if short else weights, _BLOCK)
    sums = blocks.sum(-1, dtype=torch.float64)
    cumulative = sums.cumsum(-1)
    goal = uniform.unsqueeze(-1) * cumulative[..., -1:]
    block = _first_above(cumulative, goal)
    before = cumulative.gather(-1, block) - sums.gather(-1, block)
    inside = blocks.gather(-2, block.unsqueeze(-1).expand(*block.shape, _BLOCK)).squeeze(-2)
    within = _first_above(inside.cumsum(-1, dtype=torch.float64), (goal - before).clamp(min=0.0))
    return (block * _BLOCK + within).squeeze(-1)


def _first_above(cumulative: Tensor, goal: Tensor) -> Tensor:
    """First index [..., 1] with cumulative [..., n] > goal [..., 1] >= 0; the last that adds mass if there is none.

    Lowering the goal below the total is what finds that last one.
    """
    total = cumulative[..., -1:]
    below = torch.minimum(goal, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, below, right=True).clamp(max=cumulative.shape[-1] - 1)
