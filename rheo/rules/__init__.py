"""Verification rules, for one node or for the whole tree. One rule a file, one line here.

A rule for one node is walked down the tree: it turns p into the weights from which one token is drawn; a child is
accepted when that token is its. The paper's child-after-child recursion has the same law (the reference holds both
forms). A rule for the whole tree says at once how likely a round is to stop at each row, and what it emits there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from rheo.rules import k_seq, multi_round, point_mass, probe_first, rrsw, transport
from rheo.rules.children import Children
from rheo.rules.stops import Stops
from rheo.tree import Tree

Rule = Callable[[Tensor, Children, Tensor], Tensor]  # p [N, V], children, coin [N] -> weights [N, V]


@dataclass(frozen=True)
class TreeRule:
    """A rule for the whole tree: stops(tree, logits of p [N, R + 1, V])."""

    stops: Callable[[Tree, Tensor], Stops]


RULES: dict[str, Rule] = {
    "probe_first": probe_first.single_draw,
    "rrsw": rrsw.single_draw,
    "point_mass": point_mass.single_draw,
    "multi_round": multi_round.independent,
    "multi_round_distinct": multi_round.distinct,
    "k_seq": k_seq.single_draw,
}
TREE_RULES: dict[str, TreeRule] = {"transport": TreeRule(transport.stops)}
