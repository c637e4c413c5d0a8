"""Where the cells of the torch sampler's decisions end, found by bisection from outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from reference.distributions import Array
from reference.tree import Tree
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
    """The end of a cell. A round played with `uniform` of the query moved is below it if the token at `place` of the
    drafted tree, or of what was emitted, is at most (for a coin: exactly) `token`.

    spread: the probability of the coin's side it is on. other: the narrowest of the cells that other uniforms must hit
    for the boundary to show (earlier probes; the step's draw or coin).
    """

    query: Query
    uniform: tuple[str, int]
    at: Fraction
    spread: Fraction
    other: Fraction
    place: int
    token: int


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
            boundary = Boundary(query, uniform, high, Fraction(1), earlier, probe.position, probe.tokens[k])
            yield (*each.prefix(i), k), boundary


def step_boundaries(each: Class, stop: Stop, case: Case) -> Iterator[tuple[Key, Boundary]]:
    """The ends of the cells of a step's coin, and of its draw on each side of the coin, but for 0 and 1."""
    depth = len(stop.path)
    sides = by_coin(stop.turns)
    if len(sides) > 1:
        accepting = next(t for t in stop.turns if t.coin.low == 0 and t.token == stop.children.probe)
        query = query_of(each, case, {}, (*stop.route, accepting))
        high, width = accepting.coin.high, accepting.draw.width
        yield ("coin", stop.key), Boundary(query, ("coins", depth), high, Fraction(1), width, depth, accepting.token)
    for side, turns in sides.items():
        for turn in turns[:-1]:
            query = query_of(each, case, {}, (*stop.route, turn))
            key = ("draw", stop.key, side, turn.token)
            yield key, Boundary(query, ("draws", depth), turn.draw.high, turn.spread, side.width, depth, turn.token)


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
        return np.array([is_below(b, played, row) for row, b in enumerate(items)])

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


def is_below(boundary: Boundary, played: Played, row: int) -> bool:
    """Whether a round's uniform was below the boundary, told from its outcome."""
    kind, _ = boundary.uniform
    if kind == "probes":
        return bool(played.drafted[row, boundary.place] <= boundary.token)
    token = played.emitted[row, boundary.place]
    return bool(token == boundary.token if kind == "coins" else token <= boundary.token)
