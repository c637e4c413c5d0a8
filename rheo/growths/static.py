"""Trees whose shape is settled before anything is drawn: every node's children are drawn from q_T."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from rheo.config import Config
from rheo.distributions import inverse_cdf, temper, unusable
from rheo.growth import Drafter, drafts_of
from rheo.shapes import Shape, families
from rheo.tree import Frontier, Tree
from rheo.truncation import Draft


@dataclass(frozen=True)
class _Level:
    """The parents at one depth: places [b] of theirs in the shape, and parents [b], positions in the level before;
    children [b, w], places of theirs, one behind the shape where a parent has fewer."""

    places: Tensor
    parents: Tensor
    children: Tensor


@dataclass(frozen=True)
class Static:
    """A shape, and whether siblings may repeat a token: if not, each is drawn from what those before left of q_T."""

    shape: Callable[[Config], Shape]
    repeats: bool

    def grow(self, drafter: Drafter, probe: Tensor, config: Config) -> Tree:
        """The draft trees of one round: the node at each place of the shape by the uniform of that number.

        By inverse CDF in ascending token id. Where nothing is left to draw a node is not occupied.
        """
        shape = self.shape(config)
        levels, layout = _pattern(shape, probe.device)
        n, size = len(probe), len(shape)
        uniforms = torch.cat([probe[:, :size], probe[:, :1]], 1)  # padding draws too, and writes behind the end
        tokens = torch.zeros(n, size + 1, dtype=torch.int64, device=probe.device)
        occupied = torch.zeros(n, size + 1, dtype=torch.bool, device=probe.device)
        drafts: list[Draft] = []
        laws: list[Tensor] = []
        frontier = None
        for depth, level in enumerate(levels):
            here = level.places.expand(n, -1)
            alive = occupied.gather(1, here) if depth else torch.ones_like(here, dtype=torch.bool)
            frontier = Frontier(depth, tokens.gather(1, here), level.parents.expand(n, -1), alive, frontier)
            draft = drafts_of(drafter, frontier, config)
            law = temper(draft.logits, draft.candidate, float(config.temperature))
            ascending = draft.tokens.argsort(-1)
            left = law.gather(-1, ascending)
            for places in level.children.unbind(-1):
                position = inverse_cdf(left, uniforms[:, places])
                drawn = position < left.shape[-1]
                position = (position * drawn).unsqueeze(-1)
                tokens[:, places] = draft.tokens.gather(-1, ascending.gather(-1, position)).squeeze(-1)
                occupied[:, places] = drawn & alive
                left = left if self.repeats else left.scatter(-1, position, 0.0)
            drafts.append(draft)
            laws.append(law)
        depths, slots, parents, expansion = layout
        kept = occupied[:, :size]
        return Tree(
            tokens=tokens[:, :size],
            depths=depths.expand(n, -1),
            slots=slots.expand(n, -1),
            parents=parents * kept,
            occupied=kept,
            scores=torch.ones(n, size, dtype=torch.float64, device=probe.device),
            expansion=expansion.expand(n, -1),
            anchors=0,
            support=torch.cat([draft.tokens for draft in drafts], 1),
            tail_law=torch.cat(laws, 1),
            fault=torch.cat([unusable(draft.largest) for draft in drafts], 1) & _alive(frontier),
            drawn=int(levels[0].children.shape[1]) if levels else 1,
        )


def _alive(frontier: Frontier | None) -> Tensor:
    """bool [N, E]: the occupied nodes of all frontiers up to this one."""
    rows = []
    while frontier is not None:
        rows.append(frontier.occupied)
        frontier = frontier.previous
    return torch.cat(rows[::-1], 1)


@lru_cache(maxsize=64)
def _pattern(shape: Shape, device: torch.device) -> tuple[tuple[_Level, ...], tuple[Tensor, Tensor, Tensor, Tensor]]:
    """The levels of a shape; and depths, slots, parents' rows [R] and expansions [R + 1] of its nodes."""
    place = {path: i for i, path in enumerate(shape)}
    found = families(shape)
    rank: dict[tuple[int, ...], int] = {}
    levels = []
    for depth in range(max(map(len, found)) + 1):
        parents = [path for path in found if len(path) == depth]
        width = max(len(found[path]) for path in parents)
        children = [[*found[path], *[len(shape)] * (width - len(found[path]))] for path in parents]
        columns = ([place.get(path, 0) for path in parents], [rank.get(path[:-1], 0) for path in parents], children)
        levels.append(_Level(*(torch.tensor(column, device=device) for column in columns)))
        rank.update((path, i) for i, path in enumerate(parents))
    order = {path: i for i, path in enumerate(found)}
    layout = (
        [len(path) for path in shape],
        [path[-1] for path in shape],
        [place[path[:-1]] + 1 if len(path) > 1 else 0 for path in shape],
        [order.get(path, -1) for path in ((), *shape)],
    )
    depths, slots, rows, expansion = (torch.tensor(column, device=device) for column in layout)
    return tuple(levels), (depths, slots, rows, expansion)
