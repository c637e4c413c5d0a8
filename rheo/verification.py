"""Verification of draft trees against the target, from the root to the first token nobody proposed."""

from __future__ import annotations

from dataclasses import fields

import torch
from torch import Tensor

from rheo.distributions import counting, inverse_cdf
from rheo.growth import check_drafts
from rheo.processors import Processor
from rheo.rules import Rule
from rheo.rules.children import Children
from rheo.tree import PROBE, Path, Tree
from rheo.truncation import HALF
from rheo.uniforms import Uniforms


def verify(tree: Tree, target_logits: Tensor, uniforms: Uniforms, process: Processor, rule: Rule) -> Path:
    """Walk down the trees while children are accepted; emit one token more, which no child proposed.

    target_logits: [N, R + 1, V], any float dtype, raw; row 0 follows the root, row i + 1 follows node i.
    process: turns raw logits into those of p, temperature included. The walk has D + 1 steps for every request,
    with finished ones masked, so nothing waits for the device until the result is handed over.

    Raises ValueError naming the first row, of the draft's or the target's logits, that holds NaN or +inf or is all
    -inf; nothing is emitted then. ValueError on a shape that does not fit the tree.
    """
    n, nodes = tree.tokens.shape
    if target_logits.ndim != 3 or target_logits.shape[:2] != (n, nodes + 1):
        raise ValueError(f"target logits must be [{n}, {nodes + 1}, V], got {list(target_logits.shape)}")
    everywhere = survivors(tree)
    row = first = counting(n, tree.tokens.device) * (nodes + 1)  # rows of all requests, numbered through
    alive = row >= 0
    tokens, rows = [], []
    steps = uniforms.draw.shape[1]
    for depth in range(steps):
        logits = target_logits.flatten(0, 1).index_select(0, row)
        weights = torch.softmax(process(logits.float() if logits.dtype in HALF else logits), -1)
        if depth + 1 < steps:
            weights = rule(weights, at(everywhere, row), uniforms.coin[:, depth])
        token = inverse_cdf(weights, uniforms.draw[:, depth])
        tokens.append(torch.where(alive, token, -1))
        child = (tree.parents == (row - first).unsqueeze(-1)) & (tree.tokens == token.unsqueeze(-1)) & tree.occupied
        found, node = child.max(-1)
        alive = alive & found
        row = torch.where(alive, first + node + 1, row)
        rows.append(torch.where(alive, node + 1, -1))
    emitted = torch.stack(tokens, -1)
    check_drafts(tree)
    check_targets(tree, target_logits)
    return Path(emitted, torch.stack(rows, -1), (emitted >= 0).sum(-1))


def survivors(tree: Tree) -> Children:
    """The surviving children of every row of every request, as a rule wants them: N is N (R + 1) here."""
    n, nodes = tree.tokens.shape
    device, m = tree.tokens.device, tree.anchors
    # Dropped and probeless slots write behind the end, so that no surviving child is overwritten.
    probe = torch.full((n, nodes + 2), -1, device=device)
    probe.scatter_(1, torch.where(tree.occupied & (tree.kinds == PROBE), tree.parents, nodes + 1), tree.tokens)
    alive = torch.zeros(n, (nodes + 1) * m + 1, dtype=torch.bool, device=device)
    place = torch.where(tree.occupied & (tree.slots < m), tree.parents * m + tree.slots, (nodes + 1) * m)
    alive.scatter_(1, place, True)
    expanded = tree.support.shape[1]
    where = (tree.expansion.clamp(min=0) + counting(n, device).unsqueeze(-1) * expanded).flatten()
    support = tree.support.flatten(0, 1).index_select(0, where)
    law = tree.tail_law.flatten(0, 1).index_select(0, where)
    probes = probe[:, : nodes + 1].reshape(-1, 1)
    return Children(
        anchors=support[:, :m],
        alive=alive[:, :-1].reshape(n * (nodes + 1), m),
        probe=probes,
        tail=support[:, m:],
        law=torch.where(probes >= 0, law, 0.0),
    )


def at(children: Children, row: Tensor) -> Children:
    """Those rows [N] of the children of all rows."""
    return Children(*(getattr(children, field.name).index_select(0, row) for field in fields(Children)))


def check_targets(tree: Tree, target_logits: Tensor) -> None:
    """ValueError naming the request and row whose target logits hold NaN or +inf, or are all -inf."""
    used = torch.cat([torch.ones_like(tree.occupied[:, :1]), tree.occupied], 1)
    fault = ~torch.isfinite(target_logits.amax(-1)) & used
    if bool(fault.any()):
        request, row = fault.nonzero()[0].tolist()
        raise ValueError(f"target logits of request {request}, row {row}: NaN, +inf or all -inf")
