"""Verification rules, for one node or for the whole tree. One rule a file, one line here.

A rule for one node tests its surviving children and is walked down the tree. It has two forms of the same law.
`recursive` is the paper's: child after child against a running residual. `single_draw` takes one coin and one draw, as
the torch sampler does: it turns p into the distribution from which one token is drawn, and a child is accepted when
that token is its.

A rule for the whole tree says at once how likely a round is to stop at each node, and what it emits there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from reference.choose import Choose
from reference.distributions import Array
from reference.rules import k_seq, multi_round, point_mass, probe_first, rrsw, transport
from reference.rules.children import Children, Verdict
from reference.tree import SlotPath, TargetAt, Tree


class Recursive(Protocol):
    """Tests children one after the other; `depth` is the node's."""

    def __call__(self, p: Array, children: Children, choose: Choose, depth: int) -> Verdict: ...


class SingleDraw(Protocol):
    """Turns p [vocab] into the distribution [vocab] of the token that is drawn."""

    def __call__(self, p: Array, children: Children, choose: Choose, depth: int) -> Array: ...


@dataclass(frozen=True)
class Rule:
    """Both forms of a rule for one node; p is the target distribution [vocab] at the node, `depth` the node's."""

    recursive: Recursive
    single_draw: SingleDraw


class Stops(Protocol):
    """Densities [vocab] of the token emitted where the round stops, by slot path, () the root's.

    Every kept node has one, and all of them together sum to 1: the sum of one is the probability to stop there.
    """

    def __call__(self, tree: Tree, target_at: TargetAt) -> dict[SlotPath, Array]: ...


@dataclass(frozen=True)
class TreeRule:
    """A rule for the whole tree."""

    stops: Stops


RULES: dict[str, Rule] = {
    "probe_first": Rule(probe_first.recursive, probe_first.single_draw),
    "rrsw": Rule(rrsw.recursive, rrsw.single_draw),
    "point_mass": Rule(point_mass.recursive, point_mass.single_draw),
    "multi_round": Rule(multi_round.recursive, multi_round.single_draw),
    "k_seq": Rule(k_seq.recursive, k_seq.single_draw),
}
TREE_RULES: dict[str, TreeRule] = {"transport": TreeRule(transport.stops)}
