"""Mutants that verify against rows of the target that are not those of the node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from rheo.decoding import Pair, Sampler
from rheo.distributions import counting
from rheo.processors import temperature
from rheo.tree import Frontier, Tree
from verify.mutants.mutant import ChangedPair, Mutant, with_pair, with_target
from verify.prefix_table import PrefixPair
from verify.subjects import PlayRound
from verify.torch_toys import ToyPair


def rows_of(logits: Tensor, rows: Tensor) -> Tensor:
    """Rows int64 [N, r] of logits [N, R + 1, V]."""
    return logits.gather(1, rows.unsqueeze(-1).expand(-1, -1, logits.shape[-1]))


def _parents_row(tree: Tree, logits: Tensor) -> Tensor:
    return rows_of(logits, pad(tree.parents, (1, 0)))


def siblings(tree: Tree) -> Tensor:
    """Rows int64 [N, R + 1]: for every row that of the best other child of its parent, its own where it is alone."""
    nodes = counting(tree.tokens.shape[1], tree.tokens.device)
    sibling = (tree.parents.unsqueeze(-1) == tree.parents.unsqueeze(-2)) & (nodes.unsqueeze(-1) != nodes)
    found, other = (sibling & tree.occupied.unsqueeze(-2)).max(-1)
    return pad(torch.where(found, other, nodes) + 1, (1, 0))


def _siblings_row(tree: Tree, logits: Tensor) -> Tensor:
    return rows_of(logits, siblings(tree))


def _leaves(tree: Tree) -> Tensor:
    """bool [N, R + 1, 1]: rows without a kept child, whose draw is the bonus token."""
    children = torch.zeros_like(tree.parents[:, :1]).repeat(1, tree.parents.shape[1] + 1)
    return (children.scatter_add(1, tree.parents, tree.occupied.long()) == 0).unsqueeze(-1)


def _greedy_bonus(tree: Tree, logits: Tensor) -> Tensor:
    return torch.where(_leaves(tree), temperature(0)(logits), logits)


def _untempered_bonus(sampler: Sampler, pair: Pair) -> Pair:
    scale = float(sampler.config.temperature)
    return ChangedPair(pair, lambda tree, logits: torch.where(_leaves(tree), logits * scale, logits))


def _tempered_twice(sampler: Sampler, pair: Pair) -> Pair:
    process = temperature(sampler.config.temperature)
    return ChangedPair(pair, lambda _, logits: process(logits))


@dataclass(frozen=True)
class StalePair:
    """Drafts after one context, verifies after another."""

    fresh: PrefixPair
    stale: PrefixPair

    def draft(self, frontier: Frontier) -> Tensor:
        return self.fresh.draft(frontier)

    def target(self, tree: Tree) -> Tensor:
        return self.stale.target(tree)


def _behind(sampler: Sampler, pair: Pair) -> Pair:
    """The target's context lacks its last token."""
    if not isinstance(pair, PrefixPair):
        return pair  # a single round, with nothing before it
    vocab = pair.table.target.shape[1]
    return StalePair(pair, replace(pair, state=(pair.state - 1).clamp(min=0) // vocab))


def _not_rolled_back(sampler: Sampler, pair: Pair) -> Pair:
    """Where the last token of the target's context was emitted in place of a draft, the draft is still there."""
    if not isinstance(pair, PrefixPair):
        return pair
    vocab = pair.table.target.shape[1]
    before = (pair.state - 1).clamp(min=0) // vocab
    kept = before * vocab + pair.table.draft[before].argmax(-1) + 1
    return StalePair(pair, replace(pair, state=torch.where(pair.state == 0, 0, kept)))


def mixed(table: Tensor, other: Tensor, weight: float, t: Fraction | float) -> Tensor:
    """Logits that temperature t turns into weight p + (1 - weight) q, for logits of p and of q [..., V]."""
    process = temperature(t)
    p, q = (torch.softmax(process(logits), -1) for logits in (table, other))
    return (weight * p + (1 - weight) * q).log() * float(t)


def against_mixture(weight: float) -> PlayRound:
    """A round that verifies against weight p + (1 - weight) q: one token is off by (1 - weight) TV(p, q)."""

    def change(sampler: Sampler, pair: Pair) -> Pair:
        assert isinstance(pair, PrefixPair | ToyPair)
        table: Any = pair.table  # either's holds the logits of both models
        target = mixed(table.target, table.draft, weight, sampler.config.temperature)
        return replace(pair, table=replace(table, target=target))

    return with_pair(change)


MUTANTS = (
    Mutant(
        "parents_row",
        "a node is verified against the target's row of its parent",
        "logits indexed from the token itself and not from the one behind it",
        method="topk",
        play=with_target(_parents_row),
    ),
    Mutant(
        "siblings_row",
        "a node is verified against the target's row of a sibling",
        "rows of a flattened tree in another order than its nodes",
        play=with_target(_siblings_row),
    ),
    Mutant(
        "greedy_bonus",
        "the token behind a leaf is the target's likeliest",
        "a bonus token by argmax",
        method="topk",
        play=with_target(_greedy_bonus),
    ),
    Mutant(
        "untempered_bonus",
        "the token behind a leaf is drawn at temperature 1",
        "a bonus token at the wrong temperature",
        play=with_pair(_untempered_bonus),
    ),
    Mutant(
        "tempered_twice",
        "the target's logits are divided by T twice",
        "temperature applied in the model and again in the verifier",
        method="rrsw",
        play=with_pair(_tempered_twice),
    ),
    Mutant(
        "bf16_target",
        "the target's logits are rounded to bf16",
        "a target verified in half precision",
        play=with_target(lambda _, logits: logits.bfloat16().to(logits.dtype)),
    ),
    Mutant(
        "last_token_not_cached",
        "from the second round on, the target does not see the last token",
        "a cache that lacks the entry of the bonus token",
        play=with_pair(_behind),
    ),
    Mutant(
        "cache_not_rolled_back",
        "from the second round on, the target sees the best draft in place of the last token",
        "entries of rejected tokens kept after a cache rollback",
        play=with_pair(_not_rolled_back),
    ),
    Mutant(
        "verified_against_mixture",
        "the target is 0.9 p + 0.1 q",
        "a target blended with the draft to raise acceptance",
        play=against_mixture(0.9),
    ),
)
