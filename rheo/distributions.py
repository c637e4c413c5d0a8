"""Operations on batches of distributions: temper, residual, inverse CDF. p is the target's, q the draft's."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

# Above twice this many weights an inverse CDF first picks a block, then a weight inside it.
_BLOCK = 256

# Rows up to this length are normalised by elementary operations.
_SHORT = 32

# What a residual keeps of p where p - q~ is not positive: far below any probability, far above float32's smallest.
_TRACE = 2.0**-80

# 1 - 2^-53 would not do: times a total it may round up to the total.
_BELOW_ONE = 1 - 2.0**-52


@lru_cache(maxsize=1024)
def counting(n: int, device: torch.device, step: int = 1, first: int = 0) -> Tensor:
    """first, first + step, ... as int64 [n], made once per device. Shared: do not write into it."""
    with torch.inference_mode(False):  # whoever comes first, later callers may need a normal tensor
        return torch.arange(n, device=device) * step + first


def unusable(largest: Tensor) -> Tensor:
    """Where the greatest of some logits is NaN, +inf or -inf: they hold NaN or +inf, or nothing but -inf."""
    return (largest - largest) != 0  # NaN for all three; cheaper than isfinite


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
    return torch.where(candidate, softmax(logits), 0.0)


def softmax(logits: Tensor) -> Tensor:
    """The softmax of every row of logits [..., n]; NaN in rows that hold NaN or +inf, or are all -inf.

    torch's own goes row by row, which is slow where they are short.
    """
    if not 0 < logits.shape[-1] <= _SHORT:
        return torch.softmax(logits, -1)
    weights = torch.exp(logits - logits.amax(-1, keepdim=True))
    return weights / weights.sum(-1, keepdim=True)


def residual(p: Tensor, tokens: Tensor, law: Tensor) -> Tensor:
    """max(0, p - q~), not normalised, in a new tensor; proportional to p in rows where nothing else is left.

    p: [N, V]. tokens: int64 [N, S], distinct in a row, and law: [N, S] in p's dtype, q~ at those tokens.
    The clamp is not at 0 but at a share of p that no rounding can see: it decides only where all else is 0.
    """
    return p.scatter(-1, tokens, remainder(p.gather(-1, tokens), law))


def remainder(inside: Tensor, law: Tensor) -> Tensor:
    """max(0, inside - law), as `residual` takes it, of [N, S] each."""
    return torch.maximum(inside - law, inside * _TRACE)


def inverse_cdf(weights: Tensor, uniform: Tensor) -> Tensor:
    """The first index whose cumulative weight exceeds uniform x total. weights: [..., n] >= 0.

    uniform: float64 [...] in [0, 1). Returns int64 [...]; n in a row of zeros or NaN. An index of weight zero is never
    returned, also when rounding lifts uniform x total up to the total. Sums are float64: cumulating 10^5 float32
    terms drifts.
    """
    n = weights.shape[-1]
    goal = uniform.clamp(max=_BELOW_ONE).unsqueeze(-1)  # a share below 1, so that some index passes it
    if n <= 2 * _BLOCK:
        cumulative = weights.cumsum(-1, dtype=torch.float64)
        return torch.searchsorted(cumulative, goal * cumulative[..., -1:], right=True).squeeze(-1)
    short = -n % _BLOCK
    blocks = in_rows(functional.pad(weights, (0, short)) if short else weights, _BLOCK)
    sums = blocks.sum(-1, dtype=torch.float64)
    cumulative = sums.cumsum(-1)
    goal = goal * cumulative[..., -1:]
    found = torch.searchsorted(cumulative, goal, right=True)
    block = found.clamp(max=sums.shape[-1] - 1)  # in a row of zeros none is found
    before = cumulative.gather(-1, block) - sums.gather(-1, block)
    inside = blocks.gather(-2, block.unsqueeze(-1).expand(*block.shape, _BLOCK)).squeeze(-2)
    within = inside.cumsum(-1, dtype=torch.float64)
    # The block's own sum may be rounded otherwise than its cumulative one: stay inside it at both ends.
    rest = torch.minimum((goal - before).clamp(min=0.0), within[..., -1:] * _BELOW_ONE)
    return (found * _BLOCK + torch.searchsorted(within, rest, right=True)).clamp(max=n).squeeze(-1)
