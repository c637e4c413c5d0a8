"""Verification of a draft tree against the target, from the root to the first token nobody proposed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from reference.choose import Choose, Site
from reference.distributions import Array
from reference.rules import Rule
from reference.rules.children import Children, Verdict
from reference.tree import Node, Path, SlotPath, Tokens, Tree

TargetAt = Callable[[Tokens], Array]  # tokens since the root -> p [vocab], after temperature and processors
Form = Literal["recursive", "single_draw"]


def verify(tree: Tree, target_at: TargetAt, rule: Rule, choose: Choose, form: Form = "recursive") -> Path:
    """Walk down the tree while children are accepted; emit one token more, which no child proposed."""
    accepted: list[Node] = []
    path: SlotPath = ()
    tokens: Tokens = ()
    while True:
        p = target_at(tokens)
        child, token = step(p, survivors(tree, path, len(p)), rule, choose, len(path), form)
        tokens = (*tokens, token)
        if child is None:
            return Path(tuple(accepted), tokens)
        node = next(node for node in tree.children(path) if node.token == child)
        accepted.append(node)
        path = node.path


def step(p: Array, children: Children, rule: Rule, choose: Choose, depth: int, form: Form) -> tuple[int | None, int]:
    """One node: the accepted child's token or None, and the token emitted. p [vocab] is the target there."""
    draw = Site("draw", depth)
    if form == "recursive":
        verdict: Verdict = rule.recursive(p, children, choose, depth)
        if verdict.accepted is not None:
            return verdict.accepted, verdict.accepted
        return None, choose(verdict.rest, draw)
    token = choose(rule.single_draw(p, children, choose, depth), draw)
    proposed = (*children.anchors, *children.fillers, *(() if children.probe is None else (children.probe,)))
    return (token if token in proposed else None), token


def survivors(tree: Tree, path: SlotPath, vocab: int) -> Children:
    """The surviving children of the node at `path`, as a rule wants them."""
    nodes = tree.children(path)
    probe = next((node.token for node in nodes if node.kind == "probe"), None)
    return Children(
        anchors=tuple(node.token for node in nodes if node.kind == "anchor"),
        probe=probe,
        fillers=tuple(node.token for node in nodes if node.kind == "filler"),
        law=None if probe is None else tree.plans[path].law_over(vocab),
    )
