"""Tree-wide transport: verification against the law of the whole outcome, not against one node's p.

The stop density s_u(y) is the probability that the output follows the tree to u, emits y and stops there. Nodes are
taken in the total order: each takes over as much of its parent's density as the law it was drawn from can cover.
Source: docs/theory.md, "Transport over the whole tree"; on a chain it is block verification (Sun et al., 2024).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from rheo.distributions import counting, softmax
from rheo.rules.stops import Stops
from rheo.tree import PROBE, Tree

# A density's share is divided by; below this it is 0.
_TINY = 1e-300

# Where a probe covers so much of everything, rounding may leave nothing to stop at should it be rejected. A trace of
# its parent's density then stays: so small a share decides only where all else is 0.
_ALL, _TRACE = 1 - 2.0**-40, 2.0**-80

# The least that is left beside what a probe covers.
_ROUNDING = 2.0**-53


def stops(tree: Tree, logits: Tensor) -> Stops:
    """The stop densities of the root and of all kept nodes; logits: [N, R + 1, V], of p at every row.

    A density is p times a share, but for the tokens of the row's truncated support: only those are touched. A row
    whose logits rule out every token keeps its share and has no weights.
    """
    n = len(logits)
    weights = softmax(logits)
    expanded = (tree.expansion >= 0).unsqueeze(-1)
    where = tree.expansion.clamp(min=0) + counting(n, logits.device, step=tree.support.shape[1]).unsqueeze(-1)
    tokens = tree.support.flatten(0, 1)[where]
    found = weights.gather(-1, tokens)
    weights.scatter_(-1, tokens, found.masked_fill(expanded, 0.0))
    inside = found.double().masked_fill(~expanded, 0.0)
    outside = weights.sum(-1).double()  # summed as float64 a row would be copied first
    total = outside + inside.sum(-1)
    usable = total > 0
    left = torch.where(usable.unsqueeze(-1), inside / total.unsqueeze(-1), 0.0)
    laws = pad(tree.tail_law, (tree.anchors, 0)).flatten(0, 1)[where]
    share = cover(tree, left, tokens, laws)
    masses = torch.where(usable, share * (left.sum(-1) + outside / total), share)
    return Stops(masses, weights, tokens, left * total.unsqueeze(-1))


def cover(tree: Tree, left: Tensor, tokens: Tensor, laws: Tensor) -> Tensor:
    """The shares float64 [N, R + 1] of all densities in the end; what is taken out of them is taken out of `left`.

    left: float64 [N, R + 1, S], p at every row's support, which `tokens` names; laws: q~ of it.
    """
    n, rows, size = left.shape
    parents = tree.parents + counting(n, left.device, step=rows).unsqueeze(-1)
    own = tokens.flatten(0, 1)[parents] == tree.tokens.unsqueeze(-1)
    probe = (tree.kinds == PROBE).unsqueeze(-1)
    occupied = tree.occupied.unsqueeze(-1)
    # A node that is no probe was drawn from a point mass, padding from nothing at all.
    law = torch.where(probe, laws.flatten(0, 1)[parents], own.double()) * occupied
    drawn = torch.where(occupied, (law * own).sum(-1, keepdim=True), torch.inf)
    position = own.long().argmax(-1, keepdim=True)
    flat, share = left.view(-1, size), left.new_zeros(n, rows)
    share[:, 0] = 1.0
    steps = (tree.parents.unsqueeze(-1), parents, law, drawn, position)
    for row, (parent, here, q, own_q, place) in enumerate(zip(*(x.unbind(1) for x in steps), strict=True), 1):
        density, scale = flat.index_select(0, here), share.gather(1, parent)
        overlap = torch.minimum(density, q / scale.clamp(min=_TINY))
        covered = overlap.sum(-1, keepdim=True) * scale
        accepted = (density.gather(1, place) * scale / own_q).clamp(max=1.0)
        share *= (1 - accepted) / (1 - covered).clamp(min=_ROUNDING)
        share[:, row] = accepted.squeeze(-1)
        least = density * (_TRACE * (covered > _ALL))
        flat.index_copy_(0, here, torch.maximum(density - overlap, least))
    return share
