"""Keys and values of several requests: their contexts, and behind them a tree of which only a path is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class TreeCache:
    """Contexts of N requests, left-aligned in the first `width` columns, and a block behind them.

    kv: a DynamicCache of transformers, keys and values [N, heads, columns, d] of every layer. A forward adds columns to
    it, and `keep` changes it, in place: of several states only the newest is good.
    lengths: int64 [N], tokens of each context, at most `width`.
    """

    kv: Any
    lengths: Tensor
    width: int


def empty(requests: int, device: torch.device) -> TreeCache:
    """Contexts without tokens."""
    from transformers import DynamicCache

    # Without a configuration every layer keeps all columns: windows are the mask's business.
    return TreeCache(DynamicCache(), torch.zeros(requests, dtype=torch.int64, device=device), 0)


def drop(cache: TreeCache) -> None:
    """Forget the block, should there be one: a tree may be drafted and verified again from the same contexts."""
    for layer in cache.kv.layers:
        layer.keys, layer.values = layer.keys[:, :, : cache.width], layer.values[:, :, : cache.width]


def keep(cache: TreeCache, columns: Tensor, counts: Tensor) -> TreeCache:
    """Each context grows by the first `counts` [N] of its `columns` int64 [N, k] of the block; the rest is dropped."""
    lengths = cache.lengths + counts
    first, width = int(cache.lengths.min()), int(lengths.max())
    goal = torch.arange(first, width, device=columns.device)
    source = goal - cache.lengths.unsqueeze(-1)  # which of `columns` belongs here; negative inside the context
    moved = columns.gather(1, source.clamp(0, columns.shape[1] - 1)) + cache.width
    index = torch.where(source < 0, goal, moved)[:, None, :, None]
    for layer in cache.kv.layers:
        for states in (layer.keys, layer.values):
            states[:, :, first:width] = states.gather(2, index.expand(-1, states.shape[1], -1, states.shape[3]))
        layer.keys, layer.values = layer.keys[:, :, :width], layer.values[:, :, :width]
    return TreeCache(cache.kv, lengths, width)


def select(cache: TreeCache, requests: Tensor) -> TreeCache:
    """The cache of those requests int64 [n] alone."""
    cache.kv.batch_select_indices(requests)
    return TreeCache(cache.kv, cache.lengths[requests], cache.width)
