"""The two ideas on one small case, step by step: what slots are worth, and how mass moves through a tree.

Everything is exact, and said by the reference: the densities after a few nodes are those that its rule gives for a tree
of these nodes alone. Numbers are strings such as "3/4".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from reference import lazy
from reference.choose import Site
from reference.distributions import Array, Number
from reference.growth import ROOT, place
from reference.methods import METHODS
from reference.rules import transport
from reference.rules.children import acceptance
from reference.slots import drawn_slots, leading_slots
from reference.tree import Node, SlotPath, Tree
from verify.cases import Case, load
from verify.laws import classes_of, compose, draft_of, exact_law, exact_stops, target_of, total_variation

Record = dict[str, Any]

WORKED = Path(__file__).with_name("data") / "explained" / "worked.json"
_GROWTHS = {"paper": "rheo", "calibrated": "calibrated"}  # each with the method that has it
_AVERAGED = ("rheo", "rheo-transport", "calibrated", "calibrated-transport")


def explanation(case: Case | None = None) -> Record:
    """A case of rational temperature, by default the packaged one, whose growths have a probe at the root."""
    case = load(WORKED) if case is None else case
    trees = {name: _tree(case, method) for name, method in _GROWTHS.items()}
    target_at = target_of(case)
    first = METHODS["rheo"].rule
    return {
        "schema": 1,
        "kind": "explanation",
        "case": case.name,
        "config": {key: getattr(case.config, key) for key in ("anchors", "slots", "beam", "depth", "budget")},
        "p": _said(target_at(())),
        "q": _said(draft_of(case)(()) / draft_of(case)(()).sum()),
        "growth": {name: {"slots": _slots(tree), "nodes": _nodes(tree)} for name, tree in trees.items()},
        "steps": _steps(case, trees["paper"]),
        "given_tree": {
            "probe-first": str(compose([(1, trees["paper"])], exact_stops(target_at, first)).accepted + 1),
            "transport": str(_tau(transport.stops(trees["paper"], target_at))),
        },
        "averaged": {name: str(exact_law(case, METHODS[name])[0].accepted + 1) for name in _AVERAGED},
    }


def likeliest(weights: Array, site: Site) -> int:
    """As a choice: every probe is the likeliest token of its law, the first of several."""
    return int(np.argmax(weights))


def _tree(case: Case, method: str) -> Tree:
    return lazy.grow(draft_of(case), case.config, METHODS[method].growth, likeliest)


def _said(values: Sequence[Number] | Array) -> list[str]:
    return [str(value) for value in values]


def _rows(tree: Tree) -> dict[SlotPath, int]:
    return {(): 0, **{node.path: row for row, node in enumerate(tree.nodes, start=1)}}


def _nodes(tree: Tree) -> list[Record]:
    """Every kept node, in the total order."""
    row = _rows(tree)
    return [
        {
            "row": row[node.path],
            "parent": row[node.path[:-1]],
            "token": node.token,
            "kind": node.kind,
            "score": str(node.score),
        }
        for node in tree.nodes
    ]


def _slots(tree: Tree) -> list[Record]:
    """The root's slots with what each is worth, and whether it was kept."""
    plan, row = tree.plans[()], _rows(tree)
    drawn = next(node.token for node in tree.children(()) if node.kind == "probe")
    position = [int(token) for token in plan.tail].index(drawn)
    slots = place(ROOT, [*leading_slots(plan), *drawn_slots(plan, position)])
    return [
        {"token": slot.token, "kind": slot.kind, "score": str(slot.score), "row": row.get(slot.path)} for slot in slots
    ]


def _steps(case: Case, tree: Tree) -> list[Record]:
    """The stop densities before the first node and after each."""
    target_at = target_of(case)
    found: list[Record] = []
    before: dict[SlotPath, Array] = {}
    for count in range(len(tree.nodes) + 1):
        densities = transport.stops(replace(tree, nodes=tree.nodes[:count]), target_at)
        moved = _moved(tree, tree.nodes[count - 1], before) if count else None
        found.append(
            {
                "node": count,
                "moved": moved,
                "densities": [_said(density) for density in densities.values()],
                "masses": _said([density.sum() for density in densities.values()]),
                "tv": str(_distance(case, count)),
            }
        )
        before = densities
    return found


def _moved(tree: Tree, node: Node, before: dict[SlotPath, Array]) -> Record:
    """What a node is offered (law), what of it its parent's density covers (o, summing to M), the chance to accept it
    (a), and the factor for all that was there."""
    density = before[node.path[:-1]]
    law = transport.proposal(tree, node, density)
    covered, accepted = np.minimum(law, density), acceptance(density, node.token, law)
    total = covered.sum()
    scale = (1 - accepted) / (1 - total) if total < 1 else 0 * total
    return {"law": _said(law), "o": _said(covered), "M": str(total), "a": str(accepted), "scale": str(scale)}


def _distance(case: Case, count: int) -> Number:
    """How far the law of a round is from the target's, averaged over the probes, when the tree ends with this node."""
    target_at, length = target_of(case), case.config.depth + 1
    method = METHODS["rheo-transport"]
    trees: list[tuple[Number, Tree]] = [(1, Tree((), {}))]
    if count:
        # The nodes that a smaller budget keeps are the first of those that a larger one does.
        classes = classes_of(draft_of(case), replace(case.config, budget=count), method)
        trees = [(each.mass, each.result) for each in classes]
    return total_variation(compose(trees, exact_stops(target_at, method.rule)), target_at, length)


def _tau(densities: dict[SlotPath, Array]) -> Number:
    """Expected tokens of a round: the deeper it stops, the more."""
    return 1 + sum(len(path) * density.sum() for path, density in densities.items())
