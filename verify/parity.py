"""Torch and reference under the same uniforms: the same trees, the same paths.

The reference takes its single-draw form, whose law the exact tier shows to be that of its recursion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reference import growth
from reference.choose import Choose, Site, inverse_cdf
from reference.distributions import Array, temper
from reference.methods import METHODS as REFERENCE
from reference.tree import Path, Tree
from reference.truncation import weights_from_logits
from reference.verification import single_draw_step, verify
from rheo.config import Config
from rheo.decoding import Pair, Sampler, play_round
from rheo.methods import METHODS
from rheo.tree import Frontier
from rheo.tree import Tree as TorchTree
from rheo.uniforms import split_uniforms
from verify.cases import Case
from verify.cells import ONE_BELOW
from verify.precision import Precision
from verify.subjects import PlayRound
from verify.torch_toys import ToyPair, automaton
from verify.toys import Table, Tokens, Toy

Logits = Callable[[Tokens], Tensor]  # tokens since the root -> logits [V]


@dataclass(frozen=True)
class Disagreement:
    """A round in which the two differ. near: some uniform lay within `slack` of a boundary, where rounding decides."""

    near: bool
    line: str


Played = tuple[tuple[tuple[Tokens, int], ...], Tokens]  # tokens and slot of every kept node; tokens emitted


@dataclass(frozen=True)
class Expected:
    """A round of the reference; near as in `Disagreement`."""

    played: Played
    near: bool


@dataclass(frozen=True)
class FunctionPair:
    """A pair of models given as functions of the drafted tokens, the same for every request."""

    draft_logits: Logits
    target_logits: Logits

    def draft(self, frontier: Frontier) -> Tensor:
        return torch.stack([torch.stack([self.draft_logits(tuple(p)) for p in row]) for row in frontier.paths.tolist()])

    def target(self, tree: TorchTree) -> Tensor:
        return torch.stack(
            [torch.stack([self.target_logits(p) for p in prefixes(tree, i)]) for i in range(len(tree.tokens))]
        )


def prefixes(tree: TorchTree, request: int) -> list[Tokens]:
    """Tokens since the root of every row of one request's tree, the root's first."""
    found: list[Tokens] = [()]
    parents, tokens = tree.parents[request].tolist(), tree.tokens[request].tolist()
    for parent, token in zip(parents, tokens, strict=True):
        found.append((*found[parent], token))
    return found


def boundary_rows(config: Config) -> NDArray[np.float64]:
    """Uniforms of rounds that take every decision at an end: all 0, all 1 - ulp, and the kinds mixed.

    Behind a tested probe rounding may decide a draw at an end (`_reading`), which would excuse a wrong coin: some of
    the draws are in the middle.
    """
    sizes = (config.expansions, config.depth, config.depth + 1, config.draws - config.expansions)
    ends = (0.0, ONE_BELOW)
    mixed = product(ends, ends, (0.0, 0.5, ONE_BELOW))
    return np.array([np.repeat((probe, coin, draw, probe), sizes) for probe, coin, draw in mixed])


def disagreements(
    pair: Pair,
    logits: tuple[Logits, Logits],
    config: Config,
    method: str,
    numbers: NDArray[np.float64],
    slack: float,
    play: PlayRound = play_round,
) -> list[Disagreement]:
    """Play every row of uniforms with both, and report each round whose tree or path differs.

    pair: what torch is given, a batch of len(numbers). logits: (draft, target), what the reference is given.
    """
    return differences(pair, reference_rounds(logits, config, method, numbers, slack), config, method, numbers, play)


def reference_rounds(
    logits: tuple[Logits, Logits], config: Config, method: str, numbers: NDArray[np.float64], slack: float
) -> list[Expected]:
    """What the reference makes of every row of uniforms."""
    rounds = []
    for given in numbers:
        near: list[Site] = []
        played = _reference_round(logits, config, method, _reading(config, given, slack, near))
        rounds.append(Expected(played, bool(near)))
    return rounds


def differences(
    pair: Pair,
    expected: Sequence[Expected],
    config: Config,
    method: str,
    numbers: NDArray[np.float64],
    play: PlayRound = play_round,
) -> list[Disagreement]:
    """Each row of uniforms with which torch plays another round than expected; the pair is a batch of as many."""
    uniforms = split_uniforms(config, torch.from_numpy(numbers))
    tree, path = play(Sampler(config, METHODS[method]), pair, uniforms)
    found = []
    for row, right in enumerate(expected):
        seen = _seen(tree, row), tuple(path.tokens[row, : path.lengths[row]].tolist())
        if seen != right.played:
            found.append(Disagreement(right.near, f"{method}: torch {seen}, reference {right.played}"))
    return found


def _reference_round(logits: tuple[Logits, Logits], config: Config, method: str, choose: Choose) -> Played:
    draft, target = logits

    def draft_at(tokens: Tokens) -> Array:
        return weights_from_logits(draft(tokens).numpy())

    def target_at(tokens: Tokens) -> Array:
        return temper(weights_from_logits(target(tokens).numpy()), float(config.temperature))

    plain = replace(config, temperature=float(config.temperature))
    tree: Tree = growth.grow(draft_at, plain, REFERENCE[method].growth, choose)
    path: Path = verify(tree, target_at, REFERENCE[method].rule, choose, single_draw_step)
    return tuple((node.tokens, node.path[-1]) for node in tree.nodes), path.tokens


def _seen(tree: TorchTree, row: int) -> tuple[tuple[Tokens, int], ...]:
    nodes = zip(prefixes(tree, row)[1:], tree.slots[row].tolist(), tree.occupied[row].tolist(), strict=True)
    return tuple((tokens, slot) for tokens, slot, occupied in nodes if occupied)


def _reading(config: Config, given: Sequence[float] | NDArray[np.float64], slack: float, near: list[Site]) -> Choose:
    """choose() by one row of uniforms; sites within `slack` of an inner boundary are appended to `near`."""
    e, d = config.expansions, config.depth
    tested: set[int] = set()

    def column(site: Site) -> int:
        if site.name == "node":
            return config.column(site.rank)
        if site.name == "probe":
            return config.expansion(site.depth, site.rank)
        return {"coin": e, "stop": e, "draw": e + d}[site.name] + site.depth

    def choose(weights: Array, site: Site) -> int:
        uniform = float(given[column(site)])
        ends = np.cumsum(weights) / weights.sum()
        bounds = ends[weights > 0][:-1]
        # Where p equals q~, a coin that always accepts may miss 1 by an ulp, and the draw from the residual behind
        # it may keep a sliver of a token at either end: rounding decides there too.
        if site.name in ("coin", "stop"):
            tested.add(site.depth)
        if site.name == "stop" or (site.name == "coin" and len(weights) > 2):
            # One uniform picks a node, or a child out of several: where its mass is 0 rounding may leave a sliver.
            bounds = np.append(ends, 0.0)
        elif site.name == "coin":
            bounds = np.append(bounds, 1.0)
        elif site.name == "draw" and site.depth in tested:
            bounds = np.append(bounds, (0.0, 1.0))
        if np.any(np.abs(bounds - uniform) <= slack):
            near.append(site)
        return inverse_cdf(weights, uniform)

    return choose


def toy_rounds(case: Case, method: str, precision: Precision, numbers: NDArray[np.float64]) -> list[Expected]:
    """What the reference makes of every row of uniforms on a case."""
    return reference_rounds(toy_logits(case.toy, precision.dtype), case.config, method, numbers, precision.slack)


def toy_disagreements(
    case: Case,
    method: str,
    precision: Precision,
    numbers: NDArray[np.float64],
    expected: Sequence[Expected] | None = None,
    play: PlayRound = play_round,
) -> list[str]:
    """A line for every row of uniforms on a case where the two differ and rounding is no excuse.

    expected: the reference's rounds, where they are known already.
    """
    expected = toy_rounds(case, method, precision, numbers) if expected is None else expected
    pair = ToyPair(automaton(case.toy, precision.dtype), torch.zeros(len(numbers), dtype=torch.int64))
    found = differences(pair, expected, case.config, method, numbers, play)
    return [difference.line for difference in found if not difference.near]


def toy_logits(toy: Toy, dtype: torch.dtype) -> tuple[Logits, Logits]:
    """A toy's draft and target as the reference is given them: logits rounded to the torch sampler's dtype."""

    def logits(table: Table) -> Logits:
        return lambda tokens: torch.from_numpy(table.logits(tokens)).to(dtype)

    return logits(toy.draft), logits(toy.target)
