"""Tree-wide transport: verification against the law of the whole outcome, not against one node's p.

The stop density s_u(y) is the probability that the output follows the tree to u, emits y and stops there. Nodes are
taken in the total order: each takes over as much of its parent's density as the law it was drawn from can cover.
Source: docs/theory.md, "Transport over the whole tree"; on a chain it is block verification (Sun et al., 2024).
"""

from __future__ import annotations

import numpy as np

from reference.distributions import Array
from reference.rules.children import acceptance
from reference.tree import Node, SlotPath, TargetAt, Tree


def stops(tree: Tree, target_at: TargetAt) -> dict[SlotPath, Array]:
    """The stop densities [vocab] of the root and of all kept nodes, in the total order, the root first."""
    densities: dict[SlotPath, Array] = {(): target_at(())}
    for node in tree.nodes:
        density = densities[node.path[:-1]]
        law = proposal(tree, node, density)
        overlap = np.minimum(law, density)
        covered, accepted = overlap.sum(), acceptance(density, node.token, law)
        densities[node.path[:-1]] = density - overlap
        # A node that is no probe leaves the others as they are: accepted and covered are the same then.
        rest = (1 - accepted) / (1 - covered) if covered < 1 else 0 * covered
        if rest != 1:
            densities = {path: rest * each for path, each in densities.items()}
        densities[node.path] = accepted * target_at(node.tokens)
    return densities


def proposal(tree: Tree, node: Node, like: Array) -> Array:
    """The law [vocab] that a node's token was drawn from, given all before it; all mass on it where none was drawn."""
    if node.kind == "probe":
        return tree.plans[node.path[:-1]].law_over(len(like))
    if node.kind == "draw":
        return tree.laws[node.path]
    point = 0 * like
    point[node.token] = 1 + point[node.token]
    return point
