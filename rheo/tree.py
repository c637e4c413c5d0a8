"""The records that flow from growth to verification. All tensors are batch first and of static shape."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

ANCHOR, PROBE, FILLER = 0, 1, 2


@dataclass(frozen=True)
class Frontier:
    """The nodes that are expanded next: N requests x b nodes, best first; what a drafter is called with.

    depth: theirs, 0 for the root alone. tokens: int64 [N, b] (at the root: 0, meaningless).
    parents: int64 [N, b], positions in the previous frontier; previous: that frontier, None at the root.
    occupied: bool [N, b]; the rest is padding, for which the drafter may return anything.
    """

    depth: int
    tokens: Tensor
    parents: Tensor
    occupied: Tensor
    previous: Frontier | None

    @property
    def paths(self) -> Tensor:
        """int64 [N, b, depth]: the tokens from the root to each node."""
        if self.previous is None:
            return self.tokens.unsqueeze(-1)[..., :0]
        above = self.previous.paths
        index = self.parents.unsqueeze(-1).expand(-1, -1, above.shape[-1])
        return torch.cat([above.gather(1, index), self.tokens.unsqueeze(-1)], -1)


@dataclass(frozen=True)
class Tree:
    """Draft trees of N requests: R kept nodes in the total order. Row 0 is the root, row i + 1 is node i.

    tokens, depths, slots (position among the parent's): int64 [N, R]. parents: int64 [N, R], rows, each before
    the node's own.
    occupied: bool [N, R]; false where a request has fewer nodes. scores: float64 [N, R].
    expansion: int64 [N, R + 1], where a row's truncated support lies along E, -1 if the row was not expanded.
    anchors: how many of a parent's first slots hold anchors: its support's first tokens.
    support: int64 [N, E, S], token ids; tail_law: float64 [N, E, S - anchors or 0], q~ of those behind the anchors.
    fault: bool [N, E], expansions whose draft logits were not usable.
    drawn: how many of a parent's next slots hold tokens that were drawn: the probe, or all children of a fixed shape.
    leading: int64 [N, R], the anchors of every node's parent where parents differ; `anchors` is 0 then, and q~ is 0 at
    them. Only rules for the whole tree take that.
    """

    tokens: Tensor
    depths: Tensor
    slots: Tensor
    parents: Tensor
    occupied: Tensor
    scores: Tensor
    expansion: Tensor
    anchors: int
    support: Tensor
    tail_law: Tensor
    fault: Tensor
    drawn: int = 1
    leading: Tensor | None = None

    @property
    def kinds(self) -> Tensor:
        """int64 [N, R]: ANCHOR, PROBE or FILLER."""
        first = self.anchors if self.leading is None else self.leading
        return (self.slots >= first).long() + (self.slots >= first + self.drawn).long()


@dataclass(frozen=True)
class Path:
    """What verification emits for N requests.

    tokens: int64 [N, D + 1], -1 behind the end. rows: int64 [N, D + 1], the tree row of each token that was
    drafted, -1 for the last one and behind the end. lengths: int64 [N], tokens emitted, 1 to D + 1.
    """

    tokens: Tensor
    rows: Tensor
    lengths: Tensor
