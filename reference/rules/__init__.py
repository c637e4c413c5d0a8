"""Verification rules: how one node's surviving children are tested. One rule a file, one line here.

Every rule has two forms of the same law. `recursive` is the paper's: child after child against a running residual.
`single_draw` takes one coin and one draw, as the torch sampler does: it turns p into the distribution from which
one token is drawn, and a child is accepted when that token is its.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from reference.choose import Choose
from reference.distributions import Array
from reference.rules import point_mass, probe_first, rrsw
from reference.rules.children import Children, Verdict


class Recursive(Protocol):
    """Tests children one after the other; `depth` is the node's."""

    def __call__(self, p: Array, children: Children, choose: Choose, depth: int) -> Verdict: ...


class SingleDraw(Protocol):
    """Turns p [vocab] into the distribution [vocab] of the token that is drawn."""

    def __call__(self, p: Array, children: Children, choose: Choose, depth: int) -> Array: ...


@dataclass(frozen=True)
class Rule:
    """Both forms of a rule; p is the target distribution [vocab] at the node, `depth` the node's."""

    recursive: Recursive
    single_draw: SingleDraw


RULES: dict[str, Rule] = {
    "probe_first": Rule(probe_first.recursive, probe_first.single_draw),
    "rrsw": Rule(rrsw.recursive, rrsw.single_draw),
    "point_mass": Rule(point_mass.recursive, point_mass.single_draw),
}
