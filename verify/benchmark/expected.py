"""How far a drafted tree is expected to be followed, given the target's probabilities on it: no luck, a finite sum.

A rule has one entry in REACH. Everything is float64, for N requests of R nodes; p: [N, R + 1, V], the target's
distribution at every row, after temperature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rheo.rules import RULES, TREE_RULES, Rule, TreeRule
from rheo.tree import Tree
from verify.benchmark.siblings import chances, in_turn, siblings_of, with_factor

_TINY = torch.finfo(torch.float64).tiny

Reach = Callable[[Tree, Tensor], Tensor]  # tree, p -> [N, R + 1], the probability that a round's path passes each row


@dataclass(frozen=True)
class Probes:
    """What the surviving probes of a tree leave to others; [N, R + 1] unless said otherwise.

    there: bool, rows whose probe survived. drawn, wanted: q~ and p of its token, where there.
    tail: int64 [N, R + 1, n], support tokens behind the anchors, and law: float64 [N, R + 1, n], q~ of them.
    """

    there: Tensor
    drawn: Tensor
    wanted: Tensor
    tail: Tensor
    law: Tensor


def point_mass(tree: Tree, p: Tensor) -> Tensor:
    """Every child is accepted as often as the target draws it."""
    return along(tree, child_mass(tree, p))


def probe_first(tree: Tree, p: Tensor) -> Tensor:
    """A probe by min(1, p / q~), then the others by the residual of p that its refusal leaves."""
    probes = probes_of(tree, p)
    return along(tree, _after_probe(tree, p, probes, torch.ones_like(probes.drawn)))


def rrsw(tree: Tree, p: Tensor) -> Tensor:
    """Anchors by p; the probe and, if it is refused, the fillers by what the surviving anchors leave of p."""
    probes = probes_of(tree, p)
    mass = child_mass(tree, p)
    anchors = torch.where(tree.slots < tree.anchors, mass, 0.0)
    beside = 1 - torch.zeros_like(probes.drawn).scatter_add(1, tree.parents, anchors)
    behind = _after_probe(tree, p, probes, beside.clamp(min=0))
    return along(tree, torch.where(tree.slots < tree.anchors, mass, behind))


def transport(tree: Tree, p: Tensor) -> Tensor:
    """A row is passed by every round that stops at it or below it."""
    masses = TREE_RULES["transport"].stops(tree, p.log()).masses
    reach = masses / masses.sum(-1, keepdim=True)
    for row in range(tree.parents.shape[1], 0, -1):  # parents come first
        reach.scatter_add_(1, tree.parents[:, row - 1 : row], reach[:, row : row + 1].clone())
    return reach


def independent(tree: Tree, p: Tensor) -> Tensor:
    """Child after child, every one against q and what the refusals before it leave of p."""
    return along(tree, chances(tree, in_turn(siblings_of(tree, p), repeats=True)))


def distinct(tree: Tree, p: Tensor) -> Tensor:
    """The same where a child was drawn from what its elder siblings left of q."""
    return along(tree, chances(tree, in_turn(siblings_of(tree, p), repeats=False)))


def k_seq(tree: Tree, p: Tensor) -> Tensor:
    """Child after child by min(1, p / (rho q)), then what is due of p beside all of them."""
    return along(tree, chances(tree, with_factor(siblings_of(tree, p))))


REACH: dict[Rule | TreeRule, Reach] = {
    RULES["point_mass"]: point_mass,
    RULES["probe_first"]: probe_first,
    RULES["rrsw"]: rrsw,
    RULES["multi_round"]: independent,
    RULES["multi_round_distinct"]: distinct,
    RULES["k_seq"]: k_seq,
    TREE_RULES["transport"]: transport,
}


def tokens(tree: Tree, reach: Tensor) -> Tensor:
    """Expected tokens of a round [N]: one, and one for every drafted row that is passed."""
    return 1 + torch.where(tree.occupied, reach[:, 1:], 0.0).sum(-1)


def by_depth(tree: Tree, reach: Tensor, depth: int) -> Tensor:
    """The probability [N, depth + 1] that a round accepts a token at each depth; 1 at depth 0."""
    passed = torch.where(tree.occupied, reach[:, 1:], 0.0)
    sums = reach.new_zeros(len(reach), depth + 1).scatter_add(1, tree.depths, passed)
    sums[:, 0] = 1.0
    return sums


def along(tree: Tree, chance: Tensor) -> Tensor:
    """Reach [N, R + 1] from the chance [N, R] of every node once its parent is reached."""
    reach = chance.new_ones(len(chance), chance.shape[1] + 1)
    chance = torch.where(tree.occupied, chance, 0.0)
    for _ in range(int(tree.depths.max())):  # every pass makes the rows one level deeper right
        reach[:, 1:] = chance * reach.gather(1, tree.parents)
    return reach


def child_mass(tree: Tree, p: Tensor) -> Tensor:
    """p [N, R] of every node's token at its parent."""
    request = torch.arange(len(p), device=p.device).unsqueeze(-1)
    return torch.where(tree.occupied, p[request, tree.parents, tree.tokens], 0.0)


def probes_of(tree: Tree, p: Tensor) -> Probes:
    """The surviving probes of every row."""
    n, rows, _ = p.shape
    request = torch.arange(n, device=p.device).unsqueeze(-1)
    expansion = tree.expansion.clamp(min=0)
    tail, law = tree.support[request, expansion, tree.anchors :], tree.tail_law[request, expansion]
    tail = tail[..., : law.shape[-1]]
    is_probe = tree.occupied & (tree.slots == tree.anchors)
    # What is no probe writes behind the end.
    place = torch.where(is_probe, tree.parents, rows)
    token = tree.tokens.new_full((n, rows + 1), -1).scatter(1, place, tree.tokens)[:, :rows]
    there = token >= 0
    drawn = torch.where(tail == token.unsqueeze(-1), law, 0.0).sum(-1)
    wanted = p.gather(-1, token.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return Probes(there, drawn, torch.where(there, wanted, 0.0), tail, law)


def acceptance(probes: Probes, beside: Tensor | float = 1.0) -> Tensor:
    """min(1, p / q~) [N, R + 1], p in units of `beside`; 0 where no probe survived."""
    ratio = probes.wanted / (beside * probes.drawn).clamp(min=_TINY)
    return torch.where(probes.there, ratio.clamp(max=1.0), 0.0)


def _after_probe(tree: Tree, p: Tensor, probes: Probes, beside: Tensor) -> Tensor:
    """The chance [N, R] of every node where its parent's probe is tested first, with a mass [N, R + 1] of p `beside`
    what was tested before; as in p where no probe survived."""
    accepted = acceptance(probes, beside)
    share = torch.minimum(p.gather(-1, probes.tail), beside.unsqueeze(-1) * probes.law).sum(-1)
    left = beside - share  # of p, when the probe was refused
    spread = torch.where(left > 0, beside * (1 - accepted) / left.clamp(min=_TINY), 0.0)

    def at_parent(row: Tensor) -> Tensor:
        return row.gather(1, tree.parents)

    request = torch.arange(len(p), device=p.device).unsqueeze(-1)
    own = probes.tail[request, tree.parents] == tree.tokens.unsqueeze(-1)
    law = torch.where(own, probes.law[request, tree.parents], 0.0).sum(-1)
    mass = child_mass(tree, p)
    other = at_parent(spread) * (mass - at_parent(beside) * law).clamp(min=0)
    tested = torch.where(tree.slots == tree.anchors, at_parent(beside * accepted), other)
    return torch.where(at_parent(probes.there), tested, mass)
