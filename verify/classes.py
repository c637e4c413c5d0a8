"""Equivalence classes of trees, the posterior of a surviving probe in each, and what every tree must satisfy.

A class of a surviving probe holds all trees that agree on everything ranked before it. Within a class the probe's
conditional law must be exactly q~: if it is not, pruning has looked at the probe's identity. This is checked apart
from the output law because it locates the fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from reference.choose import Choose
from reference.distributions import Array, Number
from reference.growth import DraftAt, Fill, Order, grow
from reference.methods import Method
from reference.order import total_order
from reference.slots import drawn_slots
from reference.tree import Node, SlotPath, Tokens, Tree
from rheo.config import Config
from verify.enumeration import enumerate_outcomes

Weighted = tuple[Number, Tree]
Shape = tuple[tuple[SlotPath, int], ...]  # slot path and token of every kept node, in the total order

RANK = {"anchor": 0, "probe": 1, "filler": 2}


def layered_trees(
    draft_at: DraftAt,
    config: Config,
    method: Method,
    limit: int | None = None,
    order: Order = total_order,
    fill: Fill = drawn_slots,
) -> Iterator[Weighted]:
    """Every tree of layered growth, all probes drawn, kept or not. TooManyOutcomesError beyond `limit`."""

    def run(choose: Choose) -> Tree:
        return grow(draft_at, config, method.growth, choose, order, fill)

    for outcome in enumerate_outcomes(run, limit):
        yield outcome.mass, outcome.result


def shape(tree: Tree) -> Shape:
    """What two trees are compared by."""
    return tuple((node.path, node.token) for node in tree.nodes)


def merged(trees: Iterable[Weighted]) -> dict[Shape, Weighted]:
    """Equal trees together, with the sum of their probabilities."""
    result: dict[Shape, Weighted] = {}
    for mass, tree in trees:
        before, _ = result.get(shape(tree), (0, tree))
        result[shape(tree)] = (before + mass, tree)
    return result


def posterior_faults(trees: Iterable[Weighted], tolerance: float = 0) -> list[str] | None:
    """A line for every class whose surviving probe is not distributed as q~; None if no probe survives.

    Nodes that were drawn one after the other must each be distributed as the law they carry. A tree may be part of one.
    """
    classes: dict[tuple[Shape, SlotPath, Tokens], dict[int, Number]] = {}
    due: dict[tuple[Shape, SlotPath, Tokens], dict[int, Number]] = {}
    for mass, tree in trees:
        before = shape(tree)
        for i, node in enumerate(tree.nodes):
            if node.kind in ("probe", "draw"):
                key = (before[:i], node.path, node.tokens[:-1])
                law = classes.setdefault(key, {})
                law[node.token] = law.get(node.token, 0) + mass
                if key not in due:
                    due[key] = law_of(tree, node)
    if not classes:
        return None
    faults = []
    for key, law in classes.items():
        total = sum(law.values())
        seen = {token: mass / total for token, mass in law.items()}
        wanted = due[key]
        if seen.keys() != wanted.keys() or any(abs(seen[t] - wanted[t]) > tolerance for t in wanted):
            faults.append(f"probe at slot path {key[1]} after {key[0]}: {seen}")
    return faults


def law_of(tree: Tree, node: Node) -> dict[int, Number]:
    """The law that a probe or a drawn node says it comes from: tokens of positive probability with theirs."""
    if node.kind == "draw":
        law = tree.laws[node.path]
        return positive(np.arange(len(law)), law)
    plan = tree.plans[node.path[:-1]]
    return positive(plan.tail, plan.tail_law)


def positive(tokens: Array, law: Array) -> dict[int, Number]:
    """Tokens [n] of positive probability with theirs."""
    return {int(token): mass for token, mass in zip(tokens, law, strict=True) if mass > 0}


def invariant_faults(tree: Tree, config: Config) -> list[str]:
    """A line for everything that is wrong with the shape of a tree."""
    faults = []
    place = {node.path: i for i, node in enumerate(tree.nodes)}
    if len(tree.nodes) > config.budget:
        faults.append(f"{len(tree.nodes)} nodes kept, budget {config.budget}")
    if len(place) < len(tree.nodes):
        faults.append("two nodes share a slot path")
    for i, node in enumerate(tree.nodes):
        parent = node.path[:-1]
        if parent and place.get(parent, i) >= i:
            faults.append(f"{node.path} is not behind its parent")
        if node.depth > config.depth:
            faults.append(f"{node.path} is deeper than {config.depth}")
        if i and total_order(tree.nodes[i - 1]) >= total_order(node):
            faults.append(f"{tree.nodes[i - 1].path} and {node.path} are not in the total order")
    parents = Counter(len(path) for path in {node.path[:-1] for node in tree.nodes})
    faults += [f"{n} parents at depth {d}" for d, n in parents.items() if n > (config.beam if d else 1)]
    for path in {node.path[:-1] for node in tree.nodes}:
        faults += _sibling_faults(tree.children(path))
    return faults


def _sibling_faults(children: tuple[Node, ...]) -> Iterator[str]:
    tokens = [node.token for node in children]
    if len(set(tokens)) < len(tokens):
        yield f"siblings repeat a token: {tokens}"
    kinds = [node.kind for node in children]
    if sorted(kinds, key=RANK.__getitem__) != kinds or kinds.count("probe") > 1:
        yield f"slots out of order: {kinds}"
    if "filler" in kinds and "probe" not in kinds:
        yield "a filler survived without the probe"
