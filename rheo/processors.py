"""Target processors: the distribution that losslessness is measured against.

Each takes logits [..., V] and returns logits [..., V], -inf where the token is ruled out; p is their softmax.
They act on the target alone; a draft proposes what it likes, and what the processors rule out is never accepted.
Order and meaning follow transformers' warpers: temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import torch
from torch import Tensor

from rheo.config import require_temperature

Processor = Callable[[Tensor], Tensor]


def temperature(value: Fraction | float) -> Processor:
    """Divide by T; T = 0 rules out everything but the first maximum. ValueError as `Config` for a T it refuses."""
    require_temperature(value)
    t = float(value)

    def process(logits: Tensor) -> Tensor:
        if t == 0:
            best = logits.argmax(-1, keepdim=True)
            return torch.full_like(logits, -torch.inf).scatter_(-1, best, 0.0)
        if t == 1:
            return logits
        return (logits - logits.amax(-1, keepdim=True)) / t

    return process


def top_k(k: int) -> Processor:
    """Keep every token at least as likely as the k-th likeliest, ties included. ValueError for k < 1."""
    if k < 1:
        raise ValueError(f"top_k must be at least 1, got {k}")

    def process(logits: Tensor) -> Tensor:
        edge = logits.topk(min(k, logits.shape[-1])).values[..., -1:]
        return logits.masked_fill(logits < edge, -torch.inf)

    return process


def top_p(mass: float) -> Processor:
    """Keep the likeliest tokens, lower ids first among equals, until they hold `mass`; at least one.

    ValueError for a mass outside (0, 1].
    """
    if not 0 < mass <= 1:
        raise ValueError(f"top_p must be in (0, 1], got {mass}")

    def process(logits: Tensor) -> Tensor:
        if mass == 1:
            return logits
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        p = torch.softmax(ordered.double(), -1)
        cut = p.cumsum(-1) - p >= mass  # the mass before a token already suffices
        cut[..., 0] = False
        return logits.masked_fill(torch.zeros_like(cut).scatter(-1, order, cut), -torch.inf)

    return process


def min_p(ratio: float) -> Processor:
    """Keep tokens at least `ratio` times as likely as the likeliest. ValueError for a ratio outside [0, 1]."""
    if not 0 <= ratio <= 1:
        raise ValueError(f"min_p must be in [0, 1], got {ratio}")

    def process(logits: Tensor) -> Tensor:
        p = torch.softmax(logits, -1)
        return logits.masked_fill(p < ratio * p.amax(-1, keepdim=True), -torch.inf)

    return process


def chain(*processors: Processor) -> Processor:
    """The processors applied one after the other."""

    def process(logits: Tensor) -> Tensor:
        for processor in processors:
            logits = processor(logits)
        return logits

    return process
