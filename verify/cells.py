"""What a round decides, as cells of the unit interval: which uniforms lead to which outcome, by the reference.

A torch round reads every decision from its own uniform by inverse CDF. So each decision splits [0, 1) into cells,
and a sampler whose cells all have the right ends has the right law.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from reference.choose import Site
from reference.distributions import Array, Number
from reference.growth import Growth, TreeGrowth
from reference.rules import Rule, TreeRule
from reference.rules.children import Children
from reference.slots import SlotPlan
from reference.tree import Node, SlotPath, TargetAt, Tokens, Tree
from reference.truncation import truncate
from reference.verification import single_draw_step, survivors
from verify.cases import Case
from verify.enumeration import Decision, enumerate_outcomes
from verify.laws import draft_of, step_key, tree_key

ONE_BELOW = float(np.nextafter(1.0, 0.0))


@dataclass(frozen=True)
class Cell:
    """The uniforms [low, high) with which a decision falls on one index."""

    low: Fraction
    high: Fraction

    @property
    def width(self) -> Fraction:
        return self.high - self.low

    @cached_property
    def middle(self) -> float:
        return float((self.low + self.high) / 2)

    def ends(self, margin: float, from_zero: bool = True, to_one: bool = True) -> tuple[float, float]:
        """Inside both ends by `margin`, at most a quarter of the cell.

        from_zero, to_one: no margin at the ends of the whole interval, but 0 and 1 - ulp themselves.
        """
        step = min(Fraction(margin), self.width / 4)
        low = 0.0 if from_zero and self.low == 0 else float(self.low + step)
        high = ONE_BELOW if to_one and self.high == 1 else float(self.high - step)
        return low, high


_SLIVER = 1e-14

EVERYTHING = Cell(Fraction(0), Fraction(1))


def cells(weights: Array) -> list[Cell]:
    """The cell of every index for weights [n] that sum to 1; empty ones included. Floats are taken as they are."""
    bounds = [Fraction(bound) for bound in np.cumsum(weights)]
    bounds = [bound / bounds[-1] for bound in bounds]
    return [Cell(a, b) for a, b in pairwise([Fraction(0), *bounds])]


@dataclass(frozen=True)
class Probe:
    """One probe of a class: where it is drawn, and what it became.

    position: where it stands among the kept nodes. tokens: the tail, ascending; law: q~ [n] of them; index: into both.
    """

    site: Site
    position: int
    tokens: tuple[int, ...]
    law: Array
    index: int

    @cached_property
    def cell(self) -> Cell:
        return cells(self.law)[self.index]


def with_exact_plans(tree: Tree, case: Case, growth: Growth) -> Tree:
    """The tree with the case's own slot plans: the logits that shaped it may be rounded, its laws must not be."""
    draft_at = draft_of(case)
    tokens = {(): (), **{node.path: node.tokens for node in tree.nodes}}
    scores: dict[SlotPath, Number] = {(): 1}
    plans: dict[SlotPath, SlotPlan] = {}
    for path in sorted(tree.plans, key=len):
        plan = growth(truncate(draft_at(tokens[path]), case.config.support, len(path), scores[path]), case.config)
        plans[path] = plan
        scores.update((node.path, scores[path] * worth(plan, node)) for node in tree.children(path))
    return Tree(tree.nodes, plans)


def worth(plan: SlotPlan, node: Node) -> Number:
    """The score of a kept node relative to its parent's, by its parent's plan."""
    if node.kind == "probe":
        return 1 if plan.proxy is None else plan.proxy
    if node.kind == "anchor":
        return plan.anchor_scores[node.path[-1]]
    return plan.tail_scores[list(plan.tail).index(node.token)]


def regrown(growth: TreeGrowth, decisions: tuple[Decision, ...], case: Case) -> Tree:
    """The tree that the same decisions make of the case's own drafts, where a growth has no slots to rank."""
    taken = iter(decisions)
    return growth.grow(draft_of(case), case.config, lambda weights, site: next(taken).index)


def probes_of(tree: Tree, decisions: tuple[Decision, ...]) -> tuple[Probe, ...]:
    """The probes of one class: what growth decided to get this tree, whose slot plans are exact."""
    found = []
    for decision in decisions:
        path = expanded(tree, decision.site)
        position = next(i for i, n in enumerate(tree.nodes) if n.path[:-1] == path and n.kind == "probe")
        plan = tree.plans[path]
        order = np.argsort(plan.tail)
        tokens = tuple(int(t) for t in plan.tail[order])
        found.append(Probe(decision.site, position, tokens, plan.tail_law[order], decision.index))
    return tuple(found)


