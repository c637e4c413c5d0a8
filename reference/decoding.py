"""Several rounds: draft a tree, verify it, append what was emitted, start again. Nothing else is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from reference import growth
from reference.choose import Choose
from reference.distributions import Array, temper
from reference.growth import DraftAt, Growth, TreeGrowth
from reference.methods import Method
from reference.tree import Path, Tokens, Tree
from reference.verification import Step, recursive_step, verify
from rheo.config import Config

Model = Callable[[Tokens], Array]  # context -> weights [vocab], untempered


class Grow(Protocol):
    """growth.grow or lazy.grow."""

    def __call__(self, draft_at: DraftAt, config: Config, growth: Growth | TreeGrowth, choose: Choose) -> Tree: ...


@dataclass(frozen=True)
class Sampler:
    """A target, a draft, and how they are put together."""

    target: Model
    draft: Model
    config: Config
    method: Method
    grow: Grow = growth.grow
    step: Step = recursive_step


def play_round(sampler: Sampler, context: Tokens, choose: Choose) -> Path:
    """One round after `context`: 1 to depth + 1 tokens."""
    tree = sampler.grow(lambda tokens: sampler.draft(context + tokens), sampler.config, sampler.method.growth, choose)

    def target_at(tokens: Tokens) -> Array:
        return temper(sampler.target(context + tokens), sampler.config.temperature)

    return verify(tree, target_at, sampler.method.rule, choose, sampler.step)


def decode(sampler: Sampler, context: Tokens, rounds: int, choose: Callable[[int], Choose]) -> list[Path]:
    """`rounds` rounds after `context`; choose(i) is the randomness of round i. The paths in order."""
    paths: list[Path] = []
    for index in range(rounds):
        path = play_round(sampler, context, choose(index))
        paths.append(path)
        context += path.tokens
    return paths
