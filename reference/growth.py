"""Layered growth: expand the best nodes depth by depth, then rerank all candidates.

Source: EAGLE-2's expand-then-rerank (Li et al., 2024), over slots as RheoSampling defines them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from reference.choose import Choose, Site
from reference.distributions import Array
from reference.order import total_order
from reference.slots import Slot, SlotPlan, draw_probe, drawn_slots, leading_slots
from reference.tree import Node, SlotPath, Tokens, Tree
from reference.truncation import Draft, truncate
from rheo.config import Config

DraftAt = Callable[[Tokens], Array]  # tokens since the root -> draft weights [vocab], untempered
Growth = Callable[[Draft, Config], SlotPlan]  # the slots of one parent
Order = Callable[[Node], Any]  # sort key, smaller first
Fill = Callable[[SlotPlan, int | None], list[Slot]]  # a parent's probe and fillers


@runtime_checkable
class TreeGrowth(Protocol):
    """A growth for the whole tree: not slots that compete, but any tree whose nodes carry the law they come from."""

    def grow(self, draft_at: DraftAt, config: Config, choose: Choose) -> Tree:
        """The draft tree of one round, parents before children; nothing may depend on what is drawn after it."""
        ...


ROOT = Node(path=(), tokens=(), kind="anchor", score=1)


def grow(
    draft_at: DraftAt,
    config: Config,
    growth: Growth | TreeGrowth,
    choose: Choose,
    order: Order = total_order,
    fill: Fill = drawn_slots,
) -> Tree:
    """The draft tree of one round. Every expanded node's probe is drawn, also those that rerank drops.

    `order` and `fill` are there for controls that must fail: any other order or score may be lossy.
    """
    if isinstance(growth, TreeGrowth):
        return growth.grow(draft_at, config, choose)
    plans: dict[SlotPath, SlotPlan] = {}
    candidates: list[Node] = []
    beam = [ROOT]
    for depth in range(config.depth):
        new: list[Node] = []
        for rank, parent in enumerate(beam):
            plan = growth(truncate(draft_at(parent.tokens), config.support, depth, parent.score), config)
            plans[parent.path] = plan
            probe = draw_probe(plan, choose, Site("probe", depth, rank))
            new += place(parent, leading_slots(plan) + fill(plan, probe))
        candidates += new
        beam = best(new, config.beam, order)
    return Tree(tuple(best(candidates, config.budget, order)), plans)


def place(parent: Node, slots: Sequence[Slot], first: int = 0) -> list[Node]:
    """The slots of a parent as nodes, at slot positions first, first + 1, ..."""
    return [
        Node((*parent.path, position), (*parent.tokens, token), kind, parent.score * score)
        for position, (kind, token, score) in enumerate(slots, start=first)
    ]


def best(nodes: Sequence[Node], count: int, order: Order) -> list[Node]:
    """The `count` first nodes in the given order."""
    return sorted(nodes, key=order)[:count]
