"""What a mutant is, and the few ways in which a round of the torch sampler is put together with one thing broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from rheo.config import Config
from rheo.decoding import Pair, Sampler, play_round, processing
from rheo.methods import METHODS
from rheo.rules import Rule, TreeRule
from rheo.tree import Frontier, Path, Tree
from rheo.uniforms import Uniforms, draw_uniforms
from rheo.verification import verify
from verify.subjects import DrawUniforms, PlayRound, TorchSubject, config_of


@dataclass(frozen=True)
class Mutant:
    """A sampler that is wrong in one thing.

    fault: what is wrong. symptom: the kind of public bug that it imitates. method: the one of METHODS that it breaks.
    play, draw: in place of `rheo.decoding.play_round` and `rheo.uniforms.draw_uniforms`.
    """

    name: str
    fault: str
    symptom: str
    method: str = "rheo"
    play: PlayRound = play_round
    draw: DrawUniforms = draw_uniforms

    def subject(self, settings: dict[str, Any]) -> TorchSubject:
        """The mutant as a sampler under test: settings of a Config. Its method is its own."""
        return TorchSubject(config_of(settings), METHODS[self.method], self.play, self.draw)


@dataclass(frozen=True)
class ChangedPair:
    """A pair whose target rows [N, R + 1, V] are changed before anyone sees them."""

    pair: Pair
    change: Callable[[Tree, Tensor], Tensor]

    def draft(self, frontier: Frontier) -> Tensor:
        return self.pair.draft(frontier)

    def target(self, tree: Tree) -> Tensor:
        return self.change(tree, self.pair.target(tree))


def with_uniforms(change: Callable[[Config, Uniforms], Uniforms]) -> PlayRound:
    """A round that uses its random numbers otherwise."""

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        return play_round(sampler, pair, change(sampler.config, uniforms))

    return play


def with_pair(change: Callable[[Sampler, Pair], Pair]) -> PlayRound:
    """A round that sees another pair of models."""

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        return play_round(sampler, change(sampler, pair), uniforms)

    return play


def with_target(change: Callable[[Tree, Tensor], Tensor]) -> PlayRound:
    """A round whose target rows are changed."""
    return with_pair(lambda _, pair: ChangedPair(pair, change))


def with_rule(rule: Rule | TreeRule) -> PlayRound:
    """A round that verifies by another rule."""

    def play(sampler: Sampler, pair: Pair, uniforms: Uniforms) -> tuple[Tree, Path]:
        return play_round(replace(sampler, method=replace(sampler.method, rule=rule)), pair, uniforms)

    return play


def verified(sampler: Sampler, tree: Tree, logits: Tensor, uniforms: Uniforms) -> Path:
    """The second half of a round: a tree verified against target rows [N, R + 1, V]."""
    return verify(tree, logits, uniforms, processing(sampler), sampler.method.rule)
