"""Several rounds: draft trees, verify them, append what was emitted, start again. Nothing else is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from rheo.config import Config
from rheo.growth import TreeGrowth, grow
from rheo.methods import Method
from rheo.processors import Processor, chain, temperature
from rheo.tree import Frontier, Path, Tree
from rheo.uniforms import Uniforms
from rheo.verification import verify


class Pair(Protocol):
    """A target and a draft at the contexts of N requests."""

    def draft(self, frontier: Frontier) -> Tensor:
        """Draft logits [N, b, V] of the frontier's nodes, untempered."""
        ...

    def target(self, tree: Tree) -> Tensor:
        """Raw target logits [N, R + 1, V]: after the context, and after every node of the tree."""
        ...


# contexts int64 [N, L], padded with -1 on the right, and their lengths int64 [N] -> the pair there
Models = Callable[[Tensor, Tensor], Pair]


@dataclass(frozen=True)
class Sampler:
    """A configuration, a method, and what processes the target's logits behind the configuration's temperature."""

    config: Config
    method: Method
    process: Processor | None = None


@torch.inference_mode()
def play_round(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
    """One round for N requests: 1 to depth + 1 tokens each. Raises ValueError as `grow` and `verify` do.

    The tensors it returns are inference tensors: clone them before changing them in place.
    """
    if uniforms.draw.shape[-1] != sampler.config.depth + 1:
        raise ValueError(f"uniforms are for depth {uniforms.draw.shape[-1] - 1}, not {sampler.config.depth}")
    growth = sampler.method.growth
    read = uniforms.growth if isinstance(growth, TreeGrowth) else uniforms.probe
    tree = grow(pair.draft, read, sampler.config, growth)
    return tree, verify(tree, pair.target(tree), uniforms, processing(sampler), sampler.method.rule)


def processing(sampler: Sampler) -> Processor:
    """What makes p of the target's raw logits: the temperature, then the sampler's own processor."""
    further = (sampler.process,) if sampler.process else ()
    return chain(temperature(sampler.config.temperature), *further)


@dataclass(frozen=True)
class Decoded:
    """tokens: int64 [N, L], contexts and what was emitted, padded with -1; lengths: int64 [N]; rounds: int64
    [N, rounds], tokens emitted by each round."""

    tokens: Tensor
    lengths: Tensor
    rounds: Tensor


@torch.inference_mode()
def decode(
    sampler: Sampler,
    models: Models,
    contexts: Tensor,
    lengths: Tensor,
    rounds: int,
    uniforms: Callable[[int], Uniforms],
) -> Decoded:
    """`rounds` rounds after contexts int64 [N, L] of the given lengths [N]; uniforms(i) are those of round i.

    Behind its length a context may hold anything; the models see -1 there. ValueError for less than one round, and as
    `play_round`.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    n, longest = contexts.shape
    step = sampler.config.depth + 1
    tokens = torch.full((n, longest + rounds * step), -1, dtype=torch.int64, device=contexts.device)
    inside = torch.arange(longest, device=contexts.device) < lengths.unsqueeze(-1)
    tokens[:, :longest] = torch.where(inside, contexts, -1)
    emitted = []
    for index in range(rounds):
        _, path = play_round(sampler, models(tokens, lengths), uniforms(index))
        tokens.scatter_(1, lengths.unsqueeze(-1) + torch.arange(step, device=tokens.device), path.tokens)
        lengths = lengths + path.lengths
        emitted.append(path.lengths)
    return Decoded(tokens, lengths, torch.stack(emitted, -1))
