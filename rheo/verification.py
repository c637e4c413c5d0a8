"""Verification of draft trees against the target, from the root to the first token nobody proposed."""

from __future__ import annotations

from dataclasses import fields

import torch
from torch import Tensor
from torch.nn.functional import pad

from rheo.distributions import counting, inverse_cdf, softmax, unusable
from rheo.processors import Processor
from rheo.rules import Rule, TreeRule
from rheo.rules.children import Children
from rheo.tree import Path, Tree
from rheo.truncation import widened
from rheo.uniforms import Uniforms


@torch.inference_mode()
def verify(tree: Tree, target_logits: Tensor, uniforms: Uniforms, process: Processor, rule: Rule | TreeRule) -> Path:
    """The rows that are accepted, and one token more, which no child of the last of them proposed.

    target_logits: [N, R + 1, V], any float dtype, raw; row 0 follows the root, row i + 1 follows node i.
    process: turns raw logits into those of p, temperature included. Nothing waits for an accelerator until the result
    is handed over.

    Raises ValueError naming the first row, of the draft's or the target's logits, that holds NaN or +inf or is all
    -inf, or of the processed ones that leave no token; nothing is emitted then. ValueError on a shape that does not
    fit the tree.
    """
    n, nodes = tree.tokens.shape
    steps = uniforms.draw.shape[1]
    if target_logits.ndim != 3 or target_logits.shape[:2] != (n, nodes + 1):
        raise ValueError(f"target logits must be [{n}, {nodes + 1}, V], got {list(target_logits.shape)}")
    if uniforms.coin.shape != (n, steps - 1) or uniforms.draw.shape != (n, steps):
        raise ValueError(
            f"coins and draws must be [{n}, D] and [{n}, D + 1], got {list(uniforms.coin.shape)} and "
            f"{list(uniforms.draw.shape)}"
        )
    if isinstance(rule, TreeRule):
        emitted, drafted = leap(tree, target_logits, uniforms, process, rule)
    else:
        emitted, drafted = walk(tree, target_logits, uniforms, process, rule)
    check_drafts(tree)
    check_targets(tree, target_logits)
    check_draws(emitted, drafted, target_logits.shape[-1])
    return Path(emitted, drafted, (emitted >= 0).sum(-1))


def leap(
    tree: Tree, target_logits: Tensor, uniforms: Uniforms, process: Processor, rule: TreeRule
) -> tuple[Tensor, Tensor]:
    """The row to stop at by the round's first coin, the root first, and the token there by its first draw.

    Returns tokens and rows as in `Path`.
    """
    n, rows, _ = target_logits.shape
    stops = rule.stops(tree, process(widened(target_logits).flatten(0, 1)).view(n, rows, -1))
    row = inverse_cdf(stops.masses, uniforms.coin[:, 0]).clamp(max=rows - 1).unsqueeze(-1)
    token = inverse_cdf(stops.density(row.squeeze(-1)), uniforms.draw[:, 0]).unsqueeze(-1)
    depths, parents, tokens = (pad(x, (1, 0)) for x in (tree.depths, tree.parents, tree.tokens))
    depth = depths.gather(1, row)
    emitted = torch.full_like(uniforms.draw, -1, dtype=torch.int64).scatter_(1, depth, token)
    drafted = torch.full_like(emitted, -1)
    for _ in range(emitted.shape[1] - 1):  # up to the root, which is its own parent and writes behind the end
        place = (depth - 1) % emitted.shape[1]
        last = depth == 0
        emitted.scatter_(1, place, torch.where(last, emitted.gather(1, place), tokens.gather(1, row)))
        drafted.scatter_(1, place, torch.where(last, -1, row))
        row = parents.gather(1, row)
        depth = depths.gather(1, row)
    return emitted, drafted


