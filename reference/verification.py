"""Verification of a draft tree against the target, from the root to the first token nobody proposed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reference.choose import Choose, Site
from reference.distributions import Array, normalise
from reference.rules import Rule, TreeRule
from reference.rules.children import Children
from reference.tree import Node, Path, SlotPath, TargetAt, Tokens, Tree

# One node: p [vocab], children, rule, randomness, depth -> the accepted child's token or None, and the token emitted.
Step = Callable[[Array, Children, Rule, Choose, int], tuple[int | None, int]]


def recursive_step(p: Array, children: Children, rule: Rule, choose: Choose, depth: int) -> tuple[int | None, int]:
    """The paper's form: child after child against a running residual, then a draw from what is left.

    What is left holds no refused child, but for K-SEQ, whose factor is rounded: a child drawn there is accepted too.
    """
    verdict = rule.recursive(p, children, choose, depth)
    if verdict.accepted is not None:
        return verdict.accepted, verdict.accepted
    token = choose(verdict.rest, Site("draw", depth))
    return (token if token in children.tokens else None), token


def single_draw_step(p: Array, children: Children, rule: Rule, choose: Choose, depth: int) -> tuple[int | None, int]:
    """The torch sampler's form, equal in law: one draw, which accepts the child whose token it is."""
    token = choose(rule.single_draw(p, children, choose, depth), Site("draw", depth))
    return (token if token in children.tokens else None), token


def verify(tree: Tree, target_at: TargetAt, rule: Rule | TreeRule, choose: Choose, step: Step = recursive_step) -> Path:
    """The nodes that are accepted, and one token more, which no child of the last of them proposed."""
    if isinstance(rule, TreeRule):
        return leap(tree, rule.stops(tree, target_at), choose)
    return walk(tree, target_at, rule, choose, step)


def leap(tree: Tree, stops: dict[SlotPath, Array], choose: Choose) -> Path:
    """Draw the node to stop at, the root first, and the token emitted there: one decision each."""
    paths = list(stops)
    at = paths[choose(normalise(np.array([stops[path].sum() for path in paths])), Site("stop", 0))]
    token = choose(normalise(stops[at]), Site("draw", 0))
    accepted = tuple(node for node in tree.nodes if node.path == at[: node.depth])
    return Path(accepted, (*(node.token for node in accepted), token))


def walk(tree: Tree, target_at: TargetAt, rule: Rule, choose: Choose, step: Step) -> Path:
    """Go down the tree, node by node, while children are accepted."""
    accepted: list[Node] = []
    path: SlotPath = ()
    tokens: Tokens = ()
    while True:
        p = target_at(tokens)
        child, token = step(p, survivors(tree, path, len(p)), rule, choose, len(path))
        tokens = (*tokens, token)
        if child is None:
            return Path(tuple(accepted), tokens)
        node = next(node for node in tree.children(path) if node.token == child)
        accepted.append(node)
        path = node.path


def survivors(tree: Tree, path: SlotPath, vocab: int) -> Children:
    """The surviving children of the node at `path`, as a rule wants them."""
    nodes = tree.children(path)
    probe = next((node.token for node in nodes if node.kind == "probe"), None)
    return Children(
        anchors=tuple(node.token for node in nodes if node.kind == "anchor"),
        probe=probe,
        fillers=tuple(node.token for node in nodes if node.kind == "filler"),
        law=None if probe is None else tree.plans[path].law_over(vocab),
        draws=tuple(node.token for node in nodes if node.kind == "draw"),
        laws=tuple(tree.laws[node.path] for node in nodes if node.kind == "draw"),
    )
