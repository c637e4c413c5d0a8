"""The static tree that accepts most, by dynamic programming over a measured acceptance vector.

Source: Sequoia (Chen et al., 2024). Rates are taken to be the same at every node, so a node is worth the product of
the rates on its way, and the tree's sum of them is the expected number of accepted drafts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

from rheo.config import Config
from rheo.shapes import Shape, SlotPath, ordered


@dataclass(frozen=True)
class Acceptance:
    """rates: how often the first, second, ... child of a node is the one accepted; further children are never drawn.

    They need not fall, and may be Fractions or floats. ValueError unless each is in [0, 1] and the first is positive.
    """

    rates: tuple[Fraction | float, ...]

    def __post_init__(self) -> None:
        if not self.rates or not self.rates[0] > 0 or not all(0 <= rate <= 1 for rate in self.rates):
            raise ValueError(f"acceptance rates must lie in 0..1, the first above 0, got {self.rates}")


# Of what its elder siblings left, each child takes three fifths.
GEOMETRIC = Acceptance(tuple(Fraction(3, 5) * Fraction(2, 5) ** k for k in range(64)))


@dataclass(frozen=True)
class Optimal:
    """The best shape for a vector; of the configuration it reads slots, depth and budget."""

    acceptance: Acceptance = GEOMETRIC

    def __call__(self, config: Config) -> Shape:
        """At most `slots` children a node, `budget` nodes but the root, none below `depth`."""
        return best_shape(self.acceptance.rates[: config.slots], config.depth, config.budget)


@lru_cache(maxsize=64)
def best_shape(rates: tuple[Fraction | float, ...], depth: int, budget: int) -> Shape:
    """The shape with the largest sum of worths; among equals, elder children have the larger subtrees."""

    @cache
    def below(levels: int, nodes: int, child: int) -> tuple[Fraction | float, int]:
        """The most that `nodes` nodes are worth as subtrees of the children from `child` on, and the first one's size.

        Worths are relative to the parent's; `levels`: how deep they may reach below it.
        """
        best: tuple[Fraction | float, int] = (0, 0)
        if levels and child < len(rates):
            for size in range(nodes, 0, -1):
                inside = rates[child] * (1 + below(levels - 1, size - 1, 0)[0])
                worth = inside + below(levels, nodes - size, child + 1)[0]
                if worth > best[0]:
                    best = (worth, size)
        return best

    def paths(parent: SlotPath, levels: int, nodes: int) -> Iterator[SlotPath]:
        child = 0
        while size := below(levels, nodes, child)[1]:
            yield (*parent, child)
            yield from paths((*parent, child), levels - 1, size - 1)
            nodes, child = nodes - size, child + 1

    return ordered(list(paths((), depth, budget)))