def walk(
    tree: Tree, target_logits: Tensor, uniforms: Uniforms, process: Processor, rule: Rule
) -> tuple[Tensor, Tensor]:
    """Down the trees, while children are accepted: D + 1 steps for every request, with finished ones masked.

    Returns tokens and rows as in `Path`.
    """
    n, nodes = tree.tokens.shape
    steps = uniforms.draw.shape[1]
    everywhere = survivors(tree, widened(target_logits[:0]).dtype)
    vocab = target_logits.shape[-1]
    logits = target_logits.flatten(0, 1)
    names = torch.where(tree.occupied, tree.parents * vocab + tree.tokens, -1)  # a child by its parent and token
    row = torch.zeros(n, dtype=torch.int64, device=names.device)
    first = counting(n, row.device) * (nodes + 1)  # rows of all requests are numbered through
    going = row == 0
    tokens, rows = [], []
    for depth in range(steps):
        here = first + row
        weights = softmax(process(widened(logits.index_select(0, here))))
        if depth + 1 < steps:
            weights = rule(weights, at(everywhere, here), uniforms.coin[:, depth])
        token = inverse_cdf(weights, uniforms.draw[:, depth])
        tokens.append(torch.where(going, token, -1))
        accepted, node = (names == torch.add(token, row, alpha=vocab).unsqueeze(-1)).max(-1)
        going = going & accepted
        row = torch.where(going, node + 1, row)
        rows.append(torch.where(going, row, -1))
        if all_stopped(going):
            break
    emitted, drafted = (pad(torch.stack(found, -1), (0, steps - len(found)), value=-1) for found in (tokens, rows))
    return emitted, drafted


def all_stopped(going: Tensor) -> bool:
    """Whether no request goes on, where the answer is at hand; False where it would have to be waited for."""
    return going.device.type == "cpu" and not bool(going.any())


def survivors(tree: Tree, dtype: torch.dtype) -> Children:
    """The surviving children of every row of every request, as a rule wants them: N is N (R + 1) here."""
    n, nodes = tree.tokens.shape
    device, m = tree.tokens.device, tree.anchors
    if tree.leading is not None:
        raise ValueError("a rule for one node needs as many anchors at every node")
    rows, expanded = n * (nodes + 1), tree.support.shape[1]
    where = (tree.expansion.clamp(min=0) + counting(n, device).unsqueeze(-1) * expanded).flatten()
    support = tree.support.flatten(0, 1).index_select(0, where)
    law = tree.tail_law.flatten(0, 1).index_select(0, where)
    # Every anchor and probe writes its token at its row and slot; fillers and padding write behind the end.
    width = m + tree.drawn
    slots = torch.full((n, (nodes + 1) * width + 1), -1, device=device)
    place = torch.where(tree.occupied & (tree.slots < width), tree.parents * width + tree.slots, (nodes + 1) * width)
    slots = slots.scatter_(1, place, tree.tokens)[:, :-1].reshape(rows, width)
    anchors, probe = slots[:, :m], slots[:, m:]
    tail = support[:, m : m + law.shape[1]]
    law = torch.where(probe[:, :1] >= 0, law, 0.0)  # where one was drawn, so was the first
    drawn = torch.where(tail.unsqueeze(1) == probe.unsqueeze(-1), law.unsqueeze(1), 0.0).sum(-1)
    return Children(anchors, probe.clamp(min=0), drawn, tail, law.to(dtype))


def at(children: Children, row: Tensor) -> Children:
    """Those rows [N] of the children of all rows."""
    return Children(*(getattr(children, field.name).index_select(0, row) for field in fields(Children)))


def check_drafts(tree: Tree) -> None:
    """ValueError naming the request and expansion whose draft logits hold NaN or +inf, or are all -inf."""
    if bool(tree.fault.any()):
        request, expansion = tree.fault.nonzero()[0].tolist()
        raise ValueError(f"draft logits of request {request}, expansion {expansion}: NaN, +inf or all -inf")


def check_targets(tree: Tree, target_logits: Tensor) -> None:
    """ValueError naming the request and row whose target logits hold NaN or +inf, or are all -inf."""
    used = torch.cat([torch.ones_like(tree.occupied[:, :1]), tree.occupied], 1)
    fault = unusable(target_logits.amax(-1)) & used
    if bool(fault.any()):
        request, row = fault.nonzero()[0].tolist()
        raise ValueError(f"target logits of request {request}, row {row}: NaN, +inf or all -inf")


def check_draws(tokens: Tensor, rows: Tensor, vocab: int) -> None:
    """ValueError naming the request and row whose processed logits ruled out every token: its draw is none of them.

    tokens, rows: int64 [N, D + 1], as in `Path`; the draw of a step is made at the row that the step before accepted.
    """
    lost = tokens >= vocab
    if bool(lost.any()):
        request, step = lost.nonzero()[0].tolist()
        row = int(rows[request, step - 1]) if step else 0
        raise ValueError(f"target logits of request {request}, row {row}: no token is left of them")
