"""Verification of draft trees against the target, from the root to the first token nobody proposed."""

from __future__ import annotations

import torch
from torch import Tensor

from rheo.distributions import inverse_cdf
from rheo.growth import check_drafts
from rheo.processors import Processor
from rheo.rules import Rule
from rheo.rules.children import Children
from rheo.tree import PROBE, Path, Tree
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
    request = torch.arange(n, device=tree.tokens.device)
    row = torch.zeros_like(request)
    alive = torch.ones_like(request, dtype=torch.bool)
    tokens, rows = [], []
    steps = uniforms.draw.shape[1]
    for depth in range(steps):
        logits = target_logits[request, row]
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        weights = torch.softmax(process(logits), -1)
        if depth + 1 < steps:
            weights = rule(weights, survivors(tree, row), uniforms.coin[:, depth])
        token = inverse_cdf(weights, uniforms.draw[:, depth])
        child = (tree.parents == row.unsqueeze(-1)) & (tree.tokens == token.unsqueeze(-1)) & tree.occupied
        found = child.any(-1)
        tokens.append(torch.where(alive, token, -1))
        row = torch.where(found, child.long().argmax(-1) + 1, row)
        alive_next = alive & found
        rows.append(torch.where(alive_next, row, -1))
        alive = alive_next
    emitted = torch.stack(tokens, -1)
    check_drafts(tree)
    check_targets(tree, target_logits)
    return Path(emitted, torch.stack(rows, -1), (emitted >= 0).sum(-1))


def survivors(tree: Tree, row: Tensor) -> Children:
    """The surviving children of node `row` [N] of every request, as a rule wants them."""
    child = (tree.parents == row.unsqueeze(-1)) & tree.occupied
    is_probe = child & (tree.kinds == PROBE)
    has_probe = is_probe.any(-1, keepdim=True)
    probe = tree.tokens.gather(-1, is_probe.long().argmax(-1, keepdim=True))
    where = tree.expansion.gather(-1, row.unsqueeze(-1)).clamp(min=0).unsqueeze(-1)
    size = tree.support.shape[-1]
    support = tree.support.gather(1, where.expand(-1, -1, size)).squeeze(1)
    law = tree.tail_law.gather(1, where.expand(-1, -1, size)).squeeze(1)
    # Anchor i is the i-th token of the support, so its slot says where it stands there.
    anchors = min(tree.anchors, size)
    slots = torch.where(child & (tree.slots < anchors), tree.slots, size)
    anchor = torch.zeros(*row.shape, size + 1, dtype=torch.bool, device=row.device).scatter_(-1, slots, True)
    return Children(anchor[..., :size], probe, has_probe, support, law)


def check_targets(tree: Tree, target_logits: Tensor) -> None:
    """ValueError naming the request and row whose target logits hold NaN or +inf, or are all -inf."""
    used = torch.cat([torch.ones_like(tree.occupied[:, :1]), tree.occupied], 1)
    fault = ~torch.isfinite(target_logits.amax(-1)) & used
    if bool(fault.any()):
        request, row = fault.nonzero()[0].tolist()
        raise ValueError(f"target logits of request {request}, row {row}: NaN, +inf or all -inf")
