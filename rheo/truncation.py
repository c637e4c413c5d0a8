"""Draft truncation: the likeliest S tokens, sorted."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from rheo.distributions import counting, in_rows

# Half precision is widened before anything is computed: draft and target must be rounded alike.
HALF = (torch.float16, torch.bfloat16)

_CHUNK = 32


@dataclass(frozen=True)
class Draft:
    """Truncated draft distributions of N requests x b nodes: x_1, x_2, ... by (q descending, token id ascending).

    tokens: int64 [N, b, S]. logits: float64 [N, b, S], untempered. q: float64 [N, b, S], their softmax.
    candidate: bool [N, b, S], false where q = 0 (a logit of -inf); candidates come first.
    largest: [N, b], the greatest logit: NaN, +inf or -inf exactly where the logits are not usable.
    """

    tokens: Tensor
    logits: Tensor
    q: Tensor
    candidate: Tensor
    largest: Tensor


def truncate(logits: Tensor, support: int | None) -> Draft:
    """Keep the `support` likeliest tokens of draft logits [N, b, V] (any float dtype); ties keep the lower ids.

    Candidates are told by their logits, so a probability that underflows still counts.
    """
    vocab = logits.shape[-1]
    size = vocab if support is None else min(support, vocab)
    if logits.dtype in HALF:
        logits = logits.float()
    tokens, largest = top(logits, size)
    kept = logits.gather(-1, tokens).double()
    return Draft(tokens, kept, torch.softmax(kept, -1), kept > -torch.inf, largest)


def top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Indices [..., count] of the largest values [..., n] by (value desc., index ascending), and the maximum [...].

    Long rows go in two stages. The wanted values lie in the `count` best chunks, by (maximum descending, position
    ascending): each chunk before another holds a value that ranks before everything in the other.
    """
    n = values.shape[-1]
    if n <= 2 * count * _CHUNK:
        return _first_in_order(values, count), values.amax(-1)
    short = -n % _CHUNK
    chunks = in_rows(functional.pad(values, (0, short), value=-torch.inf) if short else values, _CHUNK)
    maxima = chunks.amax(-1)
    best = _first_in_order(maxima, count).sort(-1).values
    rows = chunks.shape[-2]
    start = counting(best[..., 0].numel(), values.device).unsqueeze(-1) * rows
    picked = chunks.reshape(-1, _CHUNK).index_select(0, (best.flatten(0, -2) + start).flatten())
    inside = _first_in_order(picked.view(*best.shape[:-1], count * _CHUNK), count)
    return best.gather(-1, inside // _CHUNK) * _CHUNK + inside % _CHUNK, maxima.amax(-1)


def _first_in_order(values: Tensor, count: int) -> Tensor:
    """Indices [..., count] of the largest values [..., n] by (value descending, index ascending), for float32/64."""
    if values.dtype == torch.float64:
        return values.sort(dim=-1, descending=True, stable=True).indices[..., :count]
    # A float32 and its index fit into one integer, whose order is total: no kernel's choice among ties matters.
    n = values.shape[-1]
    bits = (values + 0.0).view(torch.int32)  # + 0.0 makes -0.0 equal to 0.0
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    keys = torch.add(~counting(n, values.device), ordered, alpha=1 << 32).topk(count).values
    return ~keys & 0xFFFFFFFF
