"""Verification rules: how one node's surviving children are tested. One rule a file, one line here.

A rule turns p into the weights from which one token is drawn; a child is accepted when that token is its. The
paper's child-after-child recursion has the same law (the reference holds both forms).
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from rheo.rules import point_mass, probe_first, rrsw
from rheo.rules.children import Children

Rule = Callable[[Tensor, Children, Tensor], Tensor]  # p [N, V], children, coin [N] -> weights [N, V]

RULES: dict[str, Rule] = {
    "probe_first": probe_first.single_draw,
    "rrsw": rrsw.single_draw,
    "point_mass": point_mass.single_draw,
}
