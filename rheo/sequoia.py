"""The static tree that accepts most, by dynamic programming over a measured acceptance vector.

Source: Sequoia (Chen et al., 2024). Rates are taken to be the same at every node, so a node is worth the product of
the rates on its way, and the tree's sum of them is the expected number of accepted drafts.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache, lru_cache

from rheo.config import Config
from rheo.shapes import Shape, SlotPath, ordered


def optimal(config: Config) -> Shape:
    """The best shape for the configuration's vector: `budget` nodes but the root, none below `depth`, at most `slots`
    children a node."""
    return best_shape(config.acceptance.rates[: config.slots], config.depth, config.budget)


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
