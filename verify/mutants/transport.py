"""Mutants of tree-wide transport, and of scores that are learned: a term of the rule exchanged, an order, a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from rheo.config import Config
from rheo.decoding import Pair, Sampler, play_round
from rheo.distributions import counting, softmax
from rheo.growth import TreeGrowth
from rheo.rules import TreeRule, transport
from rheo.rules.stops import Stops
from rheo.slots import SlotPlan, draw_probe
from rheo.tree import PROBE, Path, Tree
from rheo.truncation import Draft
from rheo.uniforms import Uniforms
from verify.mutants.mutant import Mutant, with_rule

# The densities float64 [N, R + 1, V], the parents' rows int64 [N, 1], what is taken float64 [N, V] and the factor for
# the rest [N, 1] -> the densities with both applied.
Apply = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def dense(apply: Apply) -> TreeRule:
    """Transport on densities over the whole vocabulary, from one of its terms."""

    def stops(tree: Tree, logits: Tensor) -> Stops:
        p = torch.where(pad(tree.occupied, (1, 0), value=True).unsqueeze(-1), softmax(logits.double()), 0.0)
        here = torch.arange(len(p), device=p.device).unsqueeze(-1)
        densities = torch.zeros_like(p)
        densities[:, 0] = p[:, 0]
        laws = torch.zeros_like(p)
        where = tree.expansion.clamp(min=0)
        tail = tree.support[here, where][..., tree.anchors :]
        laws.scatter_(-1, tail, tree.tail_law[here, where])
        for row in range(1, p.shape[1]):
            parent, token = tree.parents[:, row - 1 : row], tree.tokens[:, row - 1 : row]
            point = torch.zeros_like(p[:, 0]).scatter_(-1, token, 1.0)
            probe = (tree.kinds == PROBE)[:, row - 1 : row]
            law = torch.where(probe, laws[here, parent].squeeze(1), point) * tree.occupied[:, row - 1 : row]
            density = densities[here, parent].squeeze(1)
            overlap = torch.minimum(law, density)
            covered = overlap.sum(-1, keepdim=True)
            accepted = (density.gather(-1, token) / law.gather(-1, token)).clamp(max=1.0)
            accepted = torch.where(tree.occupied[:, row - 1 : row], accepted, 0.0)
            rest = torch.where(covered < 1, (1 - accepted) / (1 - covered), 0.0)
            densities = apply(densities, parent, overlap, rest)
            densities[:, row] = accepted * p[:, row]
        lost = densities.sum((1, 2)) <= 0  # what is wrong may leave nothing to stop at: then p at the root
        densities[:, 0] = torch.where(lost.unsqueeze(-1), p[:, 0], densities[:, 0])
        return Stops(densities.sum(-1), densities, torch.zeros_like(tail[..., :1]), torch.zeros_like(p[..., :1]))

    return TreeRule(stops)


def right(densities: Tensor, parent: Tensor, overlap: Tensor, rest: Tensor) -> Tensor:
    """As it should be."""
    return torch.sub(densities, _at(parent, densities) * overlap.unsqueeze(1)) * rest.unsqueeze(-1)


def _parent_alone(densities: Tensor, parent: Tensor, overlap: Tensor, rest: Tensor) -> Tensor:
    here = _at(parent, densities)
    return (densities - here * overlap.unsqueeze(1)) * torch.where(here, rest.unsqueeze(-1), 1.0)


def _not_taken(densities: Tensor, parent: Tensor, overlap: Tensor, rest: Tensor) -> Tensor:
    """The token of a node that is no probe is taken all the same."""
    certain = (overlap > 0).sum(-1, keepdim=True) <= 1
    return right(densities, parent, overlap * certain, rest)


def _at(parent: Tensor, densities: Tensor) -> Tensor:
    """bool [N, R + 1, 1]: the parents' rows."""
    return (counting(densities.shape[1], parent.device) == parent).unsqueeze(-1)


def _depth_first(tree: Tree, logits: Tensor) -> Stops:
    """Transport that takes the nodes branch by branch; what it says is put back into the rows' own order."""
    order = pad(depth_first(tree) + 1, (1, 0))  # row of the tree at each place, the root first
    place = order.argsort(-1)
    nodes = order[:, 1:] - 1

    def moved(x: Tensor, index: Tensor) -> Tensor:
        return x.gather(1, index.view(*index.shape, *[1] * (x.dim() - 2)).expand(-1, -1, *x.shape[2:]))

    there = replace(
        tree,
        tokens=moved(tree.tokens, nodes),
        depths=moved(tree.depths, nodes),
        slots=moved(tree.slots, nodes),
        occupied=moved(tree.occupied, nodes),
        scores=moved(tree.scores, nodes),
        parents=place.gather(1, moved(tree.parents, nodes)),
        expansion=moved(tree.expansion, order),
    )
    found = transport.stops(there, moved(logits, order))
    return Stops(*(moved(x, place) for x in (found.masses, found.outside, found.tokens, found.inside)))


def depth_first(tree: Tree) -> Tensor:
    """int64 [N, R]: the nodes in the order in which a walk down every branch in turn meets them, padding last."""
    base, deepest = int(tree.slots.max()) + 2, int(tree.depths.max())
    keys = torch.zeros_like(tree.expansion)
    for i in range(tree.tokens.shape[1]):
        above = keys.gather(1, tree.parents[:, i : i + 1]).squeeze(1)
        keys[:, i + 1] = above + (tree.slots[:, i] + 1) * base ** (deepest - tree.depths[:, i])
    return torch.where(tree.occupied, keys[:, 1:], base ** (deepest + 1)).argsort(dim=-1, stable=True)


def _learned(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
    """Deeper probes count less in a round whose first probe was not the likeliest of its tail."""
    likeliest: list[Tensor] = []

    def growth(draft: Draft, config: Config) -> SlotPlan:
        assert not isinstance(sampler.method.growth, TreeGrowth)
        plan = sampler.method.growth(draft, config)
        if plan.tail_law.shape[-1] == 0:
            return plan
        if not likeliest:
            likeliest.append(draw_probe(draft, plan, uniforms.probe[:, :1]).squeeze(-1) == plan.anchors)
        learned = torch.where(likeliest[0], plan.proxy, plan.proxy / 2)
        return replace(
            plan, proxy=plan.proxy if draft.depth == 0 else torch.maximum(learned, plan.scores[..., plan.anchors])
        )

    return play_round(replace(sampler, method=replace(sampler.method, growth=growth)), pair, uniforms)


MUTANTS = (
    Mutant(
        "transport_depth_first",
        "transport takes the nodes branch by branch, not in the order in which they were revealed",
        "a tree stored and processed depth first",
        method="rheo-transport",
        play=with_rule(TreeRule(_depth_first)),
    ),
    Mutant(
        "transport_scales_parent_alone",
        "a rejected probe makes room at its parent alone",
        "a residual renormalised where it arose, and nowhere else",
        method="rheo-transport",
        play=with_rule(dense(_parent_alone)),
    ),
    Mutant(
        "transport_overlap_kept",
        "what a probe covers stays in its parent's density",
        "a node's mass counted at the node and once more above it",
        method="calibrated-transport",
        play=with_rule(dense(_not_taken)),
    ),
    Mutant(
        "learned_from_this_round",
        "deeper probes count half in a round whose first probe was unlikely",
        "an acceptance estimate updated within the round it is used in",
        method="calibrated",
        play=_learned,
    ),
)
