"""Acceptance at one node with all its children, averaged over what is drawn, beside the most that is possible there.

The twin of `verify.transport` for real vocabularies: floats, and only the support is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from rheo.distributions import inverse_cdf
from rheo.rules import RULES, TREE_RULES, Rule, TreeRule
from rheo.rules.k_seq import factor

_TINY = torch.finfo(torch.float64).tiny
_PATHS = 256  # of refusals, where they are too many to average over them exactly


@dataclass(frozen=True)
class Node:
    """p: float64 [S], the target's at the support's tokens x_1, x_2, ...; beside: float64 [1], the rest of p. law:
    float64 [S - anchors], q~ of the tail; where all children are drawn, q of the support. slots: K, children."""

    p: Tensor
    beside: Tensor
    law: Tensor
    anchors: int
    slots: int


# What a rule accepts


def point_mass(node: Node) -> float:
    """The K likeliest tokens, every one a point mass."""
    return float(node.p[: node.slots].sum())


def probe_first(node: Node) -> float:
    """The probe by min(1, p / q~), then anchors and fillers by the residual."""
    return _tested(node, node.p[: node.anchors].sum(), torch.ones_like(node.p[0]))


def rrsw(node: Node) -> float:
    """Anchors by p, then the probe and the fillers by what is left of it."""
    anchors = node.p[: node.anchors].sum()
    return float(anchors) + _tested(node, torch.zeros_like(anchors), (1 - anchors).clamp(min=0))


def independent(node: Node) -> float:
    """K draws from q, tested in turn: what a refusal leaves of p does not depend on the token refused."""
    left, beside, refused = node.p, node.beside, 1.0
    for _ in range(node.slots):
        refused *= 1 - float(torch.minimum(left, node.law).sum())
        rest = (left - node.law).clamp(min=0)
        total = rest.sum() + beside
        if not total > 0:
            break
        left, beside = rest / total, beside / total
    return 1 - refused


def k_seq(node: Node) -> float:
    """K draws from q, each by min(1, p / (rho q))."""
    count = torch.full((1, 1), node.slots, device=node.p.device)
    rho = factor(node.p.unsqueeze(0), node.beside.unsqueeze(0), node.law.unsqueeze(0), count, node.slots)
    refused = (node.law - node.p / rho.squeeze()).clamp(min=0).sum()
    return 1 - float(refused**node.slots)


def distinct(node: Node) -> float:
    """K draws, each from what the earlier ones left of q, tested in turn.

    What a refusal leaves depends on the token refused: the mean over `_PATHS` of refusals, always the same ones.
    """
    generator = torch.Generator().manual_seed(0)
    left, law, beside, refused = (
        x.repeat(_PATHS, 1) for x in (node.p, node.law, node.beside, torch.ones_like(node.beside))
    )
    for _ in range(min(node.slots, int((node.law > 0).sum()))):
        over = (law - left).clamp(min=0)
        refused = refused * over.sum(-1, keepdim=True)
        uniform = torch.rand(_PATHS, generator=generator, dtype=torch.float64).to(law.device)
        token = inverse_cdf(over, uniform).clamp(max=len(node.law) - 1).unsqueeze(-1)  # if none can be, all is 0 anyhow
        rest = (left - law).clamp(min=0)
        total = (rest.sum(-1, keepdim=True) + beside).clamp(min=_TINY)
        left, beside = rest / total, beside / total
        law = law.scatter(-1, token, 0.0)
        law = law / law.sum(-1, keepdim=True).clamp(min=_TINY)
    return 1 - float(refused.mean())


# What is possible: 1 + min over sets H of tokens of p(H) - Q(H), where Q(H): that all candidates are in H


def of_slots(node: Node) -> float:
    """Anchors, probe and fillers, in closed form."""
    fillers = node.slots - node.anchors - 1
    tail = node.p[node.anchors :]
    offered = node.law[fillers:].clone()
    # The next one behind the fillers also takes the place of a filler that became the probe.
    offered[:1] = node.law[: fillers + 1].sum()
    return float(node.p[: node.anchors].sum() + tail[:fillers].sum() + torch.minimum(tail[fillers:], offered).sum())


def of_draws(node: Node) -> float:
    """K independent draws. Q(H) is q(H)^K, which is convex, so that H holds the tokens with the least p / q."""
    p, law = _by_ratio(node)
    return 1 + min(0.0, float((p.cumsum(0) - law.cumsum(0) ** node.slots).min()))


def of_distinct(node: Node) -> float:
    """K draws without replacement. The sets H are those of the least p / q again."""
    p, law = _by_ratio(node)
    return 1 + min(0.0, float((p.cumsum(0) - all_inside(law, min(node.slots, len(law)))).min()))


def all_inside(law: Tensor, count: int) -> Tensor:
    """For every i, how likely `count` distinct draws from law [S] are all among the first i + 1 tokens; [S], positive.

    Tokens come up at rates q, and the draws are those that come first. So the k-th of H must come before any other:
    an integral over the time at which the first other comes, which is exponential, here over the logarithm of time,
    where the trapezoidal rule is as good as exact.
    """
    step = 0.2
    rest = law.flip(0).cumsum(0).flip(0)[1:]  # of the others
    time = torch.arange(-24, 6 - math.log(float(law.min())), step, dtype=torch.float64, device=law.device).exp()
    came = torch.zeros(len(time), count, dtype=torch.float64, device=law.device)  # that k of H have, k < count
    came[:, 0] = 1
    found = []
    for rate, other in zip(law[:-1], rest, strict=True):
        here = -torch.expm1(-rate * time).unsqueeze(-1)
        came = came * (1 - here) + pad(came[:, :-1] * here, (1, 0))
        found.append(((1 - came.sum(-1)) * other * time * (-other * time).exp()).sum() * step)
    return torch.stack([*found, torch.ones_like(law[0])])


def likeliest(p: Tensor, count: int) -> float:
    """The most that `count` candidates hold that are fixed before: the mass of the likeliest tokens of p [V]."""
    return float(p.topk(min(count, len(p))).values.sum())


@dataclass(frozen=True)
class Figures:
    """accepted: by a rule, at a node. bound: by the best of all rules, with the same candidates."""

    accepted: Callable[[Node], float]
    bound: Callable[[Node], float]


# At one node transport over the tree is probe-first: its scaling averages to the residual's.
AT_ONE_NODE: dict[Rule | TreeRule, Figures] = {
    RULES["point_mass"]: Figures(point_mass, point_mass),
    RULES["probe_first"]: Figures(probe_first, of_slots),
    RULES["rrsw"]: Figures(rrsw, of_slots),
    TREE_RULES["transport"]: Figures(probe_first, of_slots),
    RULES["multi_round"]: Figures(independent, of_draws),
    RULES["k_seq"]: Figures(k_seq, of_draws),
    RULES["multi_round_distinct"]: Figures(distinct, of_distinct),
}


def _by_ratio(node: Node) -> tuple[Tensor, Tensor]:
    """p and q of the tokens that may be drawn, by p / q, rising."""
    kept = node.law > 0
    p, law = node.p[kept], node.law[kept]
    order = (p / law).argsort(stable=True)
    return p[order], law[order]


def _tested(node: Node, anchors: Tensor, beside: Tensor) -> float:
    """Acceptance of the probe first, then of anchors that hold `anchors` of p, and of fillers; beside: the mass of p
    that is tested."""
    if not beside > 0:
        return 0.0
    tail, law = node.p[node.anchors :], beside * node.law
    accepted = torch.where(law > 0, (tail / law.clamp(min=_TINY)).clamp(max=1.0), 1.0)
    residual = (tail - law).clamp(min=0)
    left = beside - torch.minimum(tail, law).sum()
    fillers = node.slots - node.anchors - 1
    # Beside a probe from among the first fillers + 1 stand the others of these; beside any other the first fillers.
    among = torch.arange(len(tail), device=tail.device) <= fillers
    others = torch.where(among, residual[: fillers + 1].sum() - residual, residual[:fillers].sum())
    rest = (1 - accepted) * (anchors + others) / left if left > 0 else torch.zeros_like(tail)
    return float((node.law * beside * (accepted + rest)).sum())
