"""Shapes of trees that do not depend on what is drawn, for both implementations.

A shape lists all nodes but the root by their slot paths, by (depth, path): the children of a node are together, and
behind all nodes of smaller depth.
"""

from __future__ import annotations

from itertools import groupby

from rheo.config import Config

SlotPath = tuple[int, ...]
Shape = tuple[SlotPath, ...]


def ordered(paths: list[SlotPath]) -> Shape:
    """Slot paths in the order of a shape."""
    return tuple(sorted(paths, key=lambda path: (len(path), path)))


def complete(config: Config) -> Shape:
    """`slots` children everywhere, level by level from the left: the first `budget` nodes, none below `depth`."""
    shape: list[SlotPath] = []
    level: list[SlotPath] = [()]
    for _ in range(config.depth):
        level = [(*parent, slot) for parent in level for slot in range(config.slots)][: config.budget - len(shape)]
        shape += level
    return tuple(shape)


def families(shape: Shape) -> dict[SlotPath, range]:
    """The places in the shape of every parent's children, parents in the order of the shape."""
    found: dict[SlotPath, range] = {}
    for parent, group in groupby(range(len(shape)), key=lambda place: shape[place][:-1]):
        places = list(group)
        found[parent] = range(places[0], places[-1] + 1)
    return found
