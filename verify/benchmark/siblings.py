"""Nodes whose children were all drawn from q, and how likely each child is accepted, tested one after the other.

The twin of the rules `multi_round` and `k_seq`, without coins and in normalised probabilities. Everything is float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rheo.rules.k_seq import factor
from rheo.tree import Tree

_TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class Siblings:
    """Nodes [...] whose w children were all drawn from q.

    p, law: float64 [..., S], the target's and q of the support's tokens. beside: float64 [..., 1], of all other tokens
    under p, summed on its own: 1 - 1 is hardly ever 0, and the K-th root of what is left of it would be felt.
    own: bool [..., w, S], which of these is the k-th child's; none where there is no such child.
    """

    p: Tensor
    law: Tensor
    beside: Tensor
    own: Tensor

    @property
    def there(self) -> Tensor:
        """bool [..., w]."""
        return self.own.any(-1)


@dataclass(frozen=True)
class Turns:
    """float64 [..., w]: how likely each child is the first that is accepted in its turn; and, if all are refused,
    its token is drawn after all."""

    accepted: Tensor
    after_all: Tensor


def siblings_of(tree: Tree, p: Tensor) -> Siblings:
    """The children of every row, [N, R + 1, ...]."""
    n, rows, _ = p.shape
    request = torch.arange(n, device=p.device).unsqueeze(-1)
    expansion = tree.expansion.clamp(min=0)
    support = tree.support[request, expansion]
    # What is no child writes behind the end.
    place = torch.where(tree.occupied, tree.parents * tree.drawn + tree.slots, rows * tree.drawn)
    tokens = tree.tokens.new_full((n, rows * tree.drawn + 1), -1).scatter(1, place, tree.tokens)
    tokens = tokens[:, :-1].reshape(n, rows, tree.drawn)
    own = tokens.unsqueeze(-1) == support.unsqueeze(2)
    beside = p.scatter(-1, support, 0.0).sum(-1, keepdim=True)
    return Siblings(p.gather(-1, support), tree.tail_law[request, expansion], beside, own)


def in_turn(siblings: Siblings, repeats: bool) -> Turns:
    """Tests by min(1, p / q), of which a refusal leaves the residual of p; repeats: and q as it was, not without the
    refused token."""
    left, law, beside = siblings.p, siblings.law, siblings.beside
    tested = []
    for own, there in zip(siblings.own.unbind(-2), siblings.there.unbind(-1), strict=True):
        tested.append(_ratio(left, law, own))
        rest = (left - law).clamp(min=0)
        total = rest.sum(-1, keepdim=True) + beside
        refusable = there.unsqueeze(-1) & (total > 0)
        left, beside = (
            torch.where(refusable, new / total.clamp(min=_TINY), old) for new, old in ((rest, left), (beside, beside))
        )
        if not repeats:
            law = law.masked_fill(own, 0.0)
            law = law / law.sum(-1, keepdim=True).clamp(min=_TINY)
    return _turns(siblings, torch.stack(tested, -1), left)


def with_factor(siblings: Siblings) -> Turns:
    """Tests by min(1, p / (rho q)), with the factor of the rule."""
    p, law, beside, width = siblings.p, siblings.law, siblings.beside, siblings.own.shape[-2]
    count = siblings.there.sum(-1, keepdim=True)
    inside, outside, drawn, children = (x.reshape(-1, x.shape[-1]) for x in (p, beside, law, count))
    rho = factor(inside, outside, drawn, children, width).reshape(count.shape)
    taken = torch.minimum(p / rho, law)
    overlap = taken.sum(-1, keepdim=True)
    due = (p - taken * (1 - (1 - overlap) ** count) / overlap.clamp(min=_TINY)).clamp(min=0)
    tested = torch.stack([_ratio(p / rho, law, own) for own in siblings.own.unbind(-2)], -1)
    return _turns(siblings, tested, due / (due.sum(-1, keepdim=True) + beside).clamp(min=_TINY))


def _ratio(p: Tensor, law: Tensor, own: Tensor) -> Tensor:
    """min(1, p / q) [...] of the token that `own` [..., S] names; 0 where it names none."""
    wanted, drawn = ((x * own).sum(-1) for x in (p, law))
    return torch.where(drawn > 0, wanted / drawn.clamp(min=_TINY), 0.0).clamp(max=1.0)


def _turns(siblings: Siblings, tested: Tensor, left: Tensor) -> Turns:
    """tested [..., w]: the chance of each child once those before it were refused. left [..., S]: the law of the draw
    when all were."""
    refused = (1 - tested).cumprod(-1)
    before = torch.cat([torch.ones_like(refused[..., :1]), refused[..., :-1]], -1)
    return Turns(before * tested, refused[..., -1:] * (siblings.own * left.unsqueeze(-2)).sum(-1))


def chances(tree: Tree, turns: Turns) -> Tensor:
    """The chance [N, R] of every node once its parent is reached; of equal siblings the first is the one followed."""
    n, nodes = tree.tokens.shape
    request, number = (torch.arange(size, device=tree.tokens.device) for size in (n, nodes))
    request = request.unsqueeze(-1)
    columns = (turns.accepted, turns.after_all)
    accepted, after_all = (x[request, tree.parents, tree.slots] * tree.occupied for x in columns)
    same_parent, same_token = (x.unsqueeze(2) == x.unsqueeze(1) for x in (tree.parents, tree.tokens))
    first = (same_parent & same_token & tree.occupied.unsqueeze(1)).long().argmax(-1)
    return torch.where(first == number, after_all, 0.0).scatter_add(1, first, accepted)
