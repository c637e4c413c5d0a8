"""Draft truncation: the likeliest S tokens, sorted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from rheo.distributions import counting, in_rows, softmax

_CHUNK = 32


@dataclass(frozen=True)
class Draft:
    """Truncated draft distributions of N requests x b nodes: x_1, x_2, ... by (q descending, token id ascending).

    tokens: int64 [N, b, S]. logits: float64 [N, b, S], untempered. q: float64 [N, b, S], their softmax.
    candidate: bool [N, b, S], false where q = 0 (a logit of -inf); candidates come first.
    largest: [N, b], the greatest logit: NaN, +inf or -inf exactly where the logits are not usable.
    depth, score: of the nodes that they follow, 0 and 1 for the root; score: float64 [N, b].
    """

    tokens: Tensor
    logits: Tensor
    q: Tensor
    candidate: Tensor
    largest: Tensor
    depth: int
    score: Tensor


def truncate(logits: Tensor, support: int | None, depth: int = 0, score: Tensor | None = None) -> Draft:
    """Keep the `support` likeliest tokens of draft logits [N, b, V] (any float dtype); ties keep the lower ids.

    Candidates are told by their logits, so a probability that underflows still counts.
    """
    vocab = logits.shape[-1]
    size = vocab if support is None else min(support, vocab)
    logits = widened(logits)
    tokens, largest = top(logits, size)
    kept = logits.gather(-1, tokens).double()
    q = softmax(kept)
    score = torch.ones_like(q[..., 0]) if score is None else score
    return Draft(tokens, kept, q, kept > -torch.inf, largest, depth, score)


def widened(logits: Tensor) -> Tensor:
    """Half precision as float32, wider types as they are: draft and target must be rounded alike."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Indices [..., count] of the largest values [..., n], by (value desc., index ascending), and the maximum [...].

    Long rows go in two stages. The wanted values lie in the `count` best chunks, by (maximum descending, position
    ascending): each chunk before another holds a value that ranks before everything in the other.
    """
    n, device = values.shape[-1], values.device
    if values.dtype == torch.float64:  # for proofs, not for speed
        return values.sort(dim=-1, descending=True, stable=True).indices[..., :count], values.amax(-1)
    if n <= 2 * count * _CHUNK:
        return _indices(_keys(values, counting(n, device, step=-1)).topk(count).values), values.amax(-1)
    short = -n % _CHUNK
    chunks = in_rows(functional.pad(values, (0, short), value=-torch.inf) if short else values, _CHUNK)
    maxima = chunks.amax(-1)
    rows = chunks.shape[-2]
    keys = _keys(maxima, counting(rows, device, step=-1)).topk(count, sorted=False).values
    best = _indices(keys)
    # Rows of all leading dimensions numbered through, so that whole chunks are copied at once.
    start = counting(best[..., 0].numel(), device, step=rows).view(*best.shape[:-1], 1)
    picked = chunks.reshape(-1, _CHUNK).index_select(0, (best + start).flatten()).view(*best.shape, _CHUNK)
    negated = torch.sub(counting(_CHUNK, device, step=-1), best.unsqueeze(-1), alpha=_CHUNK)
    # Nothing below the worst chunk's maximum is wanted. Selection is faster where all of that is equal.
    least = ((keys.amin(-1, keepdim=True) - 1) >> 32) << 32
    inside = _keys(picked, negated).flatten(-2).clamp_(min=least)
    return _indices(inside.topk(count).values), maxima.amax(-1)


def _keys(values: Tensor, negated: Tensor) -> Tensor:
    """One int64 per float32 value and its negated index, whose order is (value descending, index ascending).

    The order is total, so that no kernel's choice among ties matters.
    """
    bits = values.view(torch.int32)
    sign = bits >> 31
    ordered = ((bits & 0x7FFFFFFF) ^ sign) - sign  # integers in the order of the floats, -0.0 and 0.0 the same
    return torch.add(negated, ordered, alpha=1 << 32)


def _indices(keys: Tensor) -> Tensor:
    """The indices that went into keys."""
    return -keys & 0xFFFFFFFF
