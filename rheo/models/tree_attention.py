"""Which columns of a cache the tokens of one forward see, and where they stand.

A cache holds each request's context, left-aligned, and behind it a block: what was fed since. Tokens of a block see
the whole context, and inside the block their own ancestors and themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rheo.distributions import counting
from rheo.tree import Frontier, Tree


@dataclass(frozen=True)
class Block:
    """B columns behind the contexts of N requests, of which the last w are fed next.

    sees: bool [N, w, B], which columns of the block each of those sees. Always itself, padding too: a softmax over
    nothing is NaN, and NaN in a cache spoils also what masks it. positions: int64 [N, B], of every column.
    """

    sees: Tensor
    positions: Tensor


def chain_block(start: Tensor, counts: Tensor, width: int) -> Block:
    """`counts` [N] tokens in a row, right-aligned in `width` columns, the first of them at position `start` [N]."""
    column = torch.arange(width, device=start.device)
    first = (width - counts).unsqueeze(-1)
    earlier = column <= column.unsqueeze(-1)
    sees = (earlier & (column >= first).unsqueeze(1)) | (column == column.unsqueeze(-1))
    return Block(sees, (start.unsqueeze(-1) + column - first).clamp(min=0))


def tree_block(start: Tensor, tree: Tree) -> Block:
    """The root of each tree at position `start` [N], and its R nodes."""
    root = tree.parents.new_zeros(len(tree.parents), 1)  # a tree may have no nodes
    above = torch.cat([root, tree.parents], 1)
    size = above.shape[1]
    sees = torch.eye(size, dtype=torch.bool, device=above.device).expand(len(above), -1, -1)
    for _ in range((size - 1).bit_length()):  # every step doubles how many generations are seen
        sees = sees | sees.gather(1, above.unsqueeze(-1).expand_as(sees))
        above = above.gather(1, above)
    return Block(sees, start.unsqueeze(-1) + torch.cat([root, tree.depths], 1))


def next_block(block: Block, frontier: Frontier) -> Block:
    """The frontier's nodes behind a block that ends with the frontier before it."""
    fed = block.sees.shape[1]
    n, size = frontier.tokens.shape
    # The root is the last of several tokens; later frontiers were fed alone.
    behind = 0 if frontier.previous is None else fed - frontier.previous.tokens.shape[1]
    parents = frontier.parents + behind
    above = block.sees.gather(1, parents.unsqueeze(-1).expand(-1, -1, block.sees.shape[2]))
    itself = torch.eye(size, dtype=torch.bool, device=parents.device).expand(n, -1, -1)
    positions = block.positions[:, -fed:].gather(1, parents) + 1
    return Block(torch.cat([above, itself], 2), torch.cat([block.positions, positions], 1))


def attention_mask(lengths: Tensor, width: int, block: Block, dtype: torch.dtype, window: int | None = None) -> Tensor:
    """Additive mask [N, 1, w, width + B] for contexts of `lengths` [N] in `width` columns and the block behind them.

    window: a token sees those fewer than so many positions before it; None sees all.
    """
    n, fed, _ = block.sees.shape
    column = torch.arange(width, device=lengths.device)
    context = (column < lengths.unsqueeze(-1)).unsqueeze(1).expand(-1, fed, -1)
    sees = torch.cat([context, block.sees], 2)
    if window is not None:
        positions = torch.cat([column.expand(n, -1), block.positions], 1)
        sees = sees & (block.positions[:, -fed:].unsqueeze(-1) - positions.unsqueeze(1) < window)
    mask = torch.zeros(sees.shape, dtype=dtype, device=sees.device)
    return mask.masked_fill_(~sees, torch.finfo(dtype).min).unsqueeze(1)


def from_first(values: Tensor, counts: Tensor, width: int) -> Tensor:
    """values int64 [N, L], whose first `width` are a chain of `counts` [N], from the chain's first token on: [N, L].

    Behind the end the last value stands again.
    """
    size = values.shape[1]
    index = (width - counts).unsqueeze(-1) + counting(size, counts.device)
    return values.gather(1, index.clamp(max=size - 1))


def align_right(values: Tensor, counts: Tensor, width: int) -> Tensor:
    """The last `width` of the first `counts` [N] of values [N, L, ...], right-aligned: [N, width, ...].

    Where a request has fewer, what stands in front is any of its values.
    """
    index = (counts.unsqueeze(-1) - width + counting(width, counts.device)).clamp(min=0)
    return take(values, index)


def take(values: Tensor, index: Tensor) -> Tensor:
    """values [N, L, ...] at index int64 [N, k]: [N, k, ...]."""
    return values[counting(len(values), values.device).unsqueeze(-1), index]
