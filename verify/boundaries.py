"""Where the cells of the torch sampler's decisions end, found by bisection from outside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from reference.distributions import Array
from reference.tree import Tokens, Tree
from verify.cases import Case
from verify.cells import Probe, Stop, Turn, by_coin, cells
from verify.player import Played, Player, Query
from verify.precision import Precision

Key = tuple[object, ...]

# Halvings of an interval 2 x inside wide: enough to fall below the dtype's own rounding.
HALVINGS = 12


@dataclass(frozen=True)
class Class:
    """One class: its tree and the probes drawn in it."""

    tree: Tree
    probes: tuple[Probe, ...]

    def prefix(self, i: int) -> Key:
        """What the boundaries of the i-th probe depend on: everything drawn before it."""
        return ("probe", *((probe.site, probe.index) for probe in self.probes[:i]), self.probes[i].site)


@dataclass(frozen=True)
class Boundary:
    """The end of a cell; `below` tells from a played round, and its row there, whether its `uniform` was below it.

    spread: the probability of the coin's side it is on. other: the narrowest of the cells that other uniforms must hit
    for the boundary to show (earlier probes; the step's draw or coin).
    """

    query: Query
    uniform: tuple[str, int]
    at: Fraction
    spread: Fraction
    other: Fraction
    below: Callable[[Played, int], bool]


def query_of(each: Class, case: Case, probes: dict[int, float], route: tuple[Turn, ...], others: float = 0.5) -> Query:
    """Uniforms that lead to the class and down the route: the middles of all cells, unless `probes` says otherwise."""
    middles = {case.config.expansion(probe.site.depth, probe.site.rank): probe.cell.middle for probe in each.probes}
    coins = {depth: turn.coin.middle for depth, turn in enumerate(route)}
    draws = {depth: turn.draw.middle for depth, turn in enumerate(route)}
    return Query({**middles, **probes}, coins, draws, others)


def probe_boundaries(each: Class, case: Case) -> Iterator[tuple[Key, Boundary]]:
    """The ends of the cells of every probe of a class, but for 0 and 1."""
    for i, probe in enumerate(each.probes):
        earlier = min((before.cell.width for before in each.probes[:i]), default=Fraction(1))
        for k in inner(probe.law):
            uniform = ("probes", case.config.expansion(probe.site.depth, probe.site.rank))
            high, query = cells(probe.law)[k].high, query_of(each, case, {}, ())
            boundary = Boundary(query, uniform, high, Fraction(1), earlier, drew(probe.position, probe.tokens[k]))
            yield (*each.prefix(i), k), boundary


def step_boundaries(each: Class, stop: Stop, case: Case) -> Iterator[tuple[Key, Boundary]]:
    """The ends of the cells of a step's coin, and of its draw on each side of the coin, but for 0 and 1."""
    depth = len(stop.path)
    sides = by_coin(stop.turns)
    for k, (side, turns) in enumerate(list(sides.items())[:-1]):
        if stop.children is None:
            shown = max(turns, key=lambda turn: turn.mass)
            below = stopped({turn.tokens[:-1] for turn in stop.turns if turn.coin.high <= side.high})
        else:
            shown = next(turn for turn in turns if turn.token == stop.children.probe)
            below = emitted(depth, shown.token)
        query = query_of(each, case, {}, (*stop.route, shown))
        yield ("coin", stop.key, k), Boundary(query, ("coins", depth), side.high, Fraction(1), shown.draw.width, below)
    for side, turns in sides.items():
        for turn in turns[:-1]:
            query = query_of(each, case, {}, (*stop.route, turn))
            key, below = ("draw", stop.key, side, turn.token), at_most(depth + len(turn.tokens) - 1, turn.token)
            yield key, Boundary(query, ("draws", depth), turn.draw.high, turn.spread, side.width, below)


def drew(place: int, token: int) -> Callable[[Played, int], bool]:
    """Whether the token at `place` of the drafted tree is at most `token`."""
    return lambda played, row: bool(played.drafted[row, place] <= token)


def at_most(place: int, token: int) -> Callable[[Played, int], bool]:
    """Whether the token at `place` of what was emitted is at most `token`."""
    return lambda played, row: bool(played.emitted[row, place] <= token)


def emitted(place: int, token: int) -> Callable[[Played, int], bool]:
    """Whether `token` stands at `place` of what was emitted: the probe whose coin it was."""
    return lambda played, row: bool(played.emitted[row, place] == token)


def stopped(at: Collection[Tokens]) -> Callable[[Played, int], bool]:
    """Whether the accepted tokens lead to one of these nodes."""
    return lambda played, row: played.start(row, int(played.accepted[row]))[0] in at


def inner(law: Array) -> list[int]:
    """Indices of positive weight [n], without the last: the cells that end before 1."""
    return [int(k) for k in np.flatnonzero(law)[:-1]]


def locate(player: Player, boundaries: dict[Key, Boundary], precision: Precision) -> tuple[dict[Key, float], list[str]]:
    """Every boundary by bisection, and a line for each that is not where it may be."""
    if not boundaries:
        return {}, []
    items = list(boundaries.values())
    numbers = player.numbers([b.query for b in items])
    columns = np.array([player.column(*b.uniform) for b in items])
    at = np.array([float(b.at) for b in items])
    within = np.array([precision.inside / float(b.spread) for b in items])
    low, high = np.maximum(at - within, 0.0), np.minimum(at + within, np.nextafter(1.0, 0.0))

    def below(uniform: NDArray[np.float64]) -> NDArray[np.bool_]:
        numbers[np.arange(len(items)), columns] = uniform
        played = player.play(numbers)
        return np.array([b.below(played, row) for row, b in enumerate(items)])

    # Where the boundary may be 0 or 1 itself, no uniform need be beyond it.
    right = (below(low) | (at <= within)) & (~below(high) | (at >= 1 - within))
    faults = [
        f"boundary of {b.uniform} is not within {w:.1e} of {b.at} under {b.query}"
        for b, w, ok in zip(items, within, right, strict=True)
        if not ok
    ]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        under = below(middle)
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    return dict(zip(boundaries, ((low + high) / 2).tolist(), strict=True)), faults
