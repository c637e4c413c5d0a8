"""Best-first growth that draws a probe only when its slot is reached.

It gives the same trees as layered growth, because everything that outranks a slot is an ancestor, an earlier slot,
or a node whose whole ancestry outranks it. Probes that are never reached are never drawn, so an enumerator meets
exponentially fewer classes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from fractions import Fraction

from reference.choose import Choose, Site
from reference.growth import ROOT, DraftAt, Growth, TreeGrowth, place
from reference.order import total_order
from reference.slots import SlotPlan, draw_probe, drawn_slots, leading_slots
from reference.tree import Node, SlotPath, Tree
from reference.truncation import truncate
from rheo.config import Config


def grow(draft_at: DraftAt, config: Config, growth: Growth | TreeGrowth, choose: Choose) -> Tree:
    """The draft tree of one round; `choose` is asked only for the probes that are kept."""
    if isinstance(growth, TreeGrowth):
        return growth.grow(draft_at, config, choose)
    plans: dict[SlotPath, SlotPlan] = {}
    expanded: dict[SlotPath, tuple[Node, int]] = {}  # node and its rank among those expanded at its depth
    at_depth: Counter[int] = Counter()
    kept: list[Node] = []
    heap: list[tuple[tuple[Fraction | int, int, SlotPath], Node]] = []

    def push(nodes: list[Node]) -> None:
        for node in nodes:
            heapq.heappush(heap, (total_order(node), node))

    def expand(parent: Node) -> None:
        plan = growth(truncate(draft_at(parent.tokens), config.support, parent.depth, parent.score), config)
        plans[parent.path] = plan
        expanded[parent.path] = (parent, at_depth[parent.depth])
        at_depth[parent.depth] += 1
        push(place(parent, leading_slots(plan)))
        if plan.proxy is not None:  # the probe's slot, its token still unknown
            push(place(parent, [("probe", -1, plan.proxy)], first=len(plan.anchors)))

    expand(ROOT)
    while heap and len(kept) < config.budget:
        _, node = heapq.heappop(heap)
        if node.kind == "probe":
            parent, rank = expanded[node.path[:-1]]
            plan = plans[parent.path]
            probe = draw_probe(plan, choose, Site("probe", parent.depth, rank))
            node, *fillers = place(parent, drawn_slots(plan, probe), first=len(plan.anchors))
            push(fillers)
        kept.append(node)
        if node.depth < config.depth and at_depth[node.depth] < config.beam:
            expand(node)
    return Tree(tuple(kept), plans)
