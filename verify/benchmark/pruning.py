"""Smaller trees out of a large one, without drafting anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from rheo.tree import Tree


def best(depths: Sequence[int], budget: int, depth: int) -> list[int]:
    """Which nodes, of one request's in the total order, a growth of slots keeps under a smaller budget and depth.

    Neither changes which nodes are expanded down to that depth, nor what is drawn there.
    """
    return [node for node, own in enumerate(depths) if own <= depth][:budget]


def pruned(tree: Tree, nodes: Sequence[int]) -> Tree:
    """These nodes alone, in rising order, for one request or several with the same shape; the parent of each must be
    the root or among them."""
    kept = torch.tensor(nodes, dtype=torch.int64, device=tree.tokens.device)
    rows = torch.cat([kept.new_zeros(1), kept + 1])
    place = kept.new_zeros(tree.tokens.shape[1] + 1).scatter_(0, rows, torch.arange(len(rows), device=kept.device))
    columns = {key: getattr(tree, key)[:, kept] for key in ("tokens", "depths", "slots", "occupied", "scores")}
    return replace(tree, **columns, parents=place[tree.parents[:, kept]], expansion=tree.expansion[:, rows])


def narrowed(tree: Tree, p: Tensor) -> tuple[Tree, Tensor]:
    """The same tree and p [N, R + 1, V] over fewer tokens: those that the tree names, and one for all others.

    For N = 1. What a round is expected to accept does not depend on how the others share their mass.
    """
    known: Tensor = torch.unique(torch.cat([tree.support.flatten(), tree.tokens.flatten()]))
    inside = p[..., known]
    others = torch.ones(p.shape[-1], dtype=torch.bool, device=p.device).index_fill_(0, known, False)
    rest = p[..., others].sum(-1, keepdim=True)
    tokens, support = (torch.searchsorted(known, names.contiguous()) for names in (tree.tokens, tree.support))
    return replace(tree, tokens=tokens, support=support), torch.cat([inside, rest], -1)
