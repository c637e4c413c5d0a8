"""Toys as the torch sampler sees them: logits by table lookup, for whole batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rheo.tree import Frontier, Tree
from verify.toys import Table, Tokens, Toy


@dataclass(frozen=True)
class Automaton:
    """The contexts of a toy as states: step: int64 [states, V]; target, draft: [states, V] logits.

    A state is a prefix that some table lists, or starts a listed one; every other context is the last state.
    """

    step: Tensor
    target: Tensor
    draft: Tensor

    def after(self, tokens: Tensor, state: Tensor) -> Tensor:
        """The states [...] reached from states [...] by tokens int64 [..., t]; -1 stays."""
        for token in tokens.unbind(-1):
            state = torch.where(token < 0, state, self.step[state, token.clamp(min=0)])
        return state


def automaton(toy: Toy, dtype: torch.dtype) -> Automaton:
    """The toy's automaton with logits in the given dtype."""
    listed = {*toy.target.listed, *toy.draft.listed, ()}
    prefixes = sorted({prefix[:i] for prefix in listed for i in range(len(prefix) + 1)})
    number = {prefix: i for i, prefix in enumerate(prefixes)}
    other = len(prefixes)
    step = torch.full((other + 1, toy.vocab), other)
    for prefix, i in number.items():
        for token in range(toy.vocab):
            step[i, token] = number.get((*prefix, token), other)
    nowhere: Tokens = (toy.vocab,)  # a prefix no table can list

    def logits(table: Table) -> Tensor:
        return torch.stack([torch.from_numpy(table.logits(prefix)) for prefix in [*prefixes, nowhere]]).to(dtype)

    return Automaton(step, logits(toy.target), logits(toy.draft))


@dataclass(frozen=True)
class ToyPair:
    """The pair at the contexts of N requests; state: int64 [N]."""

    table: Automaton
    state: Tensor

    def draft(self, frontier: Frontier) -> Tensor:
        state = self.table.after(frontier.paths, self.state.unsqueeze(-1).expand_as(frontier.tokens))
        return self.table.draft[state]

    def target(self, tree: Tree) -> Tensor:
        rows = self.state.unsqueeze(-1).repeat(1, tree.tokens.shape[1] + 1)
        # Row 0 is right from the start, and each pass makes the rows one level deeper right.
        for _ in range(int(tree.depths.max())):
            rows[:, 1:] = self.table.step[rows.gather(1, tree.parents), tree.tokens]
        return self.table.target[rows]


@dataclass(frozen=True)
class ToyModels:
    """The toy as `rheo.decoding.Models`."""

    table: Automaton

    def __call__(self, contexts: Tensor, lengths: Tensor) -> ToyPair:
        return ToyPair(self.table, self.table.after(contexts, torch.zeros_like(lengths)))
