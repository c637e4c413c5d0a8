"""Layered growth: expand the best nodes depth by depth, then rerank all candidates.

Source: EAGLE-2's expand-then-rerank (Li et al., 2024), over slots as RheoSampling defines them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from rheo.config import Config
from rheo.distributions import counting, unusable
from rheo.order import LAST_POSITION, ranking_keys, ranks_of
from rheo.slots import SlotPlan, fill
from rheo.tree import Frontier, Tree
from rheo.truncation import Draft, truncate

Drafter = Callable[[Frontier], Tensor]  # -> draft logits [N, b, V], untempered
Growth = Callable[[Draft, Config], SlotPlan]  # the slots of every parent


@runtime_checkable
class TreeGrowth(Protocol):
    """A growth for the whole tree: not slots that compete, but any trees whose nodes' laws their rule can tell."""

    def grow(self, drafter: Drafter, uniforms: Tensor, config: Config) -> Tree:
        """The draft trees of one round; uniforms: float64 [N, config.draws]."""
        ...


@dataclass(frozen=True)
class _Layer:
    """What one depth adds to the pool of candidates: b parents with w children each. Pool indices count the root as 0.

    keys, tokens: int64 [N, b w]; scores: float64 [N, b w]. expanded: int64 [N, b], pool indices of the parents.
    support, tail_law: [N, b, ...]. largest, occupied: [N, b]; leading: [N, b] or None.
    """

    keys: Tensor
    tokens: Tensor
    scores: Tensor
    expanded: Tensor
    support: Tensor
    tail_law: Tensor
    largest: Tensor
    occupied: Tensor
    leading: Tensor | None


@torch.inference_mode()
def grow(drafter: Drafter, probe: Tensor, config: Config, growth: Growth | TreeGrowth) -> Tree:
    """The draft trees of one round for N requests; probe: float64 [N, E], the uniforms of Uniforms.probe, but for a
    TreeGrowth [N, config.draws], those of Uniforms.growth.

    The drafter is called once a depth, for at most `beam` nodes a request; like all of this, in inference mode.
    Nothing here waits for the device: unusable logits are marked in the tree's `fault`, which `verification.verify`
    turns into an error. ValueError on a shape that does not fit the configuration.
    """
    expected = config.draws if isinstance(growth, TreeGrowth) else config.expansions
    if probe.ndim != 2 or probe.shape[1] != expected:
        raise ValueError(f"probe uniforms must be [N, {expected}], got {list(probe.shape)}")
    if isinstance(growth, TreeGrowth):
        return growth.grow(drafter, probe, config)
    n, device = probe.shape[0], probe.device
    root = torch.zeros(n, 1, dtype=torch.int64, device=device)
    frontier = Frontier(0, root, root, root == 0, None)
    scores = torch.ones(n, 1, dtype=torch.float64, device=device)
    ranks = index = root  # among the frontier by slot path; in the pool
    layers: list[_Layer] = []
    size = 1
    for depth in range(config.depth):
        draft = drafts_of(drafter, frontier, config, scores)
        plan = growth(draft, config)
        first = config.expansion(depth, 0)
        slots = fill(draft, plan, probe[:, first : first + frontier.tokens.shape[1]])
        width = slots.tokens.shape[-1]
        child_scores = (scores.unsqueeze(-1) * slots.scores).flatten(1)
        last = counting(width, device, step=-1, first=LAST_POSITION - size)
        behind = torch.sub(last, ranks.unsqueeze(-1), alpha=width).flatten(1)
        occupied = (slots.occupied & frontier.occupied.unsqueeze(-1)).flatten(1)
        keys = ranking_keys(child_scores, behind, occupied)
        tokens = slots.tokens.flatten(1)
        carried = (draft.tokens, plan.tail_law, draft.largest, frontier.occupied, plan.leading)
        layers.append(_Layer(keys, tokens, child_scores, index, *carried))
        if depth + 1 < config.depth:
            best, chosen = keys.topk(min(config.beam, keys.shape[1]))
            frontier = Frontier(depth + 1, tokens.gather(1, chosen), chosen // width, best >= 0, frontier)
            scores = child_scores.gather(1, chosen)
            ranks = ranks_of(behind.gather(1, chosen))
            index = chosen + size
        size += keys.shape[1]
    return _rerank(layers, config, plan)


def drafts_of(drafter: Drafter, frontier: Frontier, config: Config, scores: Tensor | None = None) -> Draft:
    """The truncated drafts of a frontier's nodes with these scores [N, b].

    ValueError on logits of another shape than the frontier's.
    """
    logits = drafter(frontier)
    if logits.ndim != 3 or logits.shape[:2] != frontier.tokens.shape:
        raise ValueError(f"draft logits must be {[*frontier.tokens.shape, 'V']}, got {list(logits.shape)}")
    return truncate(logits, config.support, frontier.depth, scores)


def _rerank(layers: list[_Layer], config: Config, plan: SlotPlan) -> Tree:
    """The R best of all candidates, parents before children."""

    def joined(field: str) -> Tensor:
        return torch.cat([getattr(layer, field) for layer in layers], 1)

    keys = joined("keys")
    n, pool = keys.shape
    best, kept = keys.topk(min(config.budget, pool))
    pattern = _pool_pattern(tuple((x.keys.shape[1], x.expanded.shape[1]) for x in layers), kept.device)
    parent, slot, depth = pattern.index_select(1, kept.flatten()).view(3, *kept.shape)
    rows = kept.new_zeros(n, pool + 1).scatter_(
        1, kept + 1, counting(kept.shape[1], kept.device, first=1).expand_as(kept)
    )
    expanded = joined("expanded")
    expansion = torch.full_like(rows, -1).scatter_(
        1, expanded, counting(expanded.shape[1], kept.device).expand_as(expanded)
    )
    occupied = best >= 0
    return Tree(
        tokens=joined("tokens").gather(1, kept),
        depths=depth,
        slots=slot,
        # A row's parent comes before it, in padding too.
        parents=rows.gather(1, expanded.gather(1, parent)) * occupied,
        occupied=occupied,
        scores=joined("scores").gather(1, kept),
        expansion=torch.cat([expansion[:, :1], expansion.gather(1, kept + 1)], 1),
        anchors=plan.anchors,
        support=joined("support"),
        tail_law=joined("tail_law"),
        fault=unusable(joined("largest")) & joined("occupied"),
        leading=None if plan.leading is None else joined("leading").gather(1, parent),
    )


@lru_cache(maxsize=64)
def _pool_pattern(layers: tuple[tuple[int, int], ...], device: torch.device) -> Tensor:
    """int64 [3, pool]: parent (counted through all expansions), slot position and depth of every candidate, for
    layers of (children, parents)."""
    columns = []
    before = 0
    for depth, (children, parents) in enumerate(layers, start=1):
        child, width = torch.arange(children, device=device), children // parents
        columns.append(torch.stack([child // width + before, child % width, torch.full_like(child, depth)]))
        before += parents
    return torch.cat(columns, 1)