def expanded(tree: Tree, site: Site) -> SlotPath:
    """Path of the node whose probe is drawn at a site: the rank-th best kept node at its depth."""
    return () if site.depth == 0 else [n for n in tree.nodes if n.depth == site.depth][site.rank].path


@dataclass(frozen=True)
class Turn:
    """One way a verification step can fall: the cells of its coin and its draw, and what comes of it.

    tokens: what it emits. drafted: whether that is a child's token, so that another step follows.
    `spread` is the probability of the coin's side: what rounding does to a draw is felt divided by it.
    """

    coin: Cell
    draw: Cell
    tokens: Tokens
    drafted: bool
    spread: Fraction

    @property
    def token(self) -> int:
        """The last token it emits."""
        return self.tokens[-1]

    @property
    def mass(self) -> Fraction:
        """Its probability in the step."""
        return self.coin.width * self.draw.width


def turns(p: Array, children: Children, rule: Rule, depth: int) -> list[Turn]:
    """Every way one step can fall, by enumerating the single-draw form of its rule.

    Where the weights are floats, slivers that rounding alone made are left out.
    """
    found = []
    for outcome in enumerate_outcomes(lambda choose: single_draw_step(p, children, rule, choose, depth)):
        if isinstance(outcome.mass, float) and outcome.mass < _SLIVER:
            continue
        cell = {d.site.name: cells(d.weights)[d.index] for d in outcome.decisions}
        coin = cell.get("coin", EVERYTHING)
        child, token = outcome.result
        found.append(Turn(coin, cell["draw"], (token,), child is not None, spread=coin.width))
    return found


def leaps(tree: Tree, target_at: TargetAt, rule: TreeRule) -> list[Turn]:
    """Every way a round can fall under a rule for the whole tree: its coin picks the node, its draw the token there."""
    tokens = {(): (), **{node.path: node.tokens for node in tree.nodes}}
    stops = rule.stops(tree, target_at)
    found = []
    for (path, density), coin in zip(stops.items(), cells(np.array([s.sum() for s in stops.values()])), strict=True):
        least = 0.0 if density.dtype == object else _SLIVER
        if coin.width > least:
            for token, draw in enumerate(cells(density)):
                if coin.width * draw.width > least:
                    found.append(Turn(coin, draw, (*tokens[path], token), False, spread=coin.width))
    return found


def by_coin(turns: Iterable[Turn]) -> dict[Cell, list[Turn]]:
    """The turns on each side of the step's coin, in the order given."""
    sides: dict[Cell, list[Turn]] = {}
    for turn in turns:
        sides.setdefault(turn.coin, []).append(turn)
    return sides


@dataclass(frozen=True)
class Stop:
    """A kept node of a class (or the root) with the ways its step can fall, and the turns that lead to it.

    Under a rule for the whole tree the root has the only step, which looks at no children. reach: the probability of
    coming there, given the class. key: equal for nodes whose step has the same law.
    """

    path: SlotPath
    tokens: Tokens
    children: Children | None
    turns: tuple[Turn, ...]
    route: tuple[Turn, ...]
    reach: Fraction
    key: object


def walk(
    tree: Tree, target_at: TargetAt, rule: Rule | TreeRule, cache: dict[object, tuple[Turn, ...]]
) -> Iterator[Stop]:
    """Every node of a tree that verification can reach, parents first; the route takes the likeliest turns."""
    if isinstance(rule, TreeRule):
        key: object = tree_key(tree)
        cache[key] = tuple(leaps(tree, target_at, rule))
        yield Stop((), (), None, cache[key], (), Fraction(1), key)
        return
    frontier: list[tuple[SlotPath, Tokens, tuple[Turn, ...], Fraction]] = [((), (), (), Fraction(1))]
    while frontier:
        path, tokens, route, reach = frontier.pop(0)
        p = target_at(tokens)
        children = survivors(tree, path, len(p))
        key = step_key(tokens, children)
        if key not in cache:
            cache[key] = tuple(turns(p, children, rule, len(path)))
        yield Stop(path, tokens, children, cache[key], route, reach, key)
        for node in tree.children(path):
            leading = [turn for turn in cache[key] if turn.drafted and turn.token == node.token]
            if leading:
                likeliest = max(leading, key=lambda turn: turn.mass)
                further = reach * sum(turn.mass for turn in leading)
                frontier.append((node.path, node.tokens, (*route, likeliest), further))
