"""Acceptance at one node with all slots alive, averaged over the probe exactly, beside what optimal transport allows.

The twin of `verify.transport` for real vocabularies: floats, and only the support is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rheo.rules import RULES, Rule, TreeRule


@dataclass(frozen=True)
class Node:
    """p: float64 [S], the target's at the support's tokens x_1, x_2, ...; law: float64 [S - anchors], q~ of the tail;
    slots: K."""

    p: Tensor
    law: Tensor
    anchors: int
    slots: int


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


ACCEPTANCE: dict[Rule | TreeRule, Callable[[Node], float]] = {
    RULES["point_mass"]: point_mass,
    RULES["probe_first"]: probe_first,
    RULES["rrsw"]: rrsw,
}


def bound(node: Node) -> float:
    """The most that any lossless rule accepts with the probe's candidates, in closed form."""
    fillers = node.slots - node.anchors - 1
    tail = node.p[node.anchors :]
    offered = node.law[fillers:].clone()
    # The next one behind the fillers also takes the place of a filler that became the probe.
    offered[:1] = node.law[: fillers + 1].sum()
    return float(node.p[: node.anchors].sum() + tail[:fillers].sum() + torch.minimum(tail[fillers:], offered).sum())


def _tested(node: Node, anchors: Tensor, beside: Tensor) -> float:
    """Acceptance of the probe first, then of anchors that hold `anchors` of p, and of fillers; beside: the mass of p
    that is tested."""
    if not beside > 0:
        return 0.0
    tail, law = node.p[node.anchors :], beside * node.law
    accepted = torch.where(law > 0, (tail / law.clamp(min=torch.finfo(torch.float64).tiny)).clamp(max=1.0), 1.0)
    residual = (tail - law).clamp(min=0)
    left = beside - torch.minimum(tail, law).sum()
    fillers = node.slots - node.anchors - 1
    # Beside a probe from among the first fillers + 1 stand the others of these; beside any other the first fillers.
    among = torch.arange(len(tail), device=tail.device) <= fillers
    others = torch.where(among, residual[: fillers + 1].sum() - residual, residual[:fillers].sum())
    rest = (1 - accepted) * (anchors + others) / left if left > 0 else torch.zeros_like(tail)
    return float((node.law * beside * (accepted + rest)).sum())
