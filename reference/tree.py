"""The records that flow from growth to verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from reference.distributions import Array, Number
from reference.slots import SlotPlan

Kind = Literal["anchor", "probe", "filler", "draw"]
SlotPath = tuple[int, ...]  # slot positions from the root; () is the root
Tokens = tuple[int, ...]
TargetAt = Callable[[Tokens], Array]  # tokens since the root -> p [vocab], after temperature and processors


@dataclass(frozen=True)
class Node:
    """One drafted token. `path` gives its place by slot positions, `tokens` by token ids from the root.

    kind "draw": one of several siblings that were drawn one after the other, where there is no slot plan.
    """

    path: SlotPath
    tokens: Tokens
    kind: Kind
    score: Number

    @property
    def token(self) -> int:
        return self.tokens[-1]

    @property
    def depth(self) -> int:
        return len(self.path)


@dataclass(frozen=True)
class Tree:
    """The kept nodes in the total order, and the slot plan of every expanded node by its slot path.

    laws: the law [vocab] that each node of kind "draw" was drawn from, given all that was drawn before it.
    """

    nodes: tuple[Node, ...]
    plans: Mapping[SlotPath, SlotPlan]
    laws: Mapping[SlotPath, Array] = field(default_factory=dict)

    @cached_property
    def _children(self) -> dict[SlotPath, tuple[Node, ...]]:
        grouped: dict[SlotPath, list[Node]] = {}
        for node in self.nodes:
            grouped.setdefault(node.path[:-1], []).append(node)
        return {parent: tuple(sorted(nodes, key=lambda n: n.path)) for parent, nodes in grouped.items()}

    def children(self, path: SlotPath) -> tuple[Node, ...]:
        """Surviving children of the node at `path`, in slot order."""
        return self._children.get(path, ())


@dataclass(frozen=True)
class Path:
    """What verification emits: the accepted nodes, and the tokens including the last, undrafted one."""

    accepted: tuple[Node, ...]
    tokens: Tokens
