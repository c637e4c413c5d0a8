"""Layered growth: expand the best nodes depth by depth, then rerank all candidates (as EAGLE-2 does)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from rheo.config import Config
from rheo.distributions import counting
from rheo.growths import Growth
from rheo.order import dense_ranks, ranking_keys
from rheo.slots import fill
from rheo.tree import Frontier, Tree
from rheo.truncation import truncate

Drafter = Callable[[Frontier], Tensor]  # -> draft logits [N, b, V], untempered


@dataclass(frozen=True)
class _Layer:
    """What one depth adds to the pool of candidates. n = b w children; pool indices count the root as 0.

    keys, tokens, parents (pool index): int64 [N, n]; scores: float64 [N, n].
    expanded: int64 [N, b], pool indices of the parents. support, tail_law: [N, b, ...]. largest, occupied: [N, b].
    """

    keys: Tensor
    tokens: Tensor
    parents: Tensor
    scores: Tensor
    expanded: Tensor
    support: Tensor
    tail_law: Tensor
    largest: Tensor
    occupied: Tensor


def grow(drafter: Drafter, probe: Tensor, config: Config, growth: Growth) -> Tree:
    """The draft trees of one round for N requests; probe: float64 [N, E], the uniforms of Uniforms.probe.

    The drafter is called once a depth, for at most `beam` nodes a request. Nothing here waits for the device:
    unusable logits are marked in the tree's `fault`, which `verification.verify` and `check_drafts` turn into an error.
    """
    n, device = probe.shape[0], probe.device
    root = torch.zeros(n, 1, dtype=torch.int64, device=device)
    frontier = Frontier(0, root, root, root[:, :, None][..., :0], root == 0)
    scores = torch.ones(n, 1, dtype=torch.float64, device=device)
    ranks = index = root  # among the frontier by slot path; in the pool
    layers: list[_Layer] = []
    size, offset = 1, 0
    for depth in range(config.depth):
        draft = truncate(drafter(frontier), config.support)
        plan = growth(draft, config)
        b = frontier.tokens.shape[1]
        slots = fill(draft, plan, probe[:, offset : offset + b])
        width = slots.tokens.shape[-1]
        child_scores = (scores.unsqueeze(-1) * slots.scores).flatten(1)
        lexical = torch.add(counting(width, device), ranks.unsqueeze(-1), alpha=width).flatten(1)
        occupied = (slots.occupied & frontier.occupied.unsqueeze(-1)).flatten(1)
        keys = ranking_keys(child_scores, lexical + size, occupied)
        tokens = slots.tokens.flatten(1)
        parents = index.unsqueeze(-1).expand(-1, -1, width).flatten(1)
        carried = (draft.tokens, plan.tail_law, draft.largest, frontier.occupied)
        layers.append(_Layer(keys, tokens, parents, child_scores, index, *carried))
        if depth + 1 < config.depth:
            best, chosen = keys.topk(min(config.beam, keys.shape[1]))
            origin = chosen // width
            paths = frontier.paths.gather(1, origin.unsqueeze(-1).expand(-1, -1, depth))
            token = tokens.gather(1, chosen)
            frontier = Frontier(depth + 1, token, origin, torch.cat([paths, token.unsqueeze(-1)], -1), best >= 0)
            scores = child_scores.gather(1, chosen)
            ranks = dense_ranks(lexical.gather(1, chosen))
            index = chosen + size
            offset = config.expansion(depth + 1, 0)
        size += keys.shape[1]
    return _rerank(layers, config, plan.anchors)


def _rerank(layers: list[_Layer], config: Config, anchors: int) -> Tree:
    """The R best of all candidates, parents before children."""
    keys = torch.cat([layer.keys for layer in layers], 1)
    n, pool = keys.shape
    best, kept = keys.topk(min(config.budget, pool))
    rows = kept.new_zeros(n, pool + 1).scatter_(1, kept + 1, (counting(kept.shape[1], kept.device) + 1).expand_as(kept))
    parent = torch.cat([layer.parents for layer in layers], 1).gather(1, kept)
    expanded = torch.cat([layer.expanded for layer in layers], 1)
    expansion = torch.full_like(rows, -1).scatter_(
        1, expanded, counting(expanded.shape[1], kept.device).expand_as(expanded)
    )
    slot, depth = _slots_and_depths(tuple((x.keys.shape[1], x.expanded.shape[1]) for x in layers), kept.device)
    largest = torch.cat([layer.largest for layer in layers], 1)
    occupied = torch.cat([layer.occupied for layer in layers], 1)
    return Tree(
        tokens=torch.cat([layer.tokens for layer in layers], 1).gather(1, kept),
        depths=depth[kept],
        slots=slot[kept],
        parents=torch.where(best >= 0, rows.gather(1, parent), 0),  # a row's parent comes before it, in padding too
        occupied=best >= 0,
        scores=torch.cat([layer.scores for layer in layers], 1).gather(1, kept),
        expansion=torch.cat([expansion[:, :1], expansion.gather(1, kept + 1)], 1),
        anchors=anchors,
        support=torch.cat([layer.support for layer in layers], 1),
        tail_law=torch.cat([layer.tail_law for layer in layers], 1),
        fault=~torch.isfinite(largest) & occupied,
    )


@lru_cache(maxsize=64)
def _slots_and_depths(layers: tuple[tuple[int, int], ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Slot position and depth int64 [pool] of every candidate, for layers of (children, parents)."""
    slots = [torch.arange(children, device=device) % (children // parents) for children, parents in layers]
    depths = [torch.full((children,), depth, device=device) for depth, (children, _) in enumerate(layers, 1)]
    return torch.cat(slots), torch.cat(depths)


def check_drafts(tree: Tree) -> None:
    """ValueError naming the request and expansion whose draft logits hold NaN or +inf, or are all -inf."""
    if bool(tree.fault.any()):
        request, expansion = tree.fault.nonzero()[0].tolist()
        raise ValueError(f"draft logits of request {request}, expansion {expansion}: NaN, +inf or all -inf")
