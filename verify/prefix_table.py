"""A toy as the torch sampler sees it when nothing but the protocol is known: logits of every prefix, asked for once.

Prefixes are numbered as the nodes of a complete tree: the empty one is 0, and s followed by token t is s V + t + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rheo.tree import Frontier, Tree
from verify.joint import Toy, prefixes

_MOST = 500_000  # prefixes


@dataclass(frozen=True)
class PrefixTable:
    """target, draft: float64 [prefixes, V], untempered logits after every prefix of up to some length."""

    target: Tensor
    draft: Tensor

    def after(self, state: Tensor, tokens: Tensor) -> Tensor:
        """The numbers of prefixes [...] followed by tokens int64 [..., t]; -1 stays."""
        for token in tokens.unbind(-1):
            state = torch.where(token < 0, state, state * self.target.shape[1] + token + 1)
        return state


def prefix_table(toy: Toy, longest: int) -> PrefixTable:
    """Both models after every prefix of up to `longest` tokens. ValueError if those are too many."""
    count = sum(toy.vocab**length for length in range(longest + 1))
    if count > _MOST:
        raise ValueError(f"{count} prefixes of up to {longest} tokens of {toy.vocab} are too many: {_MOST} at most")
    levels = [prefixes(toy.vocab, n) for n in range(longest + 1)]
    return PrefixTable(*(_logits(np.concatenate([model(level) for level in levels])) for model in (toy.p, toy.q)))


def _logits(rows: NDArray[np.float64]) -> Tensor:
    with np.errstate(divide="ignore"):
        return torch.from_numpy(np.log(rows))


@dataclass(frozen=True)
class PrefixPair:
    """The pair at the contexts of N requests; state: int64 [N], their numbers."""

    table: PrefixTable
    state: Tensor

    def draft(self, frontier: Frontier) -> Tensor:
        state = self.state.unsqueeze(-1).expand_as(frontier.tokens)
        return self.table.draft[self.table.after(state, frontier.paths)]

    def target(self, tree: Tree) -> Tensor:
        vocab = self.table.target.shape[1]
        rows = self.state.unsqueeze(-1).repeat(1, tree.tokens.shape[1] + 1)
        # Row 0 is right from the start, and each pass makes the rows one level deeper right.
        for _ in range(int(tree.depths.max())):
            rows[:, 1:] = torch.where(tree.occupied, rows.gather(1, tree.parents) * vocab + tree.tokens + 1, 0)
        return self.table.target[rows]
